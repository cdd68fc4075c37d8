"""Models of the hub, from a small server on this machine that speaks its endpoints."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import MissingExtraError, ModelFileError, UsageError
from glassformer.inference.translator import Translator
from glassformer.storage.hub import fetch, local_model
from glassformer.storage.modelfile import ModelFile
from tests.cli.conftest import answer_to
from tests.storage.importers.conftest import write_marian
from tests.untrained import character_model

constants = pytest.importorskip("huggingface_hub.constants", reason="the extra huggingface is not installed")

SHA, OLDER = "a" * 40, "b" * 40
SECRET = "run.py"  # a file that no model needs


Answer = tuple[int, bytes, dict[str, str]]  # status, body and headers


class Hub(ThreadingHTTPServer):
    """A small hub: `requests` are the files that were fetched, `folders` the content by repository and commit."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.folders: dict[tuple[str, str], Path] = {}
        self.requests: list[str] = []

    def answer(self, path: str) -> Answer:
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?/?", path):
            return self.describe(*found.groups())
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        file = self.folders.get((found[1], found[2]), Path("/nowhere")) / found[3] if found else Path("/nowhere")
        if found and file.is_file():
            return 200, file.read_bytes(), {"ETag": f'"{digest(file)}"', "X-Repo-Commit": found[2]}
        return refuse("EntryNotFound")

    def describe(self, name: str, kind: str | None, revision: str | None) -> Answer:
        if name not in {known for known, _ in self.folders}:
            return refuse("GatedRepo" if name.startswith("gated/") else "RepoNotFound")
        sha = SHA if revision in (None, "main") else revision
        if (name, sha) not in self.folders:
            return refuse("RevisionNotFound")
        files = sorted(self.folders[name, sha].iterdir())
        described: Any = {"id": name, "sha": sha}
        if kind == "tree":
            sizes = [{"size": file.stat().st_size, "oid": digest(file)} for file in files]
            described = [{"type": "file", "path": file.name, **size} for file, size in zip(files, sizes, strict=True)]
        return 200, json.dumps(described).encode(), {"Content-Type": "application/json"}


def refuse(code: str) -> Answer:
    return 403 if code == "GatedRepo" else 404, b"", {"X-Error-Code": code, "X-Error-Message": code}


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        status, body, headers = self.server.answer(self.path.partition("?")[0])
        if self.command == "GET" and "X-Repo-Commit" in headers:
            self.server.requests.append(self.path.rpartition("/")[2])
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815  # a name of the library

    def log_message(self, *_: Any) -> None:
        pass


