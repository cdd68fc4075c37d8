"""`glassformer evaluate` and `score`: figures that agree with the library and with hand-made answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from glassformer import evaluate
from glassformer.data.datasets import dates
from glassformer.inference.translator import Translator
from glassformer.storage.modelfile import ModelFile
from tests.evaluation.test_evaluation import METRICS

PAIRS = dates(200, seed=7)[:24]  # of the table `few`


@pytest.fixture(scope="session")
def others(run, tmp_path_factory) -> list[Path]:
    """Two models with the vocabularies of the run and other weights."""
    folder, model = tmp_path_factory.mktemp("others"), ModelFile.load(run)
    for number in (1, 2):
        random = np.random.default_rng(number)
        tensors = {
            name: (each + 0.1 * random.standard_normal(each.shape)).astype(each.dtype)
            for name, each in model.tensors.items()
        }
        replace(model, tensors=tensors).save(folder / f"{number}.safetensors")
    return [folder / "1.safetensors", folder / "2.safetensors"]


# evaluate


def test_rows_that_were_trained_on_are_told_next_to_the_scores(call, run, table, tmp_path, table_of):
    answer = call("evaluate", run, table, "--json", "--quiet")
    found = json.loads(answer.out)["trained_on"]
    assert (found["rows"], found["items_without"], found["unknown"]) == (180, 20, "")
    assert list(found["metrics_without"]) == METRICS
    held_out = json.loads(call("evaluate", run, run / "held_out.jsonl", "--json", "--quiet").out)
    assert held_out["trained_on"] == {"rows": 0, "unknown": "", "items_without": 20, "metrics_without": {}}
    assert held_out["metrics"]["exact_match"]["value"] == found["metrics_without"]["exact_match"]["value"]
    shown = call("evaluate", run, table, "--quiet").out
    without = f"{100 * found['metrics_without']['exact_match']['value']:.2f} %"
    assert f"180 of 200 rows have a source that was trained on; without them: exact match {without}\n" in shown
    assert "not trained on" in shown
    none = table_of(tmp_path / "new.csv", [("source", "target"), ("1", "one")])
    assert "no row has a source that was trained on\n" in call("evaluate", run, none, "-q").out


def test_the_metric_of_the_training_is_first_in_a_table_with_intervals_and_the_worst_answers(call, run, few):
    found = json.loads(call("evaluate", run, few, "--json").out)["metrics"]["exact_match"]
    value, low, high = (f"{100 * found[name]:.2f}" for name in ("value", "low", "high"))
    out = call("evaluate", run, few).out
    assert not [part for part in (*METRICS, "24 of 24 rows", "the worst answers") if part not in out]
    assert "--no-group" not in out  # no source repeats
    verdict, *others = out.splitlines()
    right = round(24 * found["value"])
    assert verdict == f"{right} of 24 answers are right: exact match {value} % (95 % interval {low} to {high})"
    assert others[0].startswith("wrong most: ") == (right < 24)
    assert [line for line in others if line.startswith("bleu ") and "nrefs" not in line]


def test_a_model_without_the_file_of_its_sources_says_that_the_overlap_is_unknown(call, run, table, others):
    alone = call("evaluate", others[0], table, "--quiet").out
    assert "trained on: unknown, because the sources.safetensors of its run is not next to the model\n" in alone
    together = call("evaluate", run, table, "--ensemble", others[0], "--quiet").out
    assert "180 of 200 rows have a source that was trained on; without them" in together
    assert "; there may be more, because the sources.safetensors of its run" in together


def test_a_report_is_one_page_with_the_further_columns_and_replaces_nothing(call, run, tmp_path, table_of):
    rows = [
        (str(date), spelled, "odd" if number % 2 else "even")
        for number, (date, spelled) in enumerate(dates(40, seed=3))
    ]
    table, page = table_of(tmp_path / "t.csv", [("iso", "english", "--report"), *rows]), tmp_path / "errors.html"
    plain, answer = (call("evaluate", run, table, *more, "--json") for more in ((), ("--report", page)))
    assert answer.code == 0
    assert f"wrote {page}\n" in answer.err
    found, expected = json.loads(answer.out), json.loads(plain.out)
    assert found | {"seconds": 0} == expected | {"seconds": 0}
    text = page.read_text()
    right = round(40 * found["metrics"]["exact_match"]["value"])
    assert f"{right} of 40 answers are right" in text or "All 40 answers are right" in text
    assert "By column --report" in text
    assert "of 20</td>" in text
    refused = call("evaluate", run, table, "--report", page)
    assert (refused.code, page.read_text()) == (1, text)
    assert "--overwrite, or another --report" in refused.err
    assert call("evaluate", run, table, "--report", page, "--overwrite").code == 0


@pytest.fixture(scope="session")
def two_answers(tmp_path_factory, table_of, translator):
    """Six rows: one source with two targets of which the second is right, one with two wrong ones, two with one."""
    said = [each.text for each in translator.translate([source for source, _ in dates(4, seed=3)])]
    one, two, three, four = (source for source, _ in dates(4, seed=3))
    rows = [(one, "x"), (two, said[1] + "!!"), (one, said[0]), (three, said[2]), (two, said[1] + "!"), (four, "?")]
    return table_of(tmp_path_factory.mktemp("two") / "answers.csv", [("iso", "english"), *rows])


def test_how_the_rows_were_grouped_is_said_with_the_nearest_target_of_wrong_answers(call, run, two_answers, translator):
    out = call("evaluate", run, two_answers).out
    assert "6 rows, 4 sources, 2 of them with several targets (evaluate --no-group scores every row by itself)" in out
    source = dates(4, seed=3)[1][0]
    said = translator.translate([source])[0].text
    (line,) = [line for line in out.splitlines() if line.startswith(source)]
    assert line.split() == [source, *f"{said}!".split(), *said.split(), "1", "2"]
    alone = call("evaluate", run, two_answers, "--no-group").out
    assert "6 of 6 rows" in alone
    assert "sources" not in alone


def test_the_bleu_tokenizer_is_in_the_signature_and_an_undefined_bleu_in_the_table(call, run, few):
    report = json.loads(call("evaluate", run, few, "--json", "--bleu-tokenize", "intl", "--beam", "1").out)
    assert "tok:intl|" in report["metrics"]["bleu"]["signature"]
    assert report["decoding"]["num_beams"] == 1
    lines = call("evaluate", run, few, "--quiet", "--bleu-tokenize", "none", "--set", "decoding.max_new_tokens=3").out
    (line,) = [line for line in lines.splitlines() if line.startswith("bleu ")]
    assert " ".join(line.split()).startswith("bleu undefined no answer has four tokens")


# The ledger of a table

GAPS = "iso,english\n1845-01-05,a\n1845-01-06\n\n" + "x,y,z\n" * 7 + "1845-01-07,c\n"
LOST = [2, 3, *range(4, 11)]  # rows of which a cell is missing, blank, or one too many


@pytest.mark.parametrize("verb", ["evaluate", "score"])
def test_each_row_that_is_not_kept_is_in_the_file_of_the_ledger(tmp_path, call, run, verb):
    path, ledger = tmp_path / "gaps.csv", tmp_path / "lost.jsonl"
    path.write_text(GAPS, encoding="utf-8")
    words = (verb, run, path, "--bad-rows", "skip")
    without = call(*words)
    assert "11 rows read, 2 kept" in without.err
    assert "list each row that was not kept with --ledger FILE\n" in without.err
    answer = call(*words, "--ledger", ledger)
    assert answer.code == 0, answer.err
    entries = [json.loads(line) for line in ledger.read_text("utf-8").splitlines()]
    assert [entry["row"] for entry in entries] == LOST
    assert {entry["file"] for entry in entries} == {str(path)}
    assert f"wrote 9 entries to {ledger}\n" in answer.err
    assert "--ledger FILE" not in answer.err


# score


def test_an_ensemble_scores_as_in_python(call, run, others, few, translator):
    words = [word for other in others for word in ("--ensemble", other)]
    lines = call("score", run, few, *words, "--json", "--quiet").out.splitlines()
    found = [json.loads(line)["score"] for line in lines]
    expected = [each.score for each in Translator.load(run, ensemble=others).score(PAIRS)]
    assert found == pytest.approx(expected, rel=1e-5)
    assert found != pytest.approx([each.score for each in translator.score(PAIRS)], abs=1e-2)


def test_score_gives_the_log_probability_of_each_row(call, run, few, translator):
    lines = call("score", run, few, "--quiet").out.splitlines()
    for line, pair, each in zip(lines, PAIRS, translator.score(PAIRS), strict=True):
        figure, *texts = line.split("\t")
        assert tuple(texts) == pair
        assert float(figure) == pytest.approx(each.score, abs=1e-3)


def test_the_suspects_are_the_rows_whose_target_is_less_probable_than_the_answer(
    tmp_path, call, run, table_of, translator
):
    sources = [source for source, _ in dates(40, seed=3)]
    answers = [each.text for each in translator.translate(sources, num_beams=1)]
    targets = ["1" if row in (4, 30) else answer for row, answer in enumerate(answers)]
    path = table_of(tmp_path / "spoiled.csv", [("iso", "english"), ("", "x"), *zip(sources, targets, strict=True)])
    found = [json.loads(line) for line in call("score", run, path, "--suspects", "9", "--json", "-q").out.splitlines()]
    assert sorted(each["row"] for each in found) == [6, 32]
    for each in found:
        row = each["row"] - 2
        assert (each["source"], each["target"], each["answer"]) == (sources[row], "1", answers[row])
        assert each["margin"] == pytest.approx(each["answer_score"] - each["score"], rel=1e-5)
        assert each["margin"] > 0
        score = translator.score([(sources[row], "1"), (sources[row], answers[row])])
        assert (each["score"], each["answer_score"]) == pytest.approx([one.score for one in score], abs=1e-4)
    assert found[0]["margin"] >= found[1]["margin"]
    answer = call("score", run, path, "--suspects", "1")
    assert "the model has a more probable answer for 2 of 40 rows; the first 1:\n" in answer.err
    (line,) = answer.out.splitlines()
    assert line.split("\t")[1:] == [str(found[0]["row"]), found[0]["source"], "1", found[0]["answer"]]


def test_a_score_stands_on_one_line_whatever_the_cells_hold(tmp_path, call, run, table_of):
    path = table_of(tmp_path / "odd.csv", [("iso", "english"), ("18\n45", "a\tb\r\nc")])
    lines = call("score", run, path, "--quiet").out.split("\n")
    assert len(lines) == 2
    assert lines[0].split("\t")[1:] == ["18 45", "a b  c"]


@pytest.mark.parametrize(
    ("verb", "row", "message"),
    [
        ("evaluate", ("1" * 129, "x"), "got: {table}, row 2 (129 tokens)"),
        ("score", ("1" * 129, "x"), "got: {table}, row 2 (129 tokens)"),
        ("score", ("1845-01-05", "é"), "where: {table}, row 2, column 1"),
    ],
)
def test_a_text_that_the_model_does_not_take_is_named_by_its_row(
    tmp_path, call, ascii_run, table_of, verb, row, message
):
    table = table_of(tmp_path / "odd.csv", [("iso", "english"), ("", "left out"), row])
    answer = call(verb, ascii_run, table)
    assert (answer.code, answer.out) == (1, "")
    assert message.format(table=table) in answer.err


def test_a_source_that_is_too_long_stops_unless_it_is_skipped(call, run, tmp_path, table_of):
    table = table_of(tmp_path / "long.csv", [("iso", "english"), *PAIRS[:3], ("1" * 500, "x"), *PAIRS[3:5]])
    answer = call("evaluate", run, table)
    assert answer.code == 1
    assert "row 4 (500 tokens)" in answer.err
    assert answer.err.endswith("--bad-rows skip leaves them out\n")
    answer = call("evaluate", run, table, "--bad-rows", "skip", "--ledger", tmp_path / "left.jsonl", "--json")
    assert (answer.code, json.loads(answer.out)["rows"]["scored"]) == (0, 5)
    (entry,) = map(json.loads, (tmp_path / "left.jsonl").read_text("utf-8").splitlines())
    assert (entry["row"], entry["reason"]) == (4, "source too long")
    assert call("score", run, table, "--bad-rows", "skip").out.count("\n") == 5
    assert evaluate(Translator.load(run), table, data={"bad_rows": "skip"}).rows_scored == 5
