"""A disk that is full, read-only or gone during training: the run stops with a word, and its last checkpoint is whole.

Each test mounts a file system of its own, in a forked process with a namespace of its own, where nobody else sees it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.before.members import train
from glassformer.errors import RunError
from glassformer.training import Saved
from tests.chaos.conftest import PAIRS, SETTINGS, child, digest, one_thread, wait

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs namespaces")
NEW_MOUNTS, NEW_USERS = 0x20000, 0x10000000
READ_ONLY, REMOUNT, BIND, PRIVATE_BELOW = 1, 32, 4096, 0x44000
LEFT = 20_000  # bytes on the full disk
FAILED_TO_MOUNT = 77


def call_system(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(source: str, target: Path, kind: str, flags: int, data: str = "") -> None:
    call_system("mount", source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode())


def own_disk(folder: Path) -> None:
    """Mount an empty file system of 20 MB, which only this process sees."""
    user, group = os.getuid(), os.getgid()
    call_system("unshare", NEW_MOUNTS | NEW_USERS)
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")
    mount("none", Path("/"), "none", PRIVATE_BELOW)
    folder.mkdir()
    mount("tmpfs", folder, "tmpfs", 0, "size=20m")


def fill(out: Path) -> Callable[[], None]:
    """Fill the disk of a run; what is returned frees it."""
    filler = out.parent / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(100_000))
        except OSError:
            file.truncate(file.tell() - LEFT)
    return filler.unlink


def make_read_only(out: Path) -> Callable[[], None]:
    mount(str(out), out, "none", BIND)
    mount("none", out, "none", BIND | REMOUNT | READ_ONLY)
    return lambda: call_system("umount2", os.fsencode(out), 2)


def train_until(out: Path, step: int, harm: Callable[[Path], Callable[[], None] | None]) -> RunError:
    """Train, do harm after the checkpoint of a step, and return the error that the run ends with."""
    mended: Callable[[], None] | None = None
    try:
        for event in train(PAIRS, SETTINGS, out, device="cpu"):
            if isinstance(event, Saved) and event.step == step:
                mended = harm(out)
    except RunError as error:
        if mended:
            mended()
        return error
    raise AssertionError("the run ended as if nothing had happened")


@pytest.mark.parametrize(
    ("harm", "got"), [(fill, "No space left on device"), (make_read_only, "Read-only file system")]
)
def test_a_disk_that_takes_no_more_stops_the_run_and_it_continues_from_its_last_checkpoint(
    tmp_path: Path, undisturbed: tuple[str, float], harm: Callable[[Path], Callable[[], None]], got: str
) -> None:
    out = tmp_path / "disk" / "run"

    def work() -> int:
        try:
            own_disk(out.parent)
        except OSError:
            return FAILED_TO_MOUNT
        error = train_until(out, 8, harm)
        assert error.what == "cannot write the file"
        assert str(out) in str(error.where)
        assert error.got == got
        assert f"then use --resume: the checkpoint of step 8 is complete ({out / 'checkpoints'}" in str(error.hint)
        for _ in train(PAIRS, None, out, resume=True, device="cpu"):
            pass
        assert digest(out) == undisturbed[0]
        return 0

    with child(work) as number:
        status = wait(number)
    if status == FAILED_TO_MOUNT:
        pytest.skip("this system does not let a process mount a file system of its own")
    assert status == 0


def test_a_run_whose_folder_is_removed_stops_and_does_not_write_a_new_one(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with one_thread():
        error = train_until(out, 8, lambda out: shutil.rmtree(out))
    assert error.what == "the run directory was moved or removed during training"
    assert error.where == str(out)
    assert "if it was moved" in str(error.hint)
    assert not out.exists()
