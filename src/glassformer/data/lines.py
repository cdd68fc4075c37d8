"""Open and decompress files, and decode bytes as lines of text, with the errors of each."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO, cast

from glassformer.data.ledger import Fault, Reason
from glassformer.errors import MissingExtraError, TableError, quoted
from glassformer.storage.files import is_file_name

COMPRESSIONS = (".gz", ".zst")
"""Suffixes of files that are decompressed while they are read, in lower case."""

BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


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


def _are_near(missing: str, name: str) -> bool:
    """Whether two names are near without their suffixes, which many files share."""
    return bool(get_close_matches(Path(missing).stem, [Path(name).stem], cutoff=0.6))


def _nearby(missing: Path) -> str | None:
    """Return a hint with the files of the same folder whose names are nearest."""
    if not missing.parent.is_dir():
        return f"the folder {str(missing.parent)!r} does not exist"
    try:
        names = [file.name for file in missing.parent.iterdir()]
    except OSError:
        return None
    close = [name for name in get_close_matches(missing.name, names, cutoff=0.5) if _are_near(missing.name, name)]
    return f"did you mean {' or '.join(repr(name) for name in close)}?" if close else None


def pyarrow(feature: str) -> Any:
    """Return the module pyarrow. Raises MissingExtraError when it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(feature, package="pyarrow", extra="parquet") from None
    return pyarrow


MAX_LINE = 2**24
"""Maximum number of bytes of a line; no text that a model takes is nearly as long."""

MAX_LOST = 2**28
"""Bytes of a line that is too long, after which the file is refused."""


class Lines:
    r"""The lines of a UTF-8 stream, endings included, split at \n only (`lone_cr`: also at a \r without \n).

    A byte order mark is dropped. A line that is not UTF-8 or contains NUL is returned too; `faults` maps its number
    (from 1) to its fault. A line of more than `MAX_LINE` bytes is returned as an empty line, and has a fault too.
    Raises TableError for UTF-16 and UTF-32, and for a line of more than `MAX_LOST` bytes.
    """

    def __init__(self, stream: BinaryIO, name: object, *, lone_cr: bool = False) -> None:
        self._stream, self._name, self._lone_cr = stream, name, lone_cr
        self._texts = self._decoded()
        self._ahead: list[str] = []
        self.faults: dict[int, Fault] = {}
        self.skipped = 0

    def __iter__(self) -> Iterator[str]:
        while self._ahead:
            yield self._ahead.pop(0)
        yield from self._texts

    def peek(self, count: int) -> list[str]:
        """Return the next lines, at most `count`, which are read again afterward."""
        self._ahead += islice(self._texts, max(0, count - len(self._ahead)))
        return self._ahead[:count]

    def skip(self) -> None:
        """Leave out the first line."""
        self.skipped += len(self.peek(1))
        del self._ahead[:1]

    def numbered(self) -> Iterator[tuple[int, str, Fault | None]]:
        r"""Return the number, the text without its end (\n, \r\n or \r), and the fault, if any, of each line."""
        for number, text in enumerate(self, 1 + self.skipped):
            fault = self.faults.pop(number, None) if self.faults else None
            yield number, text.removesuffix("\n").removesuffix("\r"), fault

    def _decoded(self) -> Iterator[str]:
        for number, (offset, line) in enumerate(self._lines(), 1):
            if not line:
                self.faults[number] = Fault(Reason.ROW_TOO_LONG, f"more than {MAX_LINE:,} bytes in a line")
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                detail = f"byte 0x{line[error.start]:02x} at offset {offset + error.start} of the file"
                self.faults[number] = Fault(Reason.NOT_UTF8, detail)
                text = line.decode(errors="surrogateescape")
            if "\0" in text:
                self.faults.setdefault(number, Fault(Reason.NUL))
            yield text or "\n"

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines as bytes with their offset, as they come; a line that is too long is empty, without its end.

        Raises TableError for a line that has no end within MAX_LOST bytes.
        """
        partial_line, offset, n_lost, n_lines = b"", 0, 0, 0
        while piece := self._stream.readline(MAX_LINE + 1):
            if not offset and piece.startswith(_UTF16_BOMS):
                what = "the text is UTF-16 or UTF-32, not UTF-8"
                raise TableError(what, where=str(self._name), hint=to_utf8(self._name, "UTF-16"))
            if not offset and piece.startswith(BOM):
                piece, offset = piece.removeprefix(BOM), len(BOM)
            lines = (partial_line + piece).splitlines(keepends=True) if self._lone_cr else [partial_line + piece]
            partial_line = lines.pop() if lines and not piece.endswith(b"\n") else b""  # its end is not there yet
            for line in lines:
                yield offset, b"" if n_lost else line
                offset += n_lost + len(line)
                n_lines, n_lost = n_lines + 1, 0
            if n_lost or len(partial_line) > MAX_LINE:
                n_lost, partial_line = n_lost + len(partial_line), b""
            if n_lost > MAX_LOST:
                raise TableError(
                    "a line is too long to be text",
                    where=f"{self._name}, line {n_lines + 1:,}",
                    got=f"more than {MAX_LOST:,} bytes without a line end",
                    expected="one row, or one sentence, a line",
                    hint="check that this is a text file",
                )
        if partial_line or n_lost:
            yield offset, partial_line


def to_utf8(path: object, encoding: str) -> str:
    """Return the command that makes a file in another encoding UTF-8."""
    name = Path(str(path))
    return f"iconv -f {encoding} -t UTF-8 {quote(str(path))} > {quote(f'{name.stem}.utf8{name.suffix}')}"
