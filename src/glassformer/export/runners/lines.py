"""Lines in, answers out: the command line of `run.py`, with the rules and the notes of `glassformer translate`.

Line i of the output answers line i of the input. An empty line has an empty answer, and so has one that the model does
not take: the others are answered, and the exit code is 4. It needs the standard library alone, and `source.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from beam_confidence import beam_confidence
from source import Export, LeftOutError
from text import InputError

EXIT_LEFT_OUT = 4
NOT_FINITE = "the model computes numbers that are not finite"
NAMED = 10  # lines, or unknown tokens, that a note names


class Row(NamedTuple):
    """A line of the input: its ids (none: its answer is empty), what is unknown, why it is left out."""

    ids: Sequence[int] = ()
    unknown: Sequence[str] = ()
    left_out: str = ""


class Answer(NamedTuple):
    """The best answer. `score` is the sum of log-probabilities, `rank_score` that sum after the length penalty.

    `others` are the scores of the other answers of its beam.
    """

    ids: Sequence[int] = ()
    score: float = 0.0
    rank_score: float = 0.0
    finished: bool = True
    others: Sequence[float] = ()


def penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^alpha (Wu et al. 2016); the length counts <eos>."""
    return float(((5 + length) / 6) ** alpha)


def ranked(ids: list[int], score: float, eos_id: int, alpha: float) -> Answer:
    """Return the answer of ids; the last one is <eos> where it was reached."""
    finished = ids[-1:] == [eos_id]
    return Answer(ids[: len(ids) - finished], score, score / penalty(max(1, len(ids)), alpha), finished)


def best_of(answers: Sequence[Answer]) -> Answer:
    """Return the best of a beam. Ties: a finished answer wins. Raises InputError where there is none."""
    if not answers:
        raise InputError(NOT_FINITE)
    best = max(answers, key=lambda answer: (answer.rank_score, answer.finished))
    return best._replace(others=[answer.score for answer in answers if answer is not best])


class Engine(Protocol):
    """Computes the answers to framed sources, in order; with `all_answers` all of the beam (their scores: `others`)."""

    def __init__(self, export: Export, options: argparse.Namespace) -> None: ...
    def answer(self, sources: Sequence[Sequence[int]], num_beams: int, *, all_answers: bool) -> list[Answer]: ...
    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None: ...


class Model:
    """The model for a program."""

    def __init__(self, description: dict[str, Any], engine: type[Engine]) -> None:
        self.export, parser = Export(description), argparse.ArgumentParser()
        engine.add_options(parser)
        self.engine = engine(self.export, parser.parse_args([]))

    def translate(self, texts: Sequence[str | dict[str, str]], num_beams: int | None = None) -> list[dict[str, Any]]:
        """Return the answer to each text, or to each object of inputs, as `run.py --json` prints it.

        Raises InputError for one that cannot be read.
        """
        rows = [read_row(self.export, i, json.dumps(text), as_json=True) for i, text in enumerate(texts, 1)]
        answers = answered(rows, self.engine, num_beams or self.export.search["num_beams"])
        return [values_of(self.export, row, answer) for row, answer in zip(rows, answers)]


def main(description: dict[str, Any], engine: type[Engine]) -> None:
    """Read lines from standard input, answer them and write a line for each."""
    export = Export(description)
    parser = argparse.ArgumentParser(description="Translate lines from standard input.")
    engine.add_options(parser)
    parser.add_argument("--beam", type=int, default=export.search["num_beams"], help="beam width; 1: greedy search")
    parser.add_argument("--json", action="store_true", help="lines are JSON: texts, or objects of inputs")
    parser.add_argument(
        "--confidence", action="store_true", help="add the confidence of each answer: the probability that it is right"
    )
    options = parser.parse_args()
    if options.confidence and (fault := export.not_calibrated(options.beam)):
        parser.error(f"--confidence: {fault}")
    for name in {"beam", "threads"} & vars(options).keys():
        if vars(options)[name] < 1:
            parser.error(f"--{name} must be at least 1, not {vars(options)[name]}")
    try:
        lines = read_lines(sys.stdin.buffer.read() if sys.stdin else b"")
        rows = [read_row(export, i, line, as_json=options.json) for i, line in enumerate(lines, 1)]
        write(export, rows, engine(export, options) if any(row.ids for row in rows) else None, options)
    except InputError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would complain once more when it ends
        if not isinstance(error, BrokenPipeError):  # else the reader of the answers has ended
            sys.exit(f"error: the answers cannot be written: {error.strerror}")


