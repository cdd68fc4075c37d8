"""The demo: the built-in dates table as files, and the run that is trained on it, resumed if it was interrupted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from glassformer.before.plan import Plan, plan
from glassformer.before.recipes.overrides import read_recipe
from glassformer.data.datasets import dates
from glassformer.data.pairs import fingerprint
from glassformer.errors import RunError
from glassformer.paper.settings import TrainingSettings
from glassformer.ship.storage.files import write_text
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.ship.storage.rundirectory import RunDirectory

N_TRAIN, N_TEST = 9_000, 1_000


@dataclass(frozen=True)
class Demo:
    """The demo in a directory. Raises SettingsError for a seed that no run can have."""

    folder: Path
    seed: int = 1

    def __post_init__(self) -> None:
        TrainingSettings(seed=self.seed)

    @property
    def table(self) -> Path:
        return self.folder / "dates.csv"

    @property
    def test_table(self) -> Path:
        return self.folder / "dates-test.csv"

    @property
    def run(self) -> RunDirectory:
        return RunDirectory(self.folder / "run")

    @property
    def test_pairs(self) -> list[tuple[str, str]]:
        return dates(N_TRAIN + N_TEST, self.seed)[N_TRAIN:]

    def write_tables(self) -> bool:
        """Write both tables. Returns whether the model is trained already.

        Raises RunError, before anything is written, when the directory holds a table or a run of another origin.
        """
        is_trained = self._is_trained()
        rows, contents = dates(N_TRAIN + N_TEST, self.seed), dict[Path, str]()
        for path, part in ((self.table, rows[:N_TRAIN]), (self.test_table, rows[N_TRAIN:])):
            contents[path] = "iso,english\n" + "".join(f'{iso},"{english}"\n' for iso, english in part)
        for path, text in contents.items():  # next to a run of the demo, the tables are the demo's too
            is_same = not path.exists() or (path.is_file() and path.read_bytes() == text.encode())
            if not is_same and not self.run.recipe.exists():
                raise _of_another_origin("file exists already and", path)
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

    def _is_trained(self) -> bool:
        """Whether the demo of this seed has its model. Raises RunError for the run of another table."""
        run = self.run
        run.finish_move()
        run.check_free(overwrite=True)
        if not run.model.exists():
            return False
        found = ModelFile.load(run.model)
        seed = found.settings.training.seed
        if found.data.fingerprint != fingerprint(dates(N_TRAIN + N_TEST, seed)[:N_TRAIN]):
            raise _of_another_origin("run", run.path)
        return seed == self.seed and run.card.exists()


def _of_another_origin(what: str, path: Path) -> RunError:
    what = f"this {what} was not made by the demo; nothing was written"
    return RunError(what, where=str(path), hint="choose another --out")
