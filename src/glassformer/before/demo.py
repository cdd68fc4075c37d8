"""The demo: the built-in dates table as files, and the run that is trained on it, resumed if it was interrupted."""

from __future__ import annotations

import csv
import io
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
        rows = dates(N_TRAIN + N_TEST, self.seed)
        contents = {self.table: _as_csv(rows[:N_TRAIN]), self.test_table: _as_csv(rows[N_TRAIN:])}
        if not self.run.recipe.exists():  # next to a run of the demo, the tables are the demo's too
            _check_free(contents)
        for path, text in contents.items():
            write_text(path, text)
        return is_trained

    def plan(self) -> Plan:
        """Plan the run on the table; an interrupted run of this seed is resumed."""
        resume = self._was_interrupted()
        overrides = {} if resume else {"training.seed": self.seed, "data.header": "yes"}
        return plan(self.table, self.run.path, overrides=overrides, resume=resume, overwrite=not resume)

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
            raise RunError(
                "this run was not made by the demo; nothing was written",
                where=str(run.path),
                hint="choose another --out",
            )
        return seed == self.seed and run.card.exists()

    def _was_interrupted(self) -> bool:
        run = self.run
        if not (run.resume.exists() and run.recipe.exists()):
            return False
        return bool(read_recipe(run.recipe).get("training", {}).get("seed") == self.seed)


def _check_free(contents: dict[Path, str]) -> None:
    """Raise RunError when a table would replace a file that holds something else."""
    for path, text in contents.items():
        if path.exists() and (not path.is_file() or path.read_bytes() != text.encode()):
            raise RunError(
                "this file exists already and was not made by the demo; nothing was written",
                where=str(path),
                hint="choose another --out",
            )


def _as_csv(rows: list[tuple[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("iso", "english"))
    writer.writerows(rows)
    return text.getvalue()
