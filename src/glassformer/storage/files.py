"""Atomic writing of files: to a temporary name, synced, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from glassformer.errors import RunError, WriteError, quoted

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP)


@contextlib.contextmanager
def atomic(path: Path, *, previous: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`; after the block it is synced and renamed to `path`.

    The old file is then `previous`, if that is given. If `path` is a link, its target is replaced and the link is kept.
    The new file has the permissions of the old one. After an error the temporary file is deleted and the old file is
    unchanged. A device or a pipe is written to directly. Raises WriteError when the folder cannot be written, or the
    disk is full.
    """
    check_path(path)
    with writing(path):
        if is_device(path):
            yield path  # which cannot be replaced
            return
        file = Path(os.path.realpath(path)) if path.is_symlink() else path
        temporary = _temporary(file)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.is_file():
                temporary.touch(0o600)  # the permissions of the old file may be narrower than the default
            yield temporary
            replace_file(temporary, file, previous)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def replace_file(temporary: Path, file: Path, previous: Path | None = None) -> None:
    """Sync a file that is complete, and rename it to `file`, whose permissions it gets if that exists.

    The old file is then `previous`, if that is given.
    """
    with temporary.open("rb") as written:
        os.fsync(written.fileno())
    if file.is_file():
        with contextlib.suppress(PermissionError):  # some mounted file systems have no permissions
            temporary.chmod(stat.S_IMODE(file.stat().st_mode))
        if previous is not None:
            name_also(file, previous)
    temporary.replace(file)


def name_also(file: Path, other: Path) -> None:
    """Give a file a second name, which is at no moment without a file. Not on file systems without hard links."""
    temporary = _temporary(other)
    # Without hard links there is no previous file: pathlib raises NotImplementedError where `os` has no `link`.
    with contextlib.suppress(OSError, NotImplementedError):
        temporary.hardlink_to(file)
        temporary.replace(other)
    with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)  # a file is not renamed to a name that it has already


def _temporary(file: Path) -> Path:
    """Return a new name in the folder of `file`, short enough where that of `file` is."""
    return file.with_name(f".{os.urandom(4).hex()}.part")


def write_text(path: Path, text: str) -> None:
    r"""Write UTF-8 text atomically; a lone surrogate is written as \udcXX."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def shown(path: str | Path) -> str:
    r"""Return a path (or other outside text) that UTF-8 can encode: a byte that is not UTF-8 becomes \udcXX."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def is_file_name(path: str | Path) -> bool:
    """Return whether a file can have this path: no NUL, and only characters that the system can encode."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def is_device(path: Path) -> bool:
    """Return whether this is a device or a pipe, which is read and written directly."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # no file can have this name
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def check_path(path: Path) -> None:
    """Raise RunError for a path that no file can have, or that is too long."""
    if not is_file_name(path):
        raise RunError("no file can have this name", where=quoted(str(path)), hint="choose another name")
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise cannot_write(path, error) from None


def check_empty(folder: Path) -> None:
    """Raise RunError for a folder that has files, or that no folder can be."""
    check_path(folder / "ledger.jsonl")
    with writing(folder):
        if folder.exists() and not folder.is_dir():
            raise RunError("the folder is a file", where=str(folder), hint="choose another --out")
        if folder.is_dir() and any(folder.iterdir()):
            what = "the folder is not empty; nothing was written"
            raise RunError(what, where=str(folder), hint="choose another --out")


def check_writable(path: Path) -> None:
    """Raise RunError for a file that cannot be written, before work is done for it. Creates nothing."""
    check_path(path)
    file = Path(os.path.realpath(path))
    if file.is_dir():
        raise cannot_write(path, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
    if file.is_file() or not file.exists():
        folder = next(parent for parent in file.parents if parent.exists())
        number = errno.EACCES if folder.is_dir() else errno.ENOTDIR
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise cannot_write(path, OSError(number, os.strerror(number)))


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise WriteError for an error of the operating system inside the context, which writes `path`."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from None


def cannot_write(path: Path, error: OSError) -> WriteError:
    """Return the error for an OSError while writing."""
    hints = {
        errno.ENOSPC: "free some space, or write to another disk; no existing data is lost",
        errno.EDQUOT: "free some space, or write to another disk; no existing data is lost",
        errno.EIO: "the disk reports an error: check it, or write to another disk; no existing data is lost",
        errno.EACCES: "choose a folder with write permission",
        errno.EROFS: "choose a folder with write permission",
        errno.ENOTDIR: "a part of this path is a file; choose another path",
        errno.EEXIST: "a part of this path is a file; choose another path",
        errno.ENAMETOOLONG: "choose a shorter name",
    }
    return WriteError(
        "cannot write the file",
        where=quoted(str(path)) if error.errno == errno.ENAMETOOLONG else str(path),
        got=error.strerror or str(error),
        hint=hints.get(error.errno or 0, "check the folder and the disk, then try again; no existing data is lost"),
    )


@contextlib.contextmanager
def locked(path: Path, busy: RunError) -> Iterator[bool]:
    """Lock the file at `path`, which exists meanwhile. Raises `busy` when another process holds the lock.

    On a file system without locks nothing is locked; yields whether it is.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, blocking=False, thread_local=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise busy from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise cannot_write(path.parent, error) from None
    folder = identity_of(path.parent)
    try:
        yield lock.is_locked
    finally:
        if identity_of(path.parent) == folder:  # otherwise another directory has this name now
            with contextlib.suppress(OSError):  # Windows deletes it when the lock is released
                path.unlink()
        lock.release()


def identity_of(path: Path, *fields: str) -> tuple[int, ...] | None:
    """Return device and inode of a file or directory, and further fields of its status; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return tuple(getattr(status, name) for name in ("st_dev", "st_ino", *fields))
