"""Writing files so that nothing is ever lost: a temporary name, synced, renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from glassformer.errors import RunError


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; when the block ends well it is synced and renamed to `path`.

    After an error nothing of it is left and an older `path` still stands. Raises RunError when the folder
    cannot be written or the disk is full.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        try:
            yield path  # a device or a pipe is written to as it stands
        except OSError as error:
            raise cannot_write(path, error) from None
        return
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


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
