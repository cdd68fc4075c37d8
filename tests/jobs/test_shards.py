"""Shards: any number of workers, killed at any moment, translate every row once, in order."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import signal
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glassformer.decoding import GreedyFirst
from glassformer.errors import GlassformerError, RunError, UsageError
from glassformer.jobs import chunks
from glassformer.jobs.inputs import Digest, Input
from glassformer.jobs.layout import Layout
from glassformer.jobs.manifest import Manifest, ranges
from glassformer.jobs.on_ray import translate_shard
from glassformer.jobs.shards import Shards
from glassformer.jobs.stream import Search
from glassformer.settings import DecodingSettings
from glassformer.translator import Translation
from tests.jobs.conftest import TOO_LONG_TEXT, Shouting

on_posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

N_ROWS = 200
EXPECTED = "id,translation\n" + "".join(f"{n},WORD {n}\n" for n in range(N_ROWS))


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "FIRST", 4)
    monkeypatch.setattr(chunks, "LARGEST", 16)


@pytest.fixture
def table(tmp_path) -> Path:
    return write(tmp_path / "in.csv", N_ROWS)


def write(path: Path, n_rows: int) -> Path:
    path.write_text("id,text\n" + "".join(f"{n},word {n}\n" for n in range(n_rows)), encoding="utf-8")
    return path


def shards_of(table: Path, **changes: Any) -> Shards:
    fields: dict[str, Any] = {
        "folder": table.parent / "shards",
        "input": Input(str(table), "text", keep=("id",)),
        "search": Search(DecodingSettings()),
        "layout": Layout("csv", kept=("id",)),
        "prefix": "",
        "name": {"model": ["one"]},
    }
    return Shards(**fields | changes)


def opened(shards: Shards, n_shards: int = 7, translator: Any = None, *, merge: bool = False) -> Manifest:
    digest = Digest()
    scanned = shards.input.scan(digest)
    shards.check_folder()
    load = None if merge else lambda: translator or Shouting()
    return shards.open(n_shards, scanned.ledger.read, str(digest), load)  # type: ignore[arg-type]


def work(shards: Shards, manifest: Manifest, translator: Any = None) -> list[int]:
    """Be a worker to the end; return the numbers of the shards it translated."""
    numbers = []
    for shard in shards.take(manifest):
        for _ in shards.translate(shard, translator or Shouting()):
            pass
        numbers.append(shard.number)
    return numbers


def merged(shards: Shards, manifest: Manifest) -> str:
    return b"".join(shards.merged(manifest)[1]).decode()


def refused(call: Any, *arguments: Any, **options: Any) -> GlassformerError:
    with pytest.raises(GlassformerError) as caught:
        call(*arguments, **options)
    return caught.value


# Plan, work, merge


@pytest.mark.parametrize(("n_rows", "n_shards"), [(1, 1), (7, 7), (200, 7), (201, 200)])
def test_the_ranges_are_all_rows_in_order_and_differ_by_one_row(n_rows, n_shards):
    found = ranges(n_rows, n_shards)
    assert [row for first, last in found for row in range(first, last + 1)] == list(range(1, n_rows + 1))
    assert len(found) == n_shards
    assert len({last - first for first, last in found}) <= 2


@pytest.mark.parametrize(("n_rows", "n_shards"), [(5, 6), (0, 1), (5, 0), (5, -1)])
def test_more_shards_than_rows_and_no_shards_are_refused(n_rows, n_shards):
    assert isinstance(refused(ranges, n_rows, n_shards), UsageError)


@pytest.mark.parametrize("n_shards", [1, 7, N_ROWS])
def test_the_merged_shards_are_the_output_of_one_job(table, n_shards):
    shards = shards_of(table)
    manifest = opened(shards, n_shards)
    assert work(shards, manifest) == list(range(1, n_shards + 1))
    assert work(shards, manifest) == []
    assert merged(shards, opened(shards, n_shards, merge=True)) == EXPECTED


def test_a_manifest_is_written_once_and_read_as_it_was(table):
    shards = shards_of(table)
    manifest = opened(shards)
    before = shards.manifest_path.stat().st_mtime_ns
    assert opened(shards) == manifest
    assert shards.manifest_path.stat().st_mtime_ns == before


def test_a_shard_that_another_worker_has_is_left_to_it(table):
    shards = shards_of(table)
    manifest = opened(shards)
    with shards.taken(manifest.shards[2]) as is_ours:
        assert is_ours
        assert work(shards, manifest) == [1, 2, 4, 5, 6, 7]
    assert work(shards, manifest) == [3]


def test_a_shard_that_was_freed_meanwhile_is_taken_last(table):
    shards = shards_of(table)
    manifest = opened(shards)
    held = shards.taken(manifest.shards[0])
    held.__enter__()
    numbers = []
    for shard in shards.take(manifest):
        if shard.number == 7:
            held.__exit__(None, None, None)
        for _ in shards.translate(shard, Shouting()):  # type: ignore[arg-type]
            pass
        numbers.append(shard.number)
    assert numbers == [2, 3, 4, 5, 6, 7, 1]


def test_an_interrupted_shard_continues_from_its_whole_rows(table):
    shards = shards_of(table)
    manifest = opened(shards)
    shard = manifest.shards[1]
    steps = shards.translate(shard, Shouting())  # type: ignore[arg-type]
    done = next(steps).rows
    steps.close()
    assert not shards.is_done(shard)
    translator = Shouting()
    work(shards, manifest, translator)
    assert sum(map(len, translator.calls)) == N_ROWS - done
    assert merged(shards, manifest) == EXPECTED


def test_what_was_notable_in_all_shards_is_there_after_the_merge(table):
    table.write_text(f"id,text\n1,{TOO_LONG_TEXT}\n2,word\n3,word\n4,{TOO_LONG_TEXT}\n")
    shards = shards_of(table)
    manifest = opened(shards, 2)
    work(shards, manifest)
    progress, _ = shards.merged(manifest)
    assert (progress.rows, progress.left_out.count) == (4, 2)
    assert [name.partition(" (")[0] for name in progress.left_out.named] == ["row 1", "row 4"]


def task(shards: Shards, number: int, manifest: Manifest, digests: list[str]) -> bool | GlassformerError:
    """Translate a shard as a task of Ray does, on a machine whose models have these digests."""
    sent, shard = pickle.loads(pickle.dumps((shards, manifest.shards[number - 1])))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("glassformer.jobs.on_ray.model_digests", lambda _files: digests)
        translator = Shouting()
        translator.model_files = translator.model_file = SimpleNamespace(path="m")  # type: ignore[attr-defined]
        return translate_shard(sent, shard, lambda: translator)  # type: ignore[arg-type,return-value]


def test_a_task_translates_a_shard_unless_another_worker_has_it(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shards = shards_of(table)
    shards = replace(shards, input=replace(shards.input, source="in.csv").absolute())
    manifest = opened(shards, 2)
    monkeypatch.chdir("/")
    with shards.taken(manifest.shards[1]):
        assert [task(shards, number, manifest, ["one"]) for number in (1, 2)] == [True, False]
    assert [shards.is_done(shard) for shard in manifest.shards] == [True, False]
    assert [task(shards, number, manifest, ["one"]) for number in (1, 2)] == [True, True]
    assert merged(shards, manifest) == EXPECTED


def test_a_task_on_a_machine_with_another_model_translates_nothing(table):
    shards = shards_of(table)
    manifest = opened(shards, 2)
    error = task(shards, 1, manifest, ["two"])
    assert isinstance(error, RunError)
    assert (error.what, error.got) == ("the model on the machine of a task is another one", "two")
    assert not shards.output(manifest.shards[0]).record.exists()


# The decision on greedy search


class Deciding(Shouting):
    """A search whose scores say whether the text came before the decision, and what was decided."""

    def translate(
        self, texts: Sequence[str], *, greedy_first: GreedyFirst, where: Sequence[str], **_more: Any
    ) -> list[Translation]:
        answers = []
        for text in texts:
            early = greedy_first.probes_left > 0
            if early:
                greedy_first.tried += 1
                greedy_first.certain += int(text.split()[1]) % 5 == 0
            score = -1.0 - 2 * early - 4 * greedy_first.saves_time
            answers.append(replace(self.answer(text.upper()), score=score))
        return answers


@pytest.mark.parametrize("n_shards", [1, 2, 5, 100])
def test_scores_are_those_of_one_job_wherever_the_shards_begin(tmp_path, n_shards):
    table = write(tmp_path / "in.csv", 600)
    shards = shards_of(table, layout=Layout("csv", scores=True, kept=("id",)))
    manifest = opened(shards, n_shards, Deciding())
    work(shards, manifest, Deciding())
    single = replace(shards, folder=tmp_path / "single")
    whole = opened(single, 1, Deciding())
    work(single, whole, Deciding())
    found = merged(shards, manifest)
    assert found == merged(single, whole)
    assert len({line.split(",")[2] for line in found.splitlines()[1:]}) > 1
    assert [shard.tried for shard in manifest.shards] == [min(256, shard.first - 1) for shard in manifest.shards]


def test_greedy_search_alone_needs_no_decision(table):
    translator = Shouting()
    opened(shards_of(table, search=Search(DecodingSettings(num_beams=1))), translator=translator)
    assert translator.calls == []


# Workers that are killed


def fork(shards: Shards, n_shards: int) -> int:
    """Start a worker in a process of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child uses none of the threads of this process
        child = os.fork()
    if child == 0:
        code = 1
        try:
            work(shards, opened(shards, n_shards))
            code = 0
        finally:
            os._exit(code)
    return child