def digest(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with Hub() as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        template = running.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_ASSETS_CACHE", str(tmp_path / "assets"))
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def ours(server: Hub, tmp_path: Path) -> dict[str, ModelFile]:
    """A repository `me/model` with a model of ours at two commits, and another file."""
    models = {sha: character_model("abcdef", seed=seed, scale=1.0) for seed, sha in enumerate((SHA, OLDER), 1)}
    for sha, model in models.items():
        folder = tmp_path / sha
        folder.mkdir()
        model.save(folder / "model.safetensors")
        (folder / SECRET).write_text("raise SystemExit")
        server.folders["me/model", sha] = folder
    return models


def test_a_model_of_a_revision_is_fetched_and_translates_and_only_what_it_needs_is_fetched(
    server: Hub, ours: dict[str, ModelFile]
) -> None:
    expected = Translator(ours[SHA], device="cpu").translate(["abc"], max_new_tokens=9)
    assert Translator.load("hf://me/model", device="cpu").translate(["abc"], max_new_tokens=9) == expected
    assert server.requests == ["model.safetensors"]
    assert fetch("hf://me/model").revision == SHA
    path, name = local_model(f"hf://me/model@{OLDER}"), "encoder.0.self_attention.w_q.weight"
    assert (ModelFile.load(path).tensors[name] == ours[OLDER].tensors[name]).all()
    assert path.parent.name == OLDER


def test_a_model_in_the_cache_needs_no_network(
    server: Hub, ours: dict[str, ModelFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = local_model("hf://me/model")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert local_model("hf://me/model") == first
    with pytest.raises(ModelFileError, match="cannot be reached, and the model is not in the cache") as caught:
        local_model("hf://me/other")
    assert "hf://me/other" in str(caught.value)
    assert "HF_ENDPOINT" in str(caught.value)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("pickled", [False, True])
def test_a_marian_repository_is_converted_once(server: Hub, tmp_path: Path, pickled: bool) -> None:
    import torch
    from safetensors.torch import load_file

    folder = write_marian(tmp_path / "marian")
    (folder / SECRET).write_text("raise SystemExit")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    if pickled:
        (folder / "model.safetensors").unlink()
    server.folders["Helsinki-NLP/opus-mt-aa-kk", SHA] = folder
    path = local_model("hf://Helsinki-NLP/opus-mt-aa-kk")
    written = path.stat().st_mtime_ns
    model_file = ModelFile.load(path)
    assert model_file.data.imported_from == f"Helsinki-NLP/opus-mt-aa-kk@{SHA}"
    assert local_model("hf://Helsinki-NLP/opus-mt-aa-kk").stat().st_mtime_ns == written
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "transformers", None)  # which compares; tests/cli/test_import.py has it
        answer = answer_to("import", "hf://Helsinki-NLP/opus-mt-aa-kk", "--out", tmp_path / "model.safetensors")
    assert answer.code == 0, answer.err
    assert ModelFile.load(tmp_path / "model.safetensors").data == model_file.data
    weights = "pytorch_model.bin" if pickled else "model.safetensors"
    assert weights in server.requests
    assert not {SECRET, "model.safetensors" if pickled else "pytorch_model.bin"} & set(server.requests)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("hf://me/nothing", "the hub does not have this repository"),
        ("hf://gated/model", "not open to everybody"),
        ("hf://me/model@v9", "does not have this revision"),
        ("hf://me/empty", "has no model that glassformer reads"),
    ],
)
def test_what_the_hub_does_not_have_is_named(
    address: str, words: str, server: Hub, ours: dict[str, ModelFile], tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "README.md").write_text("nothing")
    server.folders["me/empty", SHA] = tmp_path / "empty"
    with pytest.raises(ModelFileError, match=words) as caught:
        local_model(address)
    assert address.removeprefix("hf://").partition("@")[0] in str(caught.value)


@pytest.mark.parametrize("address", ["hf://me", "hf://me/a/b", "hf://me/a@", "hf://a/b@../x", "hf://-/--"])
def test_an_address_that_is_not_valid_is_refused(address: str, server: Hub) -> None:
    with pytest.raises((UsageError, ModelFileError), match="hub"):
        local_model(address)
    assert local_model("hf/model") == Path("hf/model")


def test_the_verbs_take_an_address_and_tell_the_revision(
    server: Hub, ours: dict[str, ModelFile], tmp_path: Path
) -> None:
    ours[SHA].save(tmp_path / "local.safetensors")
    short = ("--set", "decoding.max_new_tokens=5")
    local = answer_to("translate", tmp_path / "local.safetensors", "--quiet", *short, stdin=b"abc\n")
    found = answer_to("translate", "hf://me/model", *short, stdin=b"abc\n")
    assert (found.code, found.out) == (0, local.out)
    assert f"me/model at revision {SHA}" in found.err
    assert answer_to("translate", "hf://me/model", "--quiet", *short, stdin=b"abc\n").err == ""
    assert SHA in answer_to("info", "hf://me/model").out
    both = answer_to("translate", "hf://me/model", "--ensemble", f"hf://me/model@{OLDER}", *short, stdin=b"abc\n")
    assert (both.code, OLDER in both.err) == (0, True)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match="huggingface_hub") as caught:
        local_model("hf://me/model")
    assert ".[huggingface]" in str(caught.value)
