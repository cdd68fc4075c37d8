"""The demo: the built-in dates table as files, and the run that is trained on it, resumed if it was interrupted."""

from __future__ import annotations

from pathlib import Path

from glassformer.data.datasets import dates
from glassformer.data.pairs import fingerprint
from glassformer.errors import RunError
from glassformer.planning.plan import Plan, plan
from glassformer.planning.recipes.overrides import read_recipe
from glassformer.settings import TrainingSettings
from glassformer.storage.files import write_text
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.rundirectory import RunDirectory

N_TRAIN, N_TEST = 9_000, 1_000


class Demo:
    """The demo in a directory. Raises SettingsError for a seed that no run can have."""

    def __init__(self, folder: Path, seed: int = 1) -> None:
        TrainingSettings(seed=seed)
        self.folder, self.seed = folder, seed
        self.table, self.test_table = folder / "dates.csv", folder / "dates-test.csv"
        self.run = RunDirectory(folder / "run")
        pairs = dates(N_TRAIN + N_TEST, seed)
        self._train_pairs, self.test_pairs = pairs[:N_TRAIN], pairs[N_TRAIN:]

    def write_tables(self) -> bool:
        """Write both tables. Returns whether the model of this seed is trained already.

        Raises RunError, before anything is written, when the directory holds a table or a run of another origin.
        """
        run, is_trained = self.run, False
        run.finish_move()
        run.check_free(overwrite=True)
        if run.model.exists():
            model = ModelFile.load(run.model)
            seed = model.settings.training.seed
            _check_origin(run.path, model.data.fingerprint == fingerprint(dates(N_TRAIN + N_TEST, seed)[:N_TRAIN]))
            is_trained = seed == self.seed and run.card.exists()
        contents = dict[Path, str]()
        for path, pairs in ((self.table, self._train_pairs), (self.test_table, self.test_pairs)):
            contents[path] = "iso,english\n" + "".join(f'{iso},"{english}"\n' for iso, english in pairs)
            is_same = not path.exists() or (path.is_file() and path.read_bytes() == contents[path].encode())
            _check_origin(path, is_same or run.recipe.exists())  # next to a run of the demo, it is the demo's too
        for path, text in contents.items():
            write_text(path, text)
        return is_trained

    def plan(self) -> Plan:
        """Plan the run on the table; an interrupted run of this seed is resumed."""
        run, resume = self.run, False
        if run.resume.exists() and run.recipe.exists():
            resume = read_recipe(run.recipe).get("training", {}).get("seed") == self.seed
        overrides = {} if resume else {"training.seed": self.seed, "data.header": "yes"}
        return plan(self.table, run.path, overrides=overrides, resume=resume, overwrite=not resume)


def _check_origin(path: Path, is_of_demo: bool) -> None:
    if not is_of_demo:
        what = "this file or run was not made by the demo; nothing was written"
        raise RunError(what, where=str(path), hint="choose another --out")