def lines_written(folder: Path) -> int:
    return sum(map(n_lines, [*folder.glob("*.csv"), *folder.glob("*.part")]))


def n_lines(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):  # it was renamed at this moment
        return path.read_bytes().count(b"\n")
    return 0


@on_posix
def test_two_workers_of_which_one_is_killed_translate_every_row_once_in_order(tmp_path):
    table, draw = write(tmp_path / "in.csv", 2000), random.Random(20)
    shards = shards_of(table)
    for _ in range(6):
        deadline, before = time.monotonic() + 30, lines_written(shards.folder)
        first, second = fork(shards, 16), fork(shards, 16)
        while lines_written(shards.folder) <= before and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(draw.uniform(0.0, 0.05))
        for child in (first, second) if draw.random() < 0.7 else (first,):
            os.kill(child, signal.SIGKILL)
        ends = {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in (first, second)}
        assert ends <= {0, -signal.SIGKILL}
        manifest = Manifest.load(shards.manifest_path)
        if all(map(shards.is_done, manifest.shards)):
            break
    else:
        work(shards, manifest)
    expected = "id,translation\n" + "".join(f"{n},WORD {n}\n" for n in range(2000))
    assert merged(shards, opened(shards, 16, merge=True)) == expected


@on_posix
def test_workers_that_start_at_once_translate_no_row_twice(tmp_path):
    table = write(tmp_path / "in.csv", 2000)

    class Logging(Shouting):
        def translate(self, texts: Sequence[str], **options: Any) -> list[Translation]:
            with (tmp_path / f"log{os.getpid()}").open("a") as log:
                log.writelines(f"{text}\n" for text in texts)
            return super().translate(texts, **options)

    shards = shards_of(table, search=Search(DecodingSettings(num_beams=1)))
    children = []
    for _ in range(4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            code = 1
            try:
                work(shards, opened(shards, 50), Logging())
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    texts = [line for log in tmp_path.glob("log*") for line in log.read_text().splitlines()]
    assert sorted(texts) == sorted(f"word {n}" for n in range(2000))


# Refusals


def test_missing_shards_are_named(table):
    shards = shards_of(table)
    manifest = opened(shards)
    for shard in manifest.shards:
        if shard.number not in (2, 5):
            for _ in shards.translate(shard, Shouting()):  # type: ignore[arg-type]
                pass
    error = refused(shards.merged, manifest)
    assert error.what == "2 of 7 shards are missing: shard 2 (rows 29 to 57), shard 5 (rows 115 to 142)"


def test_there_is_nothing_to_merge_without_a_manifest(table):
    shards = shards_of(table)
    assert refused(opened, shards, merge=True).what == "there are no shards to merge"
    assert not shards.folder.exists()


@pytest.mark.parametrize(
    ("changes", "n_shards", "differs"),
    [
        ({"name": {"model": ["two"]}}, 7, "model"),
        ({"name": {"model": ["one"], "prefix": "a"}}, 7, "prefix"),
        ({}, 8, "number of shards"),
        ({"input": "other"}, 7, "rows"),
        ({"input": "longer"}, 7, "number of rows, rows"),
    ],
)
def test_shards_of_another_job_are_refused_and_what_differs_is_named(table, tmp_path, changes, n_shards, differs):
    shards = shards_of(table)
    opened(shards)
    before = {path: path.read_bytes() for path in shards.folder.iterdir()}
    if given := changes.pop("input", None):
        text = table.read_text().replace("word 199", "Word 199") + ("200,word\n" if given == "longer" else "")
        (tmp_path / "other.csv").write_text(text)
        changes["input"] = replace(shards.input, source=str(tmp_path / "other.csv"))
    error = refused(opened, replace(shards, **changes), n_shards)
    assert error.what == f"the shards in this folder are of another job: {differs}"
    assert {path: path.read_bytes() for path in shards.folder.iterdir()} == before


def test_an_input_that_changes_while_shards_are_translated_is_refused(table):
    shards = shards_of(table)
    manifest = opened(shards)
    table.write_text(table.read_text().replace("word 199", "Word 199"))
    error = refused(work, shards, manifest)
    assert error.what == "the input has changed since the shards were planned"
    assert [shards.is_done(shard) for shard in manifest.shards] == [True] * 6 + [False]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1, "other": 2}', "half"])
