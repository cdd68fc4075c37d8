"""Writing files so that nothing is ever lost: a temporary name, synced, renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from glassformer.errors import RunError, quoted

NAME_MAX, PATH_MAX = 255, 4096  # bytes, where the system does not tell


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; when the block ends well it is synced and renamed to `path`.

    Where `path` is a link, the file that it leads to is replaced, and the link stays. Who could read the old file may
    read the new one. After an error nothing of it is left and an older `path` still stands. Raises RunError when the
    folder cannot be written or the disk is full.
    """
    check_path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        try:
            yield path  # a device or a pipe is written to as it stands
        except OSError as error:
            raise cannot_write(path, error) from None
        return
    file = Path(os.path.realpath(path)) if path.is_symlink() else path
    temporary = _temporary(file)
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


def _temporary(file: Path) -> Path:
    """`.NAME.XXXXXXXX.part` beside `file`; a NAME for which that is too long is shortened."""
    name_max, path_max = _longest(file)
    suffix = f".{secrets.token_hex(4)}.part"
    bytes_left = min(name_max, path_max - 2 - len(os.fsencode(file.parent))) - len(suffix) - 1
    stem = file.name
    while len(stem) > 1 and len(os.fsencode(stem)) > bytes_left:
        stem = stem[:-1]
    return file.with_name(f".{stem}{suffix}")


def _longest(path: Path) -> tuple[int, int]:
    """The longest name and path in bytes (the path with its final NUL) on the file system of `path`."""
    for folder in path.parents:
        with contextlib.suppress(OSError, AttributeError, ValueError):
            if folder.exists():
                return os.pathconf(folder, "PC_NAME_MAX"), os.pathconf(folder, "PC_PATH_MAX")
    return NAME_MAX, PATH_MAX


def write_text(path: Path, text: str) -> None:
    r"""Write UTF-8 text atomically; half of a surrogate pair is written as \udcXX."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def shown(path: str | Path) -> str:
    r"""A path (or another text from outside) that UTF-8 can hold: a byte that is not UTF-8 becomes \udcXX."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def is_file_name(path: str | Path) -> bool:
    """Whether the system could have a file of this path: no NUL, and nothing that it cannot encode."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def check_path(path: Path) -> None:
    """Raise the RunError of a path that no file can have, or for which a temporary name would be too long."""
    if not is_file_name(path):
        raise RunError("no file can have this name", where=quoted(str(path)), hint="choose another name")
    name_max, path_max = _longest(path)
    names = [len(os.fsencode(name)) for name in path.parts]
    if max(names, default=0) > name_max or len(os.fsencode(_temporary(path) if path.name else path)) >= path_max:
        raise cannot_write(path, OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG)))


def check_writable(path: Path) -> None:
    """Raise the RunError of a file that cannot be written, before work is done for it. Nothing is made."""
    check_path(path)
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
        errno.ENAMETOOLONG: "choose a shorter name",
    }
    return RunError(
        "cannot write the file",
        where=quoted(str(path)) if error.errno == errno.ENAMETOOLONG else str(path),
        got=error.strerror or str(error),
        hint=hints.get(error.errno or 0),
    )
