"""`glassformer demo` on a small scale: it trains once, evaluates, translates, and finds its model again."""

from __future__ import annotations

import csv
import datetime
import json
import shutil

import pytest

from glassformer.inference.translator import Translator
from glassformer.planning import advise as advise_module
from glassformer.planning.advise import Advice
from glassformer.planning.demo import Demo
from glassformer.planning.recipes.overrides import merge, parse_assignments
from glassformer.training import Run


@pytest.fixture
def little(monkeypatch, small):
    """Advice that trains in a moment, and fewer rows."""
    assigned = parse_assignments([word for word in small(training__steps="4") if word != "--set"])
    advise = advise_module.advise

    def advise_little(*arguments, **options) -> Advice:
        advice = advise(*arguments, **options)
        return Advice(merge(advice.settings, assigned), advice.choices)

    monkeypatch.setattr("glassformer.planning.plan.advise", advise_little)
    monkeypatch.setattr("glassformer.planning.demo.N_TRAIN", 60)
    monkeypatch.setattr("glassformer.planning.demo.N_TEST", 20)


def rows_of(path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.mark.medium
@pytest.mark.usefixtures("little")
def test_the_demo_goes_the_whole_way_finds_its_model_again_resumes_and_has_a_model_for_each_seed(tmp_path, call):
    first = call("demo", "--out", tmp_path)
    assert first.code == 0, first.err
    train, test = rows_of(tmp_path / "dates.csv"), rows_of(tmp_path / "dates-test.csv")
    assert train[0] == test[0] == ["iso", "english"]
    assert (len(train), len(test)) == (61, 21)
    assert not {tuple(row) for row in train[1:]} & {tuple(row) for row in test[1:]}
    assert "20 of 20 rows" in first.out
    assert "five of the test dates" in first.out
    assert f"glassformer translate {tmp_path / 'run'}" in first.err
    lines = first.out.splitlines()
    least_certain = lines[next(i for i, line in enumerate(lines) if "five of the test dates" in line) + 2].split()[0]
    assert f"glassformer explain {tmp_path / 'run'} {least_certain} --html" in first.err
    before = (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns

    second = call("demo", "--out", tmp_path, "--json", "--quiet")
    assert (second.code, second.err) == (0, "")
    assert json.loads(second.out)["rows"]["scored"] == 20
    assert (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns == before
    assert "the model is trained already" in call("demo", "--out", tmp_path).err

    (tmp_path / "run" / "README.md").unlink()  # the last file that a run writes: now it was interrupted
    resumed = call("demo", "--out", tmp_path)
    assert resumed.code == 0
    assert "resumed after step" in resumed.err

    again = call("demo", "--out", tmp_path, "--seed", "2")
    assert again.code == 0
    assert "the model is trained already" not in again.err
    assert rows_of(tmp_path / "dates.csv") != train


@pytest.mark.parametrize("name", ["dates-test.csv", "run"])
def test_the_demo_never_uses_or_replaces_a_table_or_run_that_is_not_its_own(tmp_path, call, run, name):
    mine = tmp_path / name
    mine.write_text("mine,too\n") if mine.suffix else shutil.copytree(run, mine)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    answer = call("demo", "--out", tmp_path)
    assert answer.code == 1
    assert "this file or run was not made by the demo; nothing was written" in answer.err
    assert str(mine) in answer.err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_the_demo_is_right_about_all_but_one_in_a_thousand_days_from_1900_to_2100(tmp_path):
    demo = Demo(tmp_path)
    demo.write_tables()
    Run(demo.plan(), "cpu").finish()
    days = [datetime.date(1900, 1, 1) + datetime.timedelta(n) for n in range(73_414)]
    assert days[-1] == datetime.date(2100, 12, 31)
    found = Translator.load(demo.run.path).translate([day.isoformat() for day in days])
    wrong = [
        answer.text for answer, day in zip(found, days, strict=True) if answer.text != f"{day:%B} {day.day}, {day.year}"
    ]
    assert len(wrong) <= len(days) / 1_000, wrong  # it ends as soon as 900 held-out answers are right