def test_a_damaged_manifest_is_an_error(table, text):
    shards = shards_of(table)
    opened(shards)
    path = shards.manifest_path
    path.write_text(path.read_text()[:300] if text == "half" else text)
    assert refused(opened, shards).what == "the manifest of the shards is damaged"


@pytest.mark.parametrize(
    ("shard", "field", "value"), [(0, "first", 2), (3, "last", 1), (6, "last", 300), (1, "number", 1)]
)
def test_a_manifest_whose_shards_are_not_all_rows_is_an_error(table, shard, field, value):
    shards = shards_of(table)
    opened(shards)
    found = json.loads(shards.manifest_path.read_text())
    found["shards"][shard][field] = value
    shards.manifest_path.write_text(json.dumps(found))
    assert "are not the rows of the job in order" in str(refused(opened, shards).got)


def test_a_manifest_of_another_version_is_an_error(table):
    shards = shards_of(table)
    opened(shards)
    shards.manifest_path.write_text(json.dumps(json.loads(shards.manifest_path.read_text()) | {"format": 99}))
    assert refused(opened, shards).got == "format 99"


def test_a_folder_that_is_something_else_is_refused_and_stays(table, tmp_path):
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / "thesis.tex").write_text("x")
    error = refused(opened, shards_of(table))
    assert (error.got, [path.name for path in folder.iterdir()]) == ("thesis.tex", ["thesis.tex"])


