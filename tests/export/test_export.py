"""What an export writes, what it is checked on, and what it refuses before and after the work."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from glassformer.errors import EngineError, RunError, SettingsError, UsageError
from glassformer.export import FORMATS, _new_folder, export, load_format
from glassformer.export.check import SCORE_BOUND, Checker
from glassformer.export.programs import ProgramAnswer, read_answers, run_answers
from glassformer.export.rows import EDGES, ROWS, drawn_rows, pair_rows
from glassformer.inference.translator import Translator
from glassformer.paper.search import length_penalty
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.rundirectory import RunDirectory
from tests.export.conftest import make_model


def right_answers(model_file: ModelFile, texts: Sequence[str], num_beams: int) -> list[ProgramAnswer]:
    """Return the answers of the model itself, as an exported model would print them."""
    ids = model_file.target_tokenizer.vocabulary.ordinary
    found = Translator(model_file).translate(texts, num_beams=num_beams)
    return [
        ProgramAnswer(one.text, tuple(ids[token] for token in one.tokens), one.score, one.finished, one.rank_score)
        for one in found
    ]


def both_searches(model_file: ModelFile, checker: Checker) -> list[list[ProgramAnswer]]:
    """Return the answers of the model itself to all rows, greedily and with a beam."""
    return [right_answers(model_file, checker.rows.texts, width) for width in checker.widths]


@pytest.fixture
def tiny() -> ModelFile:
    return make_model()


def checker_of(model_file: ModelFile) -> Checker:
    return Checker(model_file, pair_rows([("ab cd", "x"), ("the cat", "y")], ["row 1", "row 2"], "rows", model_file))


@pytest.mark.parametrize(
    ("change", "message", "exact"),
    [
        ({"ids": (4, 5)}, "other answers greedily", True),
        ({"text": "another"}, "as another text", True),
        ({"text": "another"}, "as another text", False),
        ({"score": -123.0}, "other scores greedily", True),
        ({"rank_score": -123.0}, "other scores greedily", True),
        ({"rank_score": -123.0}, "another length penalty", False),
        ({"rank_score": float("nan")}, "other scores greedily", True),
        ({"ids": (4, 99)}, "not in the vocabulary", True),
        ({"ids": (4, -1)}, "not in the vocabulary", True),
    ],
)
def test_one_wrong_answer_is_an_error_that_names_its_row(
    tiny: ModelFile, change: dict[str, object], message: str, exact: bool
):
    checker = checker_of(tiny)
    answers = both_searches(tiny, checker)
    found = checker.check(answers, "same", exact=True)  # those of the model itself pass
    assert [(one.num_beams, one.equal, one.rows) for one in found.searches] == [(1, 6, 6), (5, 6, 6)]
    assert (found.score_difference < 1e-5, found.metric) == (True, None)
    answers[0][1] = replace(answers[0][1], **change)
    with pytest.raises(EngineError, match=message) as caught:
        checker.check(answers, "same", exact=exact)
    assert "row 2" in str(caught.value)


def test_another_answer_of_a_beam_of_its_own_is_counted_but_its_score_is_checked(
    tiny: ModelFile, monkeypatch: pytest.MonkeyPatch
):
    checker = checker_of(tiny)
    answers = both_searches(tiny, checker)
    ids = answers[1][0].ids[:-1]
    text = tiny.target_tokenizer.decode(ids)
    (scored,) = Translator(tiny).score([(checker.rows.texts[0], text)])
    rank_score = scored.score / length_penalty(len(ids) + 1, tiny.settings.decoding.length_alpha)
    answers[1][0] = ProgramAnswer(text, ids, scored.score, True, rank_score)
    monkeypatch.setattr("glassformer.export.check.MAX_LOSS", 10.0)  # one row of six
    assert checker.check(answers, "own", exact=True).searches[1].other == 1
    with pytest.raises(EngineError, match="beam of 5"):
        checker.check(answers, "same", exact=True)
    answers[1][0] = replace(answers[1][0], score=scored.score - 2 * SCORE_BOUND)
    with pytest.raises(EngineError, match="other scores with a beam of 5"):
        checker.check(answers, "own", exact=True)


def test_a_beam_that_returns_its_worst_hypotheses_is_refused(tiny: ModelFile):
    checker = Checker(tiny, pair_rows([(text, "") for text in ("ab cd", "the cat", "cd ef")], "123", "rows", tiny))
    answers = both_searches(tiny, checker)
    ids = tiny.target_tokenizer.vocabulary.ordinary
    for i, found in enumerate(Translator(tiny).translate(checker.rows.texts, num_beams=5, num_return_sequences=5)):
        if found.alternatives:
            worst = min(found.alternatives, key=lambda one: one.rank_score)
            tokens = tuple(ids[token] for token in worst.tokens)
            answers[1][i] = ProgramAnswer(worst.text, tokens, worst.score, worst.finished, worst.rank_score)
    with pytest.raises(EngineError, match="its own beam finds other answers"):
        checker.check(answers, "own", exact=True)


def test_a_lower_precision_tells_the_metric_and_refuses_garbage(tiny: ModelFile):
    texts = ["ab cd", "the cat", "cd", "a cat", "ab"]
    rows = [(text, answer.text) for text, answer in zip(texts, right_answers(tiny, texts, 5), strict=True)]
    checker = Checker(tiny, pair_rows(rows, texts, "rows", tiny))
    answers, wrong = both_searches(tiny, checker), ProgramAnswer("", (), -1.0, True, -1.0)
    answers[1][0] = wrong
    found = checker.check(answers, "same", exact=False)
    assert found.metric is not None
    assert (found.metric.rows, found.metric.before, found.metric.after) == (5, 1.0, 0.8)
    assert found.score_bound is None
    with pytest.raises(EngineError, match="in this precision"):
        checker.check([[wrong] * len(found) for found in answers], "same", exact=False)


@pytest.mark.usefixtures("in_process")
def test_rows_are_held_out_rows_of_the_run_a_table_or_drawn_texts(tiny: ModelFile, tmp_path: Path):
    tiny.save(tmp_path / "model.safetensors")
    run = RunDirectory(tmp_path)
    drawn = drawn_rows(tiny)
    assert len(drawn.rows) == ROWS + len(EDGES)
    assert len(set(drawn.texts)) > ROWS / 2
    run.write_held_out([("ab", "x")] * 1200)
    assert run.read_held_out() == [("ab", "x")] * 1000
    assert export(tmp_path, "ctranslate2", tmp_path / "out").check.rows_from == "held-out rows"
    run.held_out.write_text('{"source": 1, "target": "x"}\n')
    with pytest.raises(RunError, match="held-out rows of the run are damaged"):
        run.read_held_out()


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_page_has_a_readme_and_the_first_row_of_one_line_as_its_example(tiny: ModelFile, tmp_path: Path):
    tiny.save(tmp_path / "model.safetensors")
    RunDirectory(tmp_path).write_held_out([("a\tb", "x"), ("ab cd", "x"), ("cd", "x")])
    export(tmp_path, "html", tmp_path / "held", title="Some names")
    page = (tmp_path / "held" / "index.html").read_text()
    assert "<title>Some names</title>" in page
    assert '"example": "ab cd"' in page
    assert "<iframe " in (tmp_path / "held" / "README.md").read_text()
    assert pair_rows([("the cat", "x")], ["1"], "rows", tiny).example == "the cat"
    assert drawn_rows(tiny).example is None


def test_rows_that_the_model_does_not_take_are_left_out_and_none_are_no_check():
    model_file = make_model(side={"unknown": False})
    rows = pair_rows([("ab", "x"), ("ab" * 30, "x"), ("ж", "x")], ["1", "2", "3"], "rows", model_file)
    assert rows.texts == ["ab", "", "<eos>"]
    with pytest.raises(UsageError, match="takes no text of the rows"):
        pair_rows([("ab" * 30, "x")], ["1"], "rows", model_file)


def test_what_is_wrong_is_refused_before_anything_is_written(tiny: ModelFile, tmp_path: Path):
    path, out = tmp_path / "model.safetensors", tmp_path / "out"
    tiny.save(path)
    with pytest.raises(UsageError, match="no export format 'onyx'"):
        export(path, "onyx", out)
    with pytest.raises(SettingsError, match="no precision 'int4'"):
        export(path, "ctranslate2", out, precision="int4")
    with pytest.raises(UsageError, match="ctranslate2 has no page that a title is for"):
        export(path, "ctranslate2", out, title="Dates")
    out.mkdir()
    (out / "mine.txt").write_text("keep")
    with pytest.raises(RunError, match="the folder is not empty"):
        export(path, "ctranslate2", out)
    assert (out / "mine.txt").read_text() == "keep"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["model.safetensors", "out"]


def test_what_a_killed_export_left_is_removed_by_the_next_one_and_a_live_one_is_not(tmp_path: Path):
    out = tmp_path / "out"
    process = get_context("fork").Process(target=_write_forever, args=[out])
    process.start()
    while not list(tmp_path.glob(".out*/weights")):
        time.sleep(0.01)
    with pytest.raises(RunError, match="another process is writing this export"), _new_folder(out):
        pass
    assert list(tmp_path.glob(".out*/weights"))
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert list(tmp_path.glob(".out*/weights"))
    with _new_folder(out) as folder:
        assert not list(folder.iterdir())
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def _write_forever(out: Path) -> None:
    with _new_folder(out) as folder:
        (folder / "weights").touch()
        time.sleep(600)


def test_without_locks_an_export_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def no_locks(*_arguments: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    with _new_folder(tmp_path / "out") as one, _new_folder(tmp_path / "out") as other:
        assert one != other
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("to", FORMATS)
def test_writing_in_any_precision_leaves_the_model_as_it_is(to: str, tiny: ModelFile, tmp_path: Path):
    before = {name: array.copy() for name, array in tiny.tensors.items()}
    for precision in load_format(to).precisions:
        (tmp_path / precision).mkdir()
        load_format(to).write(tiny, tmp_path / precision, precision)
        for name, array in before.items():
            np.testing.assert_array_equal(tiny.tensors[name], array, err_msg=f"{precision} {name}")


def test_what_is_not_an_answer_is_an_error():
    good = json.dumps({"text": "x", "ids": [1], "score": -1, "finished": True, "rank_score": -0.5})
    assert read_answers(good.encode()) == [ProgramAnswer("x", (1,), -1.0, True, -0.5)]
    for bad in ("x", "[]", "3", good.replace("ids", "id"), good.replace("[1]", "1")):
        with pytest.raises(EngineError, match="not an answer"):
            read_answers(bad.encode())
    for command, what in (("false", "the exported model does not run"), ("true", "the exported model lost a text")):
        with pytest.raises(EngineError, match=what):
            run_answers([command], ["a"])