def read_lines(data: bytes) -> list[str]:
    """Return the lines of the input, which end at \\n or \\r\\n, without a byte order mark at the start."""
    try:
        lines = data.decode("utf-8").removeprefix("\ufeff").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"the input is not UTF-8: byte {error.start + 1}") from None
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def read_row(export: Export, number: int, line: str, *, as_json: bool) -> Row:
    """Return the row of a line. Raises InputError, with the number of the line, where its text cannot be read."""
    try:
        if "\0" in line:
            raise InputError("NUL character")
        source = export.read(line, as_json=as_json)
        return Row(*export.encode(source)) if "".join(source).strip() else Row()
    except LeftOutError as error:
        return Row(left_out=str(error))
    except InputError as error:
        raise InputError(f"line {number}: {error}") from None


def write(export: Export, rows: Sequence[Row], engine: Engine | None, options: argparse.Namespace) -> None:
    """Write the answers to standard output and the notes to standard error. Exits with 4 where rows are left empty."""
    answers = answered(rows, engine, options.beam, all_answers=options.confidence)
    for row, answer in zip(rows, answers):
        values = values_of(export, row, answer)
        plain = values["text"].replace("\r", " ").replace("\n", " ")
        if options.confidence:
            limit = 1.0 if answer.finished and not export.is_unlike(row.ids) else export.calibration["unusual_limit"]
            p = (
                beam_confidence(export.calibration["weights"], [answer.score, *answer.others], limit)
                if row.ids
                else None
            )
            values["confidence"], plain = p, f"{plain}\t" if p is None else f"{plain}\t{p:.4f}"
        line = json.dumps(values) if options.json else plain
        sys.stdout.buffer.write(f"{line}\n".encode())
    sys.stdout.flush()
    for note in notes(rows, answers):
        sys.stderr.write(f"warning: {note}\n")
    if any(row.left_out for row in rows):
        sys.exit(EXIT_LEFT_OUT)


def values_of(export: Export, row: Row, answer: Answer) -> dict[str, Any]:
    """Return an answer as JSON values."""
    text = export.target.decode(answer.ids)
    values = {"text": text, **answer._asdict(), "ids": list(answer.ids), "unknown": list(row.unknown)}
    del values["others"]
    return values | ({"score": None, "rank_score": None, "left_out": row.left_out} if row.left_out else {})


def answered(rows: Sequence[Row], engine: Engine | None, num_beams: int, *, all_answers: bool = False) -> list[Answer]:
    """Return the answer to each row."""
    sources = [row.ids for row in rows if row.ids]
    answers = iter(engine.answer(sources, num_beams, all_answers=all_answers) if engine else ())
    return [next(answers) if row.ids else Answer() for row in rows]


def notes(rows: Sequence[Row], answers: Sequence[Answer]) -> Iterator[str]:
    """Yield what `glassformer translate` says: unknown tokens, answers without an end, rows that were left empty."""
    unknown = Counter(token for row in rows for token in row.unknown)
    if total := unknown.total():
        tokens = ", ".join(f"{token!r} ({count:,})" for token, count in unknown.most_common(NAMED))
        n_lines = counted(sum(bool(row.unknown) for row in rows), "line")
        yield f"{counted(total, 'unknown token')} in {n_lines} {was(total)} read as <unk>: {tokens}"
    unfinished = [str(i) for i, answer in enumerate(answers, 1) if not answer.finished]
    if n := len(unfinished):
        lines = ", ".join(unfinished[:NAMED]) + (", …" if n > NAMED else "")
        yield f"{counted(n, 'answer')} {was(n)} cut off at the maximum number of tokens, in lines {lines}"
    left_out = [f"row {i} ({row.left_out})" for i, row in enumerate(rows, 1) if row.left_out]
    if n := len(left_out):
        further = f" and {n - NAMED:,} more" if n > NAMED else ""
        yield f"{counted(n, 'row')} {was(n)} left empty: {', '.join(left_out[:NAMED])}{further}"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def was(count: int) -> str:
    return "was" if count == 1 else "were"
