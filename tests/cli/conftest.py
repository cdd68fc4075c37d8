"""The command line as a function, a table to train on, and one tiny model that all tests share."""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO
from unittest import mock

import pytest
import typer.main

from glassformer.cli import command_line, main
from glassformer.data.datasets import dates
from glassformer.evaluation import comparison, evaluate as evaluation
from glassformer.inference.translator import Translator

ROWS = dates(200, seed=7)
DATES = ["1845-01-05", "1467-07-28", "1996-09-08", "1959-03-02"]
SMALL = {
    "model.d_model": "32",
    "model.d_ff": "32",
    "model.n_heads": "2",
    "model.n_encoder_layers": "1",
    "model.n_decoder_layers": "1",
    "model.dropout": "0",
    "training.steps": "150",
    "training.learning_rate": "0.01",
    "training.precision": "float32",
    "training.validate_every": "75",
    "training.validate_rows": "10",
    "decoding.num_beams": "2",
}


class Answer(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Call = Callable[..., Answer]
# Most of the time of a short call is the building of the verb with its options.
ONCE = {"command_line": functools.cache(command_line), "get_command": functools.cache(typer.main.get_command)}


def answer_to(*words: object, stdin: bytes = b"", columns: int = 250, **streams: TextIO | None) -> Answer:
    """Run one command in this process, as the installed script does, in a terminal of so many columns.

    `streams` are others to use: `stderr=None` is a closed one, as Python has it.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    given = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    code = 0
    with (
        mock.patch.multiple(sys, **({"stdin": given, "stdout": out, "stderr": err} | streams)),
        mock.patch.object(sys, "argv", ["glassformer", *map(str, words)]),
        mock.patch("glassformer.cli.command_line", ONCE["command_line"]),
        mock.patch.object(typer.main, "get_command", ONCE["get_command"]),
        mock.patch.dict("os.environ", {"COLUMNS": str(columns), "TERM": "dumb"}),
    ):
        try:
            main()
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
        for name in streams:
            if streams[name] is None:  # and now another one
                getattr(sys, name).close()
    texts = []
    for stream in (out, err):
        stream.flush()
        text = stream.buffer.getvalue().decode()  # type: ignore[attr-defined]
        texts.append(re.sub(r"\x1b\[[0-9;]*m", "", text))  # colours, where the surroundings force them
    return Answer(code, *texts)


def assignments(**changes: str) -> list[str]:
    """`--set` for each setting of a small run; `training__steps="5"` changes one."""
    chosen = SMALL | {name.replace("__", "."): value for name, value in changes.items()}
    return [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]


def write_csv(path: Path, rows: Sequence[Sequence[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.fixture(scope="session", autouse=True)
def without_accelerators() -> Iterator[None]:
    """Bitwise equal weights are promised on one machine's processor; so that is where these tests train."""
    with (
        mock.patch("torch.cuda.is_available", return_value=False),
        mock.patch("torch.backends.mps.is_available", return_value=False),
    ):
        yield


@pytest.fixture(scope="module", autouse=True)
def few_resamples() -> Iterator[None]:
    """Intervals from 50 resamples: how they are computed is tested in tests/inference."""
    with contextlib.ExitStack() as stack:
        for function in (evaluation.score_texts, comparison.compare):
            stack.enter_context(mock.patch.dict(function.__kwdefaults__, resamples=50))
        yield


@pytest.fixture(scope="session")
def call() -> Call:
    """`call("info", model)` gives exit code, standard output and standard error."""
    return answer_to


@pytest.fixture(scope="session")
def small() -> Callable[..., list[str]]:
    """The `--set` words of a run that takes a moment; see `assignments`."""
    return assignments


@pytest.fixture(scope="session")
def table_of() -> Callable[[Path, Sequence[Sequence[str]]], Path]:
    """Writes rows of cells as CSV."""
    return write_csv


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hundred dates with a header."""
    return write_csv(tmp_path_factory.mktemp("table") / "dates.csv", [("iso", "english"), *ROWS])


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 24 of these dates."""
    return write_csv(tmp_path_factory.mktemp("few") / "dates.csv", [("iso", "english"), *ROWS[:24]])


@pytest.fixture(scope="session")
def trained(table: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answer]:
    """A small run on the table, and what the command said."""
    run = tmp_path_factory.mktemp("trained") / "run"
    answer = answer_to("train", table, "--out", run, *assignments())
    assert answer.code == 0, answer.err
    return run, answer


@pytest.fixture(scope="session")
def run(trained: tuple[Path, Answer]) -> Path:
    """The run directory of the small run."""
    return trained[0]


@pytest.fixture(scope="session")
def translator(run: Path) -> Translator:
    return Translator.load(run)


@pytest.fixture(scope="session")
def answers(translator: Translator) -> list[str]:
    """The answers of the small run to DATES."""
    return [each.text for each in translator.translate(DATES)]


@pytest.fixture(scope="session")
def ascii_run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run with the fixed vocabulary of 68 characters on both sides, and nothing tied."""
    run = tmp_path_factory.mktemp("ascii") / "run"
    presets = {f"tokens__{side}__preset": "ascii68" for side in ("source", "target")}
    answer = answer_to(
        "train", table, "--out", run, *assignments(**presets, model__tied_embeddings="none", training__steps="5")
    )
    assert answer.code == 0, answer.err
    return run
