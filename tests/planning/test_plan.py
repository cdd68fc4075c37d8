"""A plan decides everything about a run, says why, and writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.data.datasets import dates
from glassformer.data.tables import read_table
from glassformer.errors import ColumnError, RunError, SettingsError, TextError, UsageError
from glassformer.planning.notices import notices_of
from glassformer.planning.plan import Plan, plan
from glassformer.settings import DataSettings
from tests.cli.conftest import write_csv
from tests.tiny import OVERRIDES

ROWS = [("iso", "english"), *dates(60, seed=3)]
TINY = OVERRIDES | {"training.steps": 2}


@pytest.fixture
def table(tmp_path) -> Path:
    return write_csv(tmp_path / "dates.csv", ROWS)


def chosen(planned: Plan) -> dict[str, tuple[object, bool]]:
    return {choice.setting: (choice.value, choice.set_by_user) for choice in planned.choices}


@pytest.mark.parametrize(
    "overrides", [{"training": {"steps": 7, "clip_norm": 1.0}}, {"training.steps": 7, "training.clip_norm": 1.0}]
)
def test_what_is_set_stays_and_is_marked_all_else_is_advised(tmp_path, table, overrides):
    planned = plan(table, tmp_path / "run", overrides=overrides)
    assert (planned.settings.training.steps, planned.settings.training.clip_norm) == (7, 1.0)
    assert chosen(planned)["training.steps"] == (7, True)
    assert chosen(planned)["training.clip_norm"] == (1.0, True)
    (reason,) = (choice.reason for choice in planned.choices if choice.setting == "training.steps")
    assert reason.startswith("set by you (advice: ")
    advised = plan(table, tmp_path / "run")
    assert planned.settings.model == advised.settings.model
    assert chosen(advised)["tokens.source.kind"] == ("characters", False)
    assert not (tmp_path / "run").exists()


def test_a_path_a_table_and_pairs_are_planned_alike(tmp_path, table):
    read = read_table(table, DataSettings())
    plans = [plan(pairs, tmp_path / "run") for pairs in (table, str(table), read, ROWS[1:])]
    assert len({str(planned.settings) for planned in plans}) == 1
    assert len({planned.prepared.fingerprint for planned in plans}) == 1


def test_notices_tell_of_the_first_row_leaks_long_rows_and_unknown_tokens(tmp_path, table):
    guessed = write_csv(tmp_path / "h.csv", [("source", "target"), *dates(60, seed=3)])
    planned = plan(
        guessed,
        tmp_path / "run",
        valid=table,
        overrides={"data.max_target_length": 16, "tokens.target.min_count": 8, "decoding.max_new_tokens": 16},
    )
    notices = {notice.kind: notice for notice in notices_of(planned)}
    kinds = {
        "first row",
        "reading",
        "also trained on",
        "audit",
        "few rows",
        "too long",
        "unknown tokens",
        "short limit",
    }
    assert notices.keys() == kinds
    assert notices["few rows"].text == "48 rows to train on: a model needs some hundred to learn anything"
    assert notices["short limit"].text == (
        "decoding.max_new_tokens is 16, and the longest target trained on has 16 tokens and <eos>: "
        "longer answers are cut off"
    )
    assert "'source' | 'target'" in next(n.text for n in notices_of(planned) if n.table == str(guessed))
    assert notices["also trained on"].text.startswith("48 of the 48 rows of")  # the others are too long
    assert notices["also trained on"].table == str(table)
    assert notices["audit"].text == (
        f"{table}: 60 of 60 rows (100.0 %) are in the table to train on as well, source and target "
        f"(examples: glassformer audit {guessed})"
    )


def test_held_out_rows_that_the_vocabulary_lacks_have_a_notice(tmp_path):
    rows = [(f"word{i}", "abcde"[i % 5]) for i in range(50)]
    words = {"tokens.source.kind": "words"}
    planned = plan(rows, tmp_path / "run", overrides=words)
    (text,) = (notice.text for notice in notices_of(planned) if notice.kind == "unknown held-out")
    assert text == (
        "5 of 5 held-out sources have words that are not in the vocabulary (5 of 5), so that validation says little: "
        "--set tokens.source.kind=characters, or hold out other rows with --valid"
    )
    for given in ({}, {"overrides": words, "valid": rows[:20]}, {"overrides": words | {"data.valid_fraction": 0}}):
        assert "unknown held-out" not in {notice.kind for notice in notices_of(plan(rows, tmp_path / "run", **given))}
    one_new = [(f"{source} {'neu' if not i else source}", "ä" if i < 2 else "b") for i, (source, _) in enumerate(rows)]
    planned = plan([(f"{s} {s}", t) for s, t in rows], tmp_path / "run", overrides=words, valid=one_new[:4])
    texts = [notice.text for notice in notices_of(planned) if notice.kind == "unknown held-out"]
    assert [text[:32] for text in texts] == ["2 of 4 held-out targets have cha"]


@pytest.mark.parametrize(
    ("arguments", "error", "what"),
    [
        ({"overrides": {"training": {"steps": 0}}}, SettingsError, "the setting 'training.steps' cannot take"),
        ({"overrides": {"data.source": "nope"}}, ColumnError, "there is no column 'nope'"),
        ({"resume": True, "overrides": {"training.steps": 5}}, RunError, "there is no run to resume"),
        ({"resume": True, "init": "run"}, UsageError, "resume excludes init and overwrite"),
        (
            {"valid": [("1", "a"), ("2", "one")], "overrides": {"training.metric": "bleu"}},
            SettingsError,
            "is undefined",
        ),
        ({"test": [("1" * 999, "x")]}, TextError, "a text is longer than the model takes"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path, table, arguments, error, what):
    with pytest.raises(error) as caught:
        plan(table, tmp_path / "run", **arguments)
    assert what in caught.value.what
    assert not (tmp_path / "run").exists()
