"""Writing files so that nothing is ever lost: a temporary name, synced, renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from glassformer.errors import RunError


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; when the block ends well it is synced and renamed to `path`.

    Where `path` is a link, the file that it leads to is replaced, and the link stays. Who could read the old file may
    read the new one. After an error nothing of it is left and an older `path` still stands. Raises RunError when the
    folder cannot be written or the disk is full.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        try:
            yield path  # a device or a pipe is written to as it stands
        except OSError as error:
            raise cannot_write(path, error) from None
        return
    file = Path(os.path.realpath(path)) if path.is_symlink() else path
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_file():
            temporary.touch(0o600)  # nobody reads the new text who could not read the old one
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        if file.is_file():
            with contextlib.suppress(PermissionError):  # some mounted file systems have no such thing
                temporary.chmod(stat.S_IMODE(file.stat().st_mode))
        temporary.replace(file)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def check_writable(path: Path) -> None:
    """Raise the RunError of a file that cannot be written, before work is done for it. Nothing is made."""
    file = Path(os.path.realpath(path))
    if file.is_dir():
        raise cannot_write(path, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
    if file.is_file() or not file.exists():
        folder = next(each for each in file.parents if each.exists())
        number = errno.EACCES if folder.is_dir() else errno.ENOTDIR
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise cannot_write(path, OSError(number, os.strerror(number)))


def cannot_write(path: Path, error: OSError) -> RunError:
    """What an OSError while writing means to the user."""
    hints = {
        errno.ENOSPC: "free some space, or write elsewhere; nothing that was there before is lost",
        errno.EACCES: "choose a folder that you may write to",
        errno.EROFS: "choose a folder that you may write to",
        errno.ENOTDIR: "a part of this path is a file; choose another place",
        errno.EEXIST: "a part of this path is a file; choose another place",
    }
    return RunError(
        "cannot write the file",
        where=str(path),
        got=error.strerror or str(error),
        hint=hints.get(error.errno or 0),
    )
