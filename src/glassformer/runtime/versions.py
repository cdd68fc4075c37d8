"""The versions of the libraries that compute."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Sequence
from functools import cache
from importlib import metadata

_version_of = cache(metadata.version)  # which reads and parses all metadata of a package


def library_versions(
    packages: Sequence[str] = ("glassformer", "numpy", "safetensors", "tokenizers", "torch"),
) -> dict[str, str]:
    """Return the versions of Python and of those packages that are installed, by default what creates a model."""
    versions = {"python": platform.python_version()}
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = _version_of(package)
    return versions
