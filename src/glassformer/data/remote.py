"""Tables at an address, such as `s3://bucket/pairs.csv` or `https://host/pairs.csv`, through `fsspec`.

A table is copied into the cache, and copied again when the server reports another version of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from glassformer.data.cache import cached, key_of
from glassformer.data.formats import FORMATS, suffix_of
from glassformer.errors import GlassformerError, MissingExtraError, TableError

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_address(path: str) -> bool:
    """Return whether a table is at an address, and not in a file."""
    return _ADDRESS.match(path) is not None


def public(address: str) -> str:
    """Return an address without the parts that may be secret: user, password, query."""
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    if scheme.lower() in ("http", "https"):  # elsewhere ? is part of a pattern
        path = path.partition("?")[0].partition("#")[0]
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def copies(address: str) -> dict[str, str]:
    """Copy the file at an address, or the tables of a folder or pattern; return the path of each copy -> its address.

    Raises MissingExtraError without fsspec, TableError for what cannot be read, RunError when the cache cannot be
    written.
    """
    try:
        import fsspec  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("reading a table at an address", package="fsspec", extra="remote") from None
    with _errors(address):
        system, path = fsspec.core.url_to_fs(address)
        found = _listed(system, path)
    if not found:
        raise TableError("there is no table at this address", where=public(address), expected=f"{', '.join(FORMATS)}")
    return {str(_copied(system, file, address)): public(system.unstrip_protocol(file)) for file in found}


def _listed(system: Any, path: str) -> list[str]:
    if "*" in path or "?" in path:
        return sorted(file for file in system.glob(path) if suffix_of(Path(file)) in FORMATS)
    # A server of web pages cannot tell folders from files; a name with the suffix of a table is a file.
    if suffix_of(Path(path)) not in FORMATS and system.isdir(path):
        return sorted(file for file in system.ls(path, detail=False) if suffix_of(Path(file)) in FORMATS)
    return [path]


def _copied(system: Any, file: str, address: str) -> Path:
    with _errors(address):
        version = str(system.ukey(file))
    name = Path(urlsplit(file).path).name or "table"
    key = key_of("remote", {"file": public(system.unstrip_protocol(file)), "version": version})

    def write(folder: Path) -> dict[str, Any]:
        with _errors(address):
            system.get_file(file, str(folder / name))
        return {}

    return cached(key, write).folder / name


@contextmanager
def _errors(address: str) -> Iterator[None]:
    """Raise TableError for any error inside the context: each kind of address has a library with errors of its own."""
    where = public(address)
    try:
        yield
    except GlassformerError:
        raise
    except FileNotFoundError:
        raise TableError("there is no such file", where=where) from None
    except ImportError as error:  # of the library for this kind of address, which the error names
        raise TableError("a library for this address is not installed", where=where, got=_first_line(error)) from None
    except Exception as error:
        raise TableError("the address cannot be read", where=where, got=_first_line(error)) from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]
