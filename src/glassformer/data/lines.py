"""Open and decompress files, and decode bytes as lines of text, with the errors of each."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO, cast

from glassformer.data.ledger import Fault, Reason
from glassformer.errors import MissingExtraError, TableError, quoted
from glassformer.ship.storage.files import is_file_name

COMPRESSIONS = (".gz", ".zst")
"""Suffixes of files that are decompressed while they are read, in lower case."""

BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_AFTER_LONE_CR = re.compile(rb"(?<=\r)(?!\n)(?!\Z)")


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, decompressed if its name ends in .gz or .zst."""
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        match path.suffix.lower():
            case ".gz":
                unzipped = stack.enter_context(gzip.GzipFile(fileobj=file))
                yield cast(BinaryIO, io.BufferedReader(cast(Any, unzipped)))
            case ".zst":
                unzipped = stack.enter_context(pyarrow("reading .zst").input_stream(file, compression="zstd"))
                yield cast(BinaryIO, io.BufferedReader(cast(Any, unzipped)))
            case _:
                yield file


def compressed(data: bytes, path: Path) -> bytes:
    """Return bytes as a part of the file at a path, compressed if its name ends in .gz or .zst.

    Parts follow each other in the file. Raises MissingExtraError for .zst without pyarrow.
    """
    match path.suffix.lower():
        case ".gz":
            return gzip.compress(data, 6, mtime=0)
        case ".zst":
            return cast(bytes, pyarrow("writing .zst").compress(data, codec="zstd", asbytes=True))
        case _:
            return data


@contextmanager
def system_errors(path: str) -> Iterator[None]:
    """Raise TableError for the errors of the operating system and of decompressors inside the context."""
    if not is_file_name(path):
        raise TableError("no file can have this name", where=quoted(path), hint="choose another name")
    try:
        yield
    except FileNotFoundError as error:
        missing = Path(error.filename or path)
        hint = "download it first" if "://" in path else _nearby(missing)
        raise TableError("there is no such file", where=str(missing), hint=hint) from None
    except IsADirectoryError:
        raise TableError("this is a folder, not a table", where=path, hint="name a file in it") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise corrupt(path, error) from None
    except OSError as error:
        # An error of a decompressor has no error number.
        if error.errno is None:
            raise corrupt(path, error) from None
        raise TableError("the file cannot be read", where=path, got=error.strerror) from None


def corrupt(path: str, error: Exception) -> TableError:
    """Return the TableError for an error of a decompressor or of a reader of a binary format."""
    return TableError(
        "the file is damaged or does not match its suffix",
        where=path,
        got=str(error).partition("\n")[0],
        hint="copy or download it again, and check its suffix",
    )


def _nearby(missing: Path) -> str | None:
    """Return a hint with the files of the same folder whose names are nearest."""
    if not missing.parent.is_dir():
        return f"the folder {str(missing.parent)!r} does not exist"
    try:
        names = [file.name for file in missing.parent.iterdir()]
    except OSError:
        return None
    close = get_close_matches(missing.name, names, cutoff=0.5)
    return f"did you mean {' or '.join(repr(name) for name in close)}?" if close else None


def pyarrow(feature: str) -> Any:
    """Return the module pyarrow. Raises MissingExtraError when it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(feature, package="pyarrow", extra="parquet") from None
    return pyarrow


class Lines:
    r"""The lines of a UTF-8 stream, endings included, split at \n only (`lone_cr`: also at a \r without \n).

    A byte order mark is dropped. A line that is not UTF-8 or contains NUL is returned too; `faults` maps its number
    (from 1) to its fault. Raises TableError for UTF-16 and UTF-32.
    """

    def __init__(self, stream: Iterable[bytes], name: object, *, lone_cr: bool = False) -> None:
        self._stream, self._name, self._lone_cr = stream, name, lone_cr
        self.faults: dict[int, Fault] = {}

    def __iter__(self) -> Iterator[str]:
        offset = 0
        for number, raw in enumerate(self.raw(), 1):
            line = raw
            if number == 1:
                line = raw.removeprefix(BOM)
                offset = len(raw) - len(line)
                if not line:
                    return
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                at = error.start
                detail = f"byte 0x{line[at]:02x} at offset {offset + at} of the file"
                self.faults[number] = Fault(Reason.NOT_UTF8, detail)
                text = line.decode(errors="surrogateescape")
            if "\0" in text:
                self.faults.setdefault(number, Fault(Reason.NUL))
            offset += len(line)
            yield text

    def numbered(self) -> Iterator[tuple[int, str, Fault | None]]:
        r"""Return the number, the text without \n or \r\n, and the fault, if any, of each line."""
        for number, text in enumerate(self, 1):
            fault = self.faults.pop(number, None) if self.faults else None
            yield number, text.removesuffix("\n").removesuffix("\r"), fault

    def raw(self) -> Iterator[bytes]:
        """Return the bytes of each line, ending and byte order mark included."""
        for number, raw in enumerate(self._stream):
            if number == 0 and raw.startswith(_UTF16_BOMS):
                what = "the text is UTF-16 or UTF-32, not UTF-8"
                raise TableError(what, where=str(self._name), hint="save the file as UTF-8")
            if self._lone_cr and raw.count(b"\r") > raw.endswith(b"\r\n"):
                yield from _AFTER_LONE_CR.split(raw)
            else:
                yield raw