def test_a_file_in_place_of_the_folder_is_refused(table, tmp_path):
    (tmp_path / "shards").write_text("x")
    assert isinstance(refused(opened, shards_of(table)), RunError)
    assert (tmp_path / "shards").read_text() == "x"


def test_a_shard_that_was_cut_is_refused_and_a_deleted_one_is_translated_again(table):
    shards = shards_of(table)
    manifest = opened(shards)
    work(shards, manifest)
    path = shards.output(manifest.shards[3]).path
    os.truncate(path, 10)
    error = refused(shards.merged, manifest)
    assert (error.what, error.got) == ("the file of a shard is not as it was written", "10 bytes")
    assert "when shard-00004.* of its folder are deleted" in str(error.hint)
    path.unlink()
    assert "1 of 7 shards are missing" in refused(shards.merged, manifest).what
    assert work(shards, manifest) == [4]
    assert merged(shards, manifest) == EXPECTED


def test_a_shard_of_which_one_byte_was_changed_is_not_merged(table):
    shards = shards_of(table)
    manifest = opened(shards)
    work(shards, manifest)
    path = shards.output(manifest.shards[3]).path
    content = path.read_bytes()
    path.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    error = refused(shards.merged, manifest)
    assert (error.what, error.where) == ("the file of a shard is not as it was written", str(path))
    assert "when shard-00004.* of its folder are deleted" in str(error.hint)
    path.write_bytes(content)
    assert merged(shards, manifest) == EXPECTED


def test_a_file_in_place_of_a_shard_is_not_replaced(table):
    shards = shards_of(table)
    manifest = opened(shards)
    shards.output(manifest.shards[0]).path.write_text("mine")
    assert refused(work, shards, manifest).what == "the file of a shard is not as it was written"
    assert shards.output(manifest.shards[0]).path.read_text() == "mine"


def test_a_damaged_record_says_how_its_shard_starts_again(table):
    shards = shards_of(table)
    manifest = opened(shards)
    work(shards, manifest)
    output = shards.output(manifest.shards[1])
    output.record.write_text("{")
    assert "shard-00002.* of its folder are deleted" in str(refused(work, shards, manifest).hint)
    output.record.unlink()
    output.path.unlink()
    assert work(shards, manifest) == [2]
