"""A trace without its numbers, from which the exported page computes the trace of any text by the first model."""

from __future__ import annotations

from typing import Any

from glassformer.glassbox.catalogue import weight_axes
from glassformer.glassbox.trace import explain
from glassformer.ship.export.programs import max_new_tokens
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.text.inputs import compose

MAX_PARAMETERS = 12_000_000
"""Of a model that the glass box of the page computes, in float64 and in plain JavaScript."""


def trace_template(model_file: ModelFile) -> dict[str, Any] | None:
    """Return the steps, axes and settings of a trace of this model, and the axes of its weights in `weights`.

    The tensors are those that do not depend on the text. The labels of the vocabularies are left out: the page has
    them. None for a model that is too large for a browser.
    """
    if model_file.n_parameters > MAX_PARAMETERS:
        return None
    text = _shortest_text(model_file)
    if text is None:
        return None
    document = explain(
        model_file, text, evidence=False, num_beams=1, num_return_sequences=1, max_new_tokens=1
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


def _shortest_text(model_file: ModelFile) -> str | None:
    """Return a text of one token that is not white space, or None; with several inputs a source of such texts."""
    inputs, tokenizer = model_file.source_tokenizer.inputs, model_file.source_tokenizer.without_inputs()
    for token in tokenizer.vocabulary.ordinary.values():
        text = tokenizer.decode([token])
        if text.strip() and tokenizer.encode(text) == [token]:
            cells = (text if one.kind == "text" else (*one.symbols, "?")[0] for one in inputs)
            return compose(list(cells)) if inputs else text
    return None
