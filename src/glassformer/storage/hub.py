"""Models of the Hugging Face hub, `hf://owner/name` or `hf://owner/name@revision`, through `huggingface_hub`.

A repository holds either our `model.safetensors` or a MarianMT folder. Only the files that these need are fetched, into
the library's cache; a revision that is a branch or a tag is resolved to its commit, and all files are of that commit. A
MarianMT folder is converted once, and the model file is kept in the library's folder for such files.

Without a network a model that is in the cache is used. Nothing from a repository is executed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from glassformer.errors import MissingExtraError, ModelFileError, UsageError, quoted
from glassformer.storage.importers.marian import FILES, import_marian, is_marian
from glassformer.storage.importers.weights import PICKLED, SAFETENSORS

_ADDRESS = re.compile(r"hf:/{1,2}(?P<name>[\w.-]+/[\w.-]+)(@(?P<revision>(?!.*\.\.)[\w./-]+))?", re.ASCII)
"""A Path has one slash of the two. Git has no ".." in a revision, and in the cache it would be another folder."""


@dataclass(frozen=True)
class Fetched:
    """A repository in the cache: the folder with its files, its name, and the commit that they are of."""

    name: str
    revision: str
    folder: Path

    def __str__(self) -> str:
        return f"{self.name} at revision {self.revision}"


def fetch(address: str | Path, *, quiet: bool = False) -> Fetched:
    """Fetch the files of a repository that are not in the cache yet. `quiet`: the library shows no progress bars.

    Raises UsageError for an address that is not valid, ModelFileError for a repository or revision that does not exist
    or cannot be reached, MissingExtraError where the library is not installed.
    """
    match = _ADDRESS.fullmatch(str(address))
    if match is None:
        raise UsageError(
            "this is not the address of a model on the hub",
            got=quoted(str(address)),
            expected="hf://owner/name or hf://owner/name@revision",
        )
    name, revision = match["name"], match["revision"]
    if quiet:
        _library().utils.disable_progress_bars()
    folder = _download(name, revision, [file for file in FILES if file != PICKLED])
    if is_marian(folder) and not (folder / SAFETENSORS).exists():
        folder = _download(name, folder.name, [PICKLED])
    return Fetched(name, folder.name, folder)


def local_model(model: str | Path) -> Path:
    """Return the path of a model on this machine; one on the hub is fetched, and converted if it is MarianMT.

    Raises what `fetch` and `import_marian` raise, and ModelFileError for a repository without a model.
    """
    return model_of(fetch(model)) if str(model).startswith("hf:/") else Path(model)


def model_of(fetched: Fetched) -> Path:
    """Return the model file of a repository; a MarianMT model is converted, once for a version of glassformer.

    Raises what `local_model` raises.
    """
    if not is_marian(fetched.folder):
        if (fetched.folder / SAFETENSORS).is_file():
            return fetched.folder / SAFETENSORS
        what, expected = "this repository has no model that glassformer reads", "or the files of a MarianMT model"
        raise ModelFileError(what, where=str(fetched), expected=f"a {SAFETENSORS} of glassformer, {expected}")
    owner, name = fetched.name.split("/")
    version = f"{fetched.revision}-{metadata.version('glassformer')}"
    folder: Path = _library().cached_assets_path("glassformer", namespace=owner, subfolder=f"{name}-{version}")
    path = folder / SAFETENSORS
    if not path.is_file():
        import_marian(fetched.folder).save(path)
    return path


def _download(name: str, revision: str | None, files: list[str]) -> Path:
    library = _library()
    errors, where = library.errors, f"hf://{name}" + (f"@{revision}" if revision else "")
    network = "check the network, HF_ENDPOINT and HF_HUB_OFFLINE; a model that was fetched before needs no network"
    explanations = {
        errors.GatedRepoError: (
            "this repository is not open to everybody",
            "accept its conditions on the hub, then: hf auth login",
        ),
        errors.RevisionNotFoundError: ("the repository does not have this revision", None),
        errors.RepositoryNotFoundError: (
            "the hub does not have this repository",
            "check the name; for a private one: hf auth login",
        ),
        errors.LocalEntryNotFoundError: ("the hub cannot be reached, and the model is not in the cache", network),
    }
    try:
        return Path(library.snapshot_download(name, revision=revision, allow_patterns=files))
    except tuple(explanations) as error:
        what, hint = next(words for kind, words in explanations.items() if isinstance(error, kind))
        raise ModelFileError(what, where=where, hint=hint) from None
    except (OSError, errors.HfHubHTTPError, errors.HFValidationError) as error:
        got = str(error).partition("\n")[0][:200]
        raise ModelFileError("the model cannot be fetched from the hub", where=where, got=got, hint=network) from None


def _library() -> Any:
    """Return the library. Raises MissingExtraError where it is not installed."""
    try:
        import huggingface_hub
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError:
        raise MissingExtraError("a model of the hub", package="huggingface_hub", extra="huggingface") from None
    return huggingface_hub
