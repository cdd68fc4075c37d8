"""A job that is interrupted anywhere is resumed, and neither loses nor repeats a row."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from glassformer.data.lines import open_bytes
from glassformer.errors import RunError, TableError
from glassformer.jobs import chunks
from glassformer.jobs.inputs import JobInput
from glassformer.jobs.job import Job, here
from glassformer.jobs.layout import OutputForm
from glassformer.jobs.output import FileOutput
from glassformer.jobs.progress import JobProgress
from glassformer.jobs.stream import SearchOptions
from glassformer.settings import DecodingSettings
from tests.chaos.conftest import child, wait
from tests.jobs.conftest import TOO_LONG_TEXT, Shouting


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "FIRST", 16)
    monkeypatch.setattr(chunks, "LARGEST", 64)


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text("id,text\n" + "".join(f"{n},word {n}\n" for n in range(200)), encoding="utf-8")
    return path


def job_of(table: Path, out: Path, translator: Any = None, **changes: Any) -> Job:
    options: dict[str, Any] = {
        "input": JobInput(str(table), "text", keep=("id",)),
        "search": SearchOptions(DecodingSettings()),
        "layout": OutputForm("csv", kept=("id",)),
        "name": {"model": "one"},
    } | changes
    return Job(workers=here(translator or Shouting()), output=FileOutput(out), **options)


def run(job: Job, *, resume: bool = False, overwrite: bool = False) -> list[int]:
    """Run a job, and return the rows that were done after each chunk."""
    assert isinstance(job.output, FileOutput)
    resumed = job.output.check(resume=resume, overwrite=overwrite)
    if resumed is not None and job.output.is_finished(resumed):
        job.output.finish(resumed)
        return []
    with job.input.open() as opened:
        return [progress.rows for progress in job.run(opened, resumed)]


def interrupted(job: Job, after: int) -> None:
    """Run some chunks of a job, and then end it as Ctrl-C does."""
    with job.input.open() as opened:
        steps = job.run(opened)
        for _ in range(after):
            next(steps)
        with pytest.raises(KeyboardInterrupt):
            steps.throw(KeyboardInterrupt)


@pytest.fixture
def begun(table, tmp_path) -> Path:
    """The output of a job that was interrupted after its first 16 rows."""
    out = tmp_path / "out.csv"
    interrupted(job_of(table, out), 1)
    return out


EXPECTED = "id,answer\n" + "".join(f"{n},WORD {n}\n" for n in range(200))


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"in.csv"}


@pytest.mark.parametrize("after", [2, 4])
def test_an_interrupted_job_keeps_whole_rows_and_is_resumed(table, tmp_path, after):
    out = tmp_path / "out.csv"
    interrupted(job_of(table, out), after)
    assert files(tmp_path) == {"out.csv.part", "out.csv.progress.json"}
    part = (tmp_path / "out.csv.part").read_text()
    assert EXPECTED.startswith(part)
    assert part.endswith("\n")
    translator = Shouting()
    run(job_of(table, out, translator), resume=True)
    assert out.read_text() == EXPECTED
    assert sum(map(len, translator.calls)) == 200 - (part.count("\n") - 1)
    assert files(tmp_path) == {"out.csv"}


def killed_after(seconds: float, table: Path, out: Path, *, resume: bool) -> int:
    """Run a job in a process of its own that is killed some time after more rows are done; return how it ended."""
    record = FileOutput(out).record
    before = JobProgress.load(record).rows if resume else 0

    def work() -> int:
        run(job_of(table, out), resume=resume)
        return 0

    with child(work) as number:
        while (ended := os.waitpid(number, os.WNOHANG))[0] == 0:
            with contextlib.suppress(RunError):  # the record may be removed at this moment
                if record.exists() and JobProgress.load(record).rows > before:
                    break
            time.sleep(0.001)
        else:
            return os.waitstatus_to_exitcode(ended[1])
        time.sleep(seconds)
        os.kill(number, signal.SIGKILL)
        return wait(number)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_job_that_is_killed_at_random_has_every_row_once_in_order(tmp_path):
    table, out, draw = tmp_path / "in.csv", tmp_path / "out.csv", random.Random(4)
    table.write_text("id,text\n" + "".join(f"{n},word {n}\n" for n in range(3_000)), encoding="utf-8")
    record = FileOutput(out).record
    rows = []
    for _ in range(3):
        end = killed_after(draw.uniform(0.0, 0.02), table, out, resume=record.exists())
        assert end in (0, -signal.SIGKILL)
        if out.exists() and not record.exists():
            break
        rows.append(JobProgress.load(record).rows if record.exists() else 0)
    else:
        run(job_of(table, out), resume=record.exists())
    assert rows == sorted(rows)
    assert any(0 < n < 3_000 for n in rows), "it was never killed in the middle"
    assert out.read_text() == "id,answer\n" + "".join(f"{n},WORD {n}\n" for n in range(3_000))
    assert files(tmp_path) <= {"out.csv", "out.csv.lock"}


@pytest.mark.parametrize("renamed", [False, True])
def test_a_job_that_was_killed_after_its_last_row_is_finished(table, tmp_path, renamed):
    out = tmp_path / "out.csv"
    interrupted(job_of(table, out), 4)
    record = FileOutput(out).record
    record.write_text(record.read_text().replace('"complete": false', '"complete": true'))
    if renamed:
        FileOutput(out).part.rename(out)
    run(job_of(table, out), resume=True)
    assert (out.read_text(), files(tmp_path)) == (EXPECTED, {"out.csv"})


def test_parquet_is_written_at_the_end_and_resumed_like_the_others(table, tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    out = tmp_path / "out.parquet"
    layout = OutputForm("parquet", kept=("id",), confidence=True)
    interrupted(job_of(table, out, layout=layout), 2)
    job = job_of(table, out, layout=layout)
    run(job, resume=True)
    rows = parquet.read_table(out).to_pylist()
    assert [(row["id"], row["answer"]) for row in rows] == [(str(n), f"WORD {n}") for n in range(200)]
    assert rows[0]["confidence"] is None
    assert files(tmp_path) == {"out.parquet"}


# What is counted over the whole job


def test_what_was_notable_before_an_interrupt_is_there_after_it(table, tmp_path):
    table.write_text(
        f"id,text\n1,{TOO_LONG_TEXT}\n" + "".join(f"{n},word\n" for n in range(100)) + f"x,{TOO_LONG_TEXT}\n"
    )
    out = tmp_path / "out.csv"
    interrupted(job_of(table, out), 1)
    job = job_of(table, out)
    with job.input.open() as opened:
        *_, progress = job.run(opened, job.output.check(resume=True, overwrite=False))
    assert (progress.left_out.count, progress.rows) == (2, 102)
    assert [name.partition(" (")[0] for name in progress.left_out.named] == ["row 1", "row 102"]


# Refusals


def refused(job: Job, **how: bool) -> RunError:
    with pytest.raises(RunError) as caught:
        run(job, **how)
    return caught.value


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("id,text\n0,word 0\n", "1 row"),
        ("id,text\n" + "".join(f"{n},Word {n}\n" for n in range(200)), "other texts in the first 16 rows"),
        ("id,text\n" + "".join(f"{n}0,word {n}\n" for n in range(200)), "other texts in the first 16 rows"),
    ],
)
def test_another_input_is_refused(table, begun, text, got):
    table.write_text(text)
    error = refused(job_of(table, begun), resume=True)
    assert (error.what, error.got) == ("the input is not that of the interrupted job", got)
    assert not begun.exists()


def test_nothing_to_resume_is_an_error(table, tmp_path):
    out = tmp_path / "out.csv"
    assert refused(job_of(table, out), resume=True).what == "there is no interrupted job to resume"
    run(job_of(table, out))
    error = refused(job_of(table, out), resume=True)
    assert error.what == "the output is there, and no interrupted job to resume"


def test_a_job_that_was_killed_before_its_first_rows_were_recorded_is_resumed_from_the_start(table, begun):
    FileOutput(begun).record.unlink()
    FileOutput(begun).part.write_text("id,trans")
    run(job_of(table, begun), resume=True)
    assert begun.read_text() == EXPECTED


def test_an_interrupted_job_is_replaced_only_on_request(table, begun):
    error = refused(job_of(table, begun))
    assert (error.what, error.got) == ("an interrupted job is here; nothing was written", "16 rows")
    run(job_of(table, begun), overwrite=True)
    assert begun.read_text() == EXPECTED


def test_a_damaged_record_and_rows_that_were_cut_off_are_errors(table, begun):
    os.truncate(FileOutput(begun).part, 10)
    assert refused(job_of(table, begun), resume=True).what == "the rows of the interrupted job are not all there"
    for text in ("", '{"rows": -1}', '{"other": 1}'):
        FileOutput(begun).record.write_text(text)
        error = refused(job_of(table, begun), resume=True)
        assert error.what.startswith("the record of progress is damaged")
        assert (error.expected == "JSON") == (not text)


# Faults


class FullDisk(io.BufferedWriter):
    """A file on a disk that is full after three writes; the last one is cut."""

    left = 3

    def write(self, data: Any) -> int:
        self.left -= 1
        if self.left >= 0:
            return super().write(data)
        super().write(data[: len(data) // 2])
        self.flush()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_whole_rows_and_the_job_is_resumed(table, tmp_path, monkeypatch):
    out = tmp_path / "out.csv"
    with monkeypatch.context() as patched:
        patched.setattr("glassformer.jobs.output.os.fdopen", lambda fd, mode: FullDisk(io.FileIO(fd, mode)))
        error = refused(job_of(table, out))
    assert (error.what, error.got) == ("cannot write the file", "No space left on device")
    assert "free some space" in str(error.hint)
    assert "--resume continues after row 80" in str(error.hint)
    part = FileOutput(out).part.read_text()
    assert part == EXPECTED[: len(part)]
    assert part.endswith("79,WORD 79\n")
    run(job_of(table, out), resume=True)
    assert out.read_text() == EXPECTED


def test_a_damaged_row_of_a_stream_stops_the_job_after_the_chunks_before_it(tmp_path):
    stream = io.BytesIO(b"id,text\n" + b"".join(b"%d,word\n" % n for n in range(40)) + b"1\n2\n")
    job = job_of(tmp_path, tmp_path / "out.csv", input=JobInput(stream, "text", keep=("id",)))
    with pytest.raises(TableError) as caught:
        run(job)
    assert "line 42: wrong number of cells (1 cell instead of 2)" in str(caught.value.got)
    assert FileOutput(tmp_path / "out.csv").record.exists()
    assert (tmp_path / "out.csv.part").read_text().splitlines()[1] == "0,WORD"


def test_the_permissions_of_a_replaced_output_stay(table, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("old")
    out.chmod(0o640)
    job = job_of(table, out)
    with job.input.open() as opened:
        steps = job.run(opened)
        next(steps)
        assert FileOutput(out).part.stat().st_mode & 0o777 == 0o640
        for _ in steps:
            pass
    assert (out.stat().st_mode & 0o777, out.read_text()) == (0o640, EXPECTED)


def test_an_output_that_is_a_link_stays_one(table, tmp_path):
    (tmp_path / "there").mkdir()
    out = tmp_path / "out.csv"
    out.symlink_to(tmp_path / "there" / "real.csv")
    run(job_of(table, out))
    assert out.is_symlink()
    assert (tmp_path / "there" / "real.csv").read_text() == EXPECTED


# Values and compression


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_rows_that_were_written_but_not_recorded_are_written_again(table, tmp_path, suffix):
    if suffix == ".zst":
        pytest.importorskip("pyarrow")
    out = tmp_path / f"out.csv{suffix}"
    interrupted(job_of(table, out), 2)
    with (tmp_path / f"{out.name}.part").open("ab") as part:
        part.write(b"\x1f\x8b torn")
    run(job_of(table, out), resume=True)
    with open_bytes(out) as stream:
        assert stream.read().decode() == EXPECTED
