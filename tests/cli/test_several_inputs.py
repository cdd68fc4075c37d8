"""Several inputs from the command line: train, translate, evaluate and score with --feature."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from glassformer.errors import EXIT_LEFT_OUT
from glassformer.inference.translator import Translator
from glassformer.storage.modelfile import ModelFile

ENDINGS = {"V;PST": "ed", "V;PRS": "s", "V;PTCP": "ing", "V;NFIN": ""}
LEMMAS = ["".join(letters) for letters in itertools.product("bdk", "aeo", "lmr", "pt")][:50]
ROWS = [(lemma, lemma + ending, tags) for lemma in LEMMAS for tags, ending in ENDINGS.items()]
HEADER = ("lemma", "form", "tags")


def tsv(path: Path, rows) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def inflection(tmp_path_factory) -> Path:
    """Lemma, form and tags, with a header."""
    return tsv(tmp_path_factory.mktemp("inflection") / "verbs.tsv", [HEADER, *ROWS])


@pytest.fixture(scope="session")
def inflected(call, small, inflection, tmp_path_factory):
    """A run with a feature, and what the command said."""
    out = tmp_path_factory.mktemp("inflected") / "run"
    columns = ("--source", "lemma", "--target", "form", "--feature", "tags")
    return out, call("train", inflection, "--out", out, *columns, *small(training__steps="200"), "--seed", "3")


@pytest.fixture(scope="session")
def run(inflected) -> Path:
    return inflected[0]


def test_training_learns_the_symbols(inflected):
    run, answer = inflected
    assert answer.code == 0, answer.err
    assert "source: lemma (column 0) + tags (column 2) · target: form (column 1)" in answer.err
    assert "control" not in answer.err
    lemma, tags = ModelFile.load(run).source_tokenizer.inputs
    assert (lemma.name, lemma.kind) == ("lemma", "text")
    assert (tags.name, tags.cut, tags.symbols) == ("tags", ";", ("NFIN", "PRS", "PST", "PTCP", "V"))


def test_evaluate_asks_for_the_columns_of_the_training(call, run, inflection, tmp_path):
    answer = call("evaluate", run, inflection, "--json", "--quiet")
    assert answer.code == 0, answer.err
    report = json.loads(answer.out)
    assert report["rows"]["items"] == len(ROWS)
    assert report["metrics"]["exact_match"]["value"] > 0.9  # impossible without the tags: 0.25 at most
    moved = tsv(
        tmp_path / "moved.tsv",
        [("id", "Tag", "form", "word"), *((str(i), t, f, w) for i, (w, f, t) in enumerate(ROWS))],
    )
    again = call("evaluate", run, moved, "--source", "word", "--feature", "tags=Tag", "--json", "--quiet")
    assert json.loads(again.out)["metrics"] == report["metrics"]


def test_translate_takes_features_from_a_table_or_as_values(call, run, inflection, tmp_path):
    texts = [f"{lemma}\n" for lemma in LEMMAS[:8]]
    rows = [row for row in ROWS[: 4 * 8] if row[2] == "V;PST"]
    lines = call("translate", run, "--feature", "tags=V;PST", stdin="".join(texts).encode())
    assert lines.code == 0, lines.err
    table = tsv(tmp_path / "some.tsv", [HEADER, *rows])
    assert call("translate", run, table, "--quiet").out == lines.out
    assert call("translate", run, table, "--column", "0", "--feature", "tags=2", "--quiet").out == lines.out
    mappings = [{"lemma": lemma, "tags": tags} for lemma, _, tags in rows]
    translated = Translator.load(run).translate(mappings)
    assert [answer.text for answer in translated] == lines.out.splitlines()


def test_json_has_the_inputs_by_name(call, run, inflection):
    line = call("translate", run, "--feature", "tags=V;PST", "--json", stdin=b"dap\n")
    assert json.loads(line.out)["source"] == {"lemma": "dap", "tags": "V;PST"}
    scored = call("score", run, inflection, "--json", "--quiet").out.splitlines()
    assert json.loads(scored[1])["source"] == {"lemma": ROWS[1][0], "tags": ROWS[1][2]}
    plain = call("score", run, inflection, "--quiet").out.splitlines()
    assert plain[1].split("\t")[1:] == [f"{ROWS[1][0]} · tags: {ROWS[1][2]}", ROWS[1][1]]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["translate", "RUN"], "the feature 'tags' is missing"),
        (["translate", "RUN", "TABLE", "--feature", "tags=Tag"], "there is no column 'Tag'"),
        (["evaluate", "RUN", "TABLE", "--source", "lemma", "--source", "tags"], "this model has 1 source column"),
        (["score", "RUN", "TABLE", "--target", "tags"], "a column is given twice"),
        (["train", "TABLE", "--out", "OUT", "--feature", "lemma", "--feature", "tags"], "does not say which"),
        (["evaluate", "ONE INPUT", "TABLE", "--feature", "tags"], "one input"),
    ],
)
def test_a_wrong_feature_is_a_clear_error(call, run, trained, inflection, tmp_path, words, what):
    places = {"RUN": run, "ONE INPUT": trained[0], "TABLE": inflection, "OUT": tmp_path / "out"}
    answer = call(*(places.get(word, word) for word in words), stdin=b"dap\n")
    assert answer.code == 2, answer.err
    assert what in answer.err
    assert "Traceback" not in answer.err
    assert not (tmp_path / "out").exists()


HOLES = [(*ROWS[0],), ("dap", "daps", ""), ROWS[1], ("", "", ""), ("dap", "daps", " ; "), ROWS[2]]
LEFT_OUT = "2 rows were left empty: row 2 (the feature 'tags' is empty), row 5 (the feature 'tags' is empty)"


def test_a_row_without_a_feature_is_left_empty_and_named(call, run, tmp_path):
    """So is one without any cell, between rows that are valid."""
    holes, valid = (tsv(tmp_path / f"{len(rows)}.tsv", [HEADER, *rows]) for rows in (HOLES, ROWS[:3]))
    first, second, third = call("translate", run, valid, "--quiet").out.splitlines()
    filled = [first, "", second, "", "", third]
    answer = call("translate", run, holes)
    assert (answer.code, answer.out.split("\n")[:-1]) == (EXIT_LEFT_OUT, filled)
    assert LEFT_OUT in answer.err
    arrived = call("translate", run, "-", "--column", "lemma", "--keep", "form,tags", stdin=holes.read_bytes())
    assert arrived.code == EXIT_LEFT_OUT
    assert [line.split("\t") for line in arrived.out.split("\n")[1:-1]] == [
        [form, tags, text] for (_, form, tags), text in zip(HOLES, filled, strict=True)
    ]
    assert LEFT_OUT in arrived.err
    rows = [json.loads(line) for line in call("translate", run, holes, "--json").out.splitlines()]
    assert [row["source"] for row in rows] == [{"lemma": lemma, "tags": tags} for lemma, _, tags in HOLES]
    reasons = [row.get("left_out", "") for row in rows][1:5]
    empty = "the feature 'tags' is empty"
    assert reasons == [empty, "", "", empty]
    stopped = call("translate", run, holes, "--long", "stop")
    assert stopped.code == 1
    assert "the feature 'tags' is empty" in stopped.err
    assert "row 2" in stopped.err


def test_a_feature_of_a_table_without_a_header_has_one_option_in_every_verb(call, small, tmp_path):
    table, run = tsv(tmp_path / "plain.tsv", ROWS), tmp_path / "run"
    answer = call("train", table, "--feature", "tags=2", "--out", run, *small(training__steps="2"))
    assert answer.code == 0, answer.err
    assert [one.name for one in ModelFile.load(run).source_tokenizer.inputs] == ["0", "tags"]
    for words in (
        ["evaluate", run, table],
        ["score", run, table],
        ["translate", run, table],
        ["audit", table],
        ["split", table, "--out", tmp_path / "parts"],
        ["train", table, "--out", tmp_path / "more", "--init", run, "--set", "training.steps=2"],
    ):
        answer = call(*words, "--feature", "tags=2", "--quiet")
        assert answer.code in (0, 3), (words, answer.err)
        assert "tags" not in answer.err
    assert call("translate", run, "--feature", "tags=V;PST", "--quiet", stdin=b"bap\n").code == 0
    assert call("evaluate", run, table).code == 0  # by the positions of the training
    answer = call("audit", table, "--feature", "tags")
    assert answer.code == 2
    assert "--feature tags=POSITION" in answer.err


def test_audit_reads_features(call, inflection, tmp_path):
    answer = call("audit", inflection, "--source", "lemma", "--feature", "tags", "--json")
    assert answer.code == 0, answer.err
    kinds = {finding["kind"] for finding in json.loads(answer.out)["findings"]}
    assert not kinds & {"control characters", "contradictions", "unknown tokens", "duplicates"}
    without = call("audit", inflection, "--target", "form", "--source", "lemma")
    assert "warning: contradictions\n" in without.out
