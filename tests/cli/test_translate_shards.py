"""`glassformer translate --shards`: workers, the merge, Ray, and commands that do not fit the folder."""

from __future__ import annotations

import csv
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from glassformer.datasets import dates
from glassformer.errors import EXIT_LEFT_OUT
from glassformer.jobs import chunks
from glassformer.translator import Translator

has_ray = importlib.util.find_spec("ray") is not None
N_ROWS = 60


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "glassformer", *map(str, words)]


@pytest.fixture
def many(tmp_path, table_of) -> Path:
    rows = [(str(n), iso) for n, (iso, _) in enumerate(dates(N_ROWS, seed=3))]
    return table_of(tmp_path / "many.csv", [("id", "iso"), *rows])


@pytest.fixture
def words(tmp_path, run, many) -> tuple[object, ...]:
    return ("translate", run, many, "--column", "iso", "--keep", "id", "--scores", "--out", tmp_path / "shards")


def test_the_merged_answers_and_scores_are_those_of_one_job(call, words):
    answer = call(*words, "--shards", 4)
    assert (answer.code, answer.out) == (0, ""), answer.err
    assert "shard 2 (rows 16 to 30) of 4" in answer.err
    assert "all 4 shards are done; the same command with --merge prints the answers" in answer.err
    merged, whole = call(*words, "--shards", 4, "--merge"), call(*words[:-2])
    assert (merged.code, merged.out) == (0, whole.out)
    assert merged.err == ""


@pytest.mark.parametrize("more", [["--to", "lines"], ["--to", "jsonl", "--keep", "id"], ["--json"], ["--to", "tsv"]])
def test_every_format_is_merged(call, words, more):
    words = (*words[:5], *more, *words[-2:])
    assert call(*words, "--shards", 3, "-q").code == 0
    assert call(*words, "--shards", 3, "--merge").out == call(*words[:-2]).out


def test_an_interrupted_worker_is_continued_by_the_same_command(call, words, monkeypatch):
    monkeypatch.setattr(chunks, "FIRST", 5)
    translate, calls = Translator.translate, []

    def interrupt(self, *arguments, **options):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return translate(self, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Translator, "translate", interrupt)
        assert call(*words, "--shards", 3).code == 130
    missing = call(*words, "--shards", 3, "--merge")
    assert (missing.code, missing.out) == (1, "")
    assert "shards are missing: " in missing.err
    assert "shard 3 (rows 41 to 60)" in missing.err
    assert call(*words, "--shards", 3).code == 0
    assert call(*words, "--shards", 3, "--merge").out == call(*words[:-2]).out


def test_rows_that_are_left_out_are_the_exit_code_of_the_merge(tmp_path, call, run):
    lines = tmp_path / "lines.txt"
    lines.write_text(f"1845-01-05\n{'1' * 129}\n1467-07-28\n")
    words = ("translate", run, lines, "--out", tmp_path / "shards", "--shards", 2)
    worker = call(*words)
    assert worker.code == 0
    assert "row 2 (129 tokens" in worker.err
    merged = call(*words, "--merge")
    assert (merged.code, merged.out.splitlines()[1]) == (EXIT_LEFT_OUT, "")
    assert "1 row was left empty" in merged.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--beam", "1"], "are of another job: search"),
        (["--long", "stop"], "are of another job: long"),
        (["--prefix", "M"], "are of another job: prefix"),
        (["--to", "tsv"], "are of another job: format"),
        (["--precision", "bfloat16"], "are of another job: precision"),
    ],
)
def test_another_command_is_refused_and_what_differs_is_named(call, words, change, message):
    assert call(*words, "--shards", 4, "-q").code == 0
    for more in ([], ["--merge"]):
        answer = call(*words, "--shards", 4, *change, *more)
        assert (answer.code, answer.out) == (1, "")
        assert message in answer.err
        assert "Traceback" not in answer.err


def test_another_table_and_another_model_are_refused(call, words, many, ascii_run):
    assert call(*words, "--shards", 4, "-q").code == 0
    assert "are of another job: model" in call(words[0], ascii_run, *words[2:], "--shards", 4).err
    assert "are of another job: number of shards" in call(*words, "--shards", 5).err
    many.write_text(many.read_text() + "x,1999-01-01\n")
    assert "are of another job: number of rows, rows" in call(*words, "--shards", 4).err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--shards", "0"], "Invalid value for '--shards'"),
        (["--shards", "-2"], "Invalid value for '--shards'"),
        (["--shards", "61"], "each shard needs a row"),
        (["--shards", "2", "--resume"], "are not for a job in shards"),
        (["--shards", "2", "--overwrite"], "are not for a job in shards"),
        (["--shards", "2", "--ledger", "l.csv"], "are not for a job in shards"),
        (["--shards", "2", "--on", "slurm"], "--on slurm is not available"),
        (["--shards", "2", "--on", "ray", "--merge"], "--merge and --on are both given"),
        (["--shards", "2", "--to", "parquet"], "Parquet needs a file"),
        (["--merge"], "--merge and --on are for a job in shards"),
        (["--on", "ray"], "--merge and --on are for a job in shards"),
    ],
)
def test_options_that_do_not_fit_are_refused_and_write_nothing(tmp_path, call, words, more, message):
    answer = call(*words, *more)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert not (tmp_path / "shards").exists()


