"""A trace without its numbers: the program by which the exported page computes answers and traces of any text."""

from __future__ import annotations

from typing import Any

from glassformer.export.programs import max_new_tokens
from glassformer.glassbox.catalogue import weight_axes
from glassformer.glassbox.trace import explain
from glassformer.storage.modelfile import ModelFile
from glassformer.text.inputs import compose


def trace_template(model_file: ModelFile) -> dict[str, Any]:
    """Return the steps, axes and settings of a trace of this model, and the axes of its weights in `weights`.

    The tensors are those that do not depend on the text. The labels of the vocabularies are left out: the page has
    them. Members have one shape, so that the program of the first is that of all.
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


def _some_text(model_file: ModelFile) -> str:
    """Return a text that the model takes, of one token that is not white space; of several inputs a source of them."""
    inputs, tokenizer = model_file.source_tokenizer.inputs, model_file.source_tokenizer.without_inputs()
    texts = (tokenizer.decode([token]) for token in tokenizer.vocabulary.ordinary.values())
    text = next((text for text in texts if text.strip()), "?")
    return compose([text if one.kind == "text" else (*one.symbols, "?")[0] for one in inputs]) if inputs else text