def test_shards_need_a_folder_and_a_file_to_read(tmp_path, call, run, words):
    assert "--shards needs a folder" in call(*words[:-2], "--shards", 2).err
    answer = call("translate", run, "-", "--shards", 2, "--out", tmp_path / "shards", stdin=b"1845-01-05\n")
    assert (answer.code, "--shards needs an input that every worker can read" in answer.err) == (2, True)


def test_the_folder_of_something_else_stays_as_it_is(tmp_path, call, words):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "thesis.tex").write_text("x")
    answer = call(*words, "--shards", 2)
    assert (answer.code, "holds other files, and no manifest" in answer.err) == (1, True)
    assert [path.name for path in (tmp_path / "shards").iterdir()] == ["thesis.tex"]


# Ray


@pytest.mark.skipif(has_ray, reason="Ray is installed")
def test_without_ray_its_extra_is_named_and_nothing_is_written(tmp_path, call, words):
    answer = call(*words, "--shards", 2, "--on", "ray")
    assert (answer.code, "pip install 'glassformer[ray]'" in answer.err) == (1, True)
    assert not (tmp_path / "shards").exists()


@pytest.mark.slow
@pytest.mark.skipif(not has_ray, reason="Ray is not installed")
def test_tasks_of_ray_give_the_answers_of_one_job(call, words):
    done = subprocess.run(command(*words, "--shards", 4, "--on", "ray"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "all 4 shards are done" in done.stderr
    assert call(*words, "--shards", 4, "--merge").out == call(*words[:-2]).out


# Killed


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("on", [None, pytest.param("ray", marks=pytest.mark.skipif(not has_ray, reason="needs Ray"))])
def test_100_000_rows_of_which_a_worker_and_the_driver_are_killed_are_there_once_in_order(tmp_path, run, table_of, on):
    n_rows, n_shards = 100_000, 20
    table, out = tmp_path / "t.csv", tmp_path / "shards"
    sources = [iso for iso, _ in dates(2_000, seed=5)]
    table_of(table, [("id", "iso"), *((str(n), sources[n % len(sources)]) for n in range(n_rows))])
    words = command("translate", run, table, "--column", "iso", "--keep", "id", "--beam", 1, "-q")
    words += ["--out", str(out), "--shards", str(n_shards)]
    more = ["--on", on] if on else []

    def shards_done() -> int:
        return len(list(out.glob("shard-*.csv")))

    def killed_after(n_done: int, worker: bool) -> None:
        others = [] if on else [subprocess.Popen(words)]
        driver = subprocess.Popen([*words, *more])
        while shards_done() < n_done and driver.poll() is None:
            time.sleep(0.05)
        if worker and on:
            kill_a_task(driver)
        elif worker:
            others[0].kill()
        if worker:
            time.sleep(2)
        for process in (driver, *others):
            process.kill()
            process.wait()

    killed_after(3, worker=True)
    assert shards_done() < n_shards
    killed_after(shards_done() + 3, worker=False)
    subprocess.run([*words, *more], check=True)
    while shards_done() < n_shards:  # tasks of the driver that was killed
        subprocess.run([*words, *more], check=True)
    done = subprocess.run([*words, "--merge"], check=True, capture_output=True, text=True)
    rows = list(csv.reader(done.stdout.splitlines(), strict=True))
    expected = [answer.text for answer in Translator.load(run).translate(sources, num_beams=1)]
    assert rows[0] == ["id", "translation"]
    assert [row[0] for row in rows[1:]] == [str(n) for n in range(n_rows)]
    assert [row[1] for row in rows[1:]] == [expected[n % len(sources)] for n in range(n_rows)]


def kill_a_task(driver: subprocess.Popen[bytes]) -> None:
    """Kill a process that translates for this driver."""
    import psutil

    while driver.poll() is None:
        for process in psutil.Process(driver.pid).children(recursive=True):
            if "translate_shard" in process.name() + " ".join(process.cmdline()):
                process.kill()
                return
        time.sleep(0.05)
    raise AssertionError("the driver ended before one of its tasks was killed")
