"""`glassformer info`: the shape, the training data and the metrics of a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from glassformer.cli.console import print_json, print_table
from glassformer.cli.options import AsJson, Model

if TYPE_CHECKING:
    from glassformer.modelfile import ModelFile


def info(model: Model, as_json: AsJson = False) -> None:
    """Print the shape, the training data and the metrics of a model."""
    from glassformer.modelfile import ModelFile, find_model

    model_file = ModelFile.load(model)
    if as_json:
        print_json({"path": str(find_model(model)), **model_file.describe()})
        return
    print_table(str(find_model(model)), ("", ""), list(_rows(model_file)))


def _rows(model_file: ModelFile) -> Iterator[tuple[str, str]]:
    facts, data = model_file.describe(), model_file.data
    model, never = facts["settings"]["model"], facts["never_trained"]
    yield "columns", " → ".join(data.columns)
    for one in facts["inputs"]:
        symbols = f"{len(one['symbols']):,} symbols: {' '.join(one['symbols'][:20])}"
        yield f"{one['kind']} {one['name']}", symbols if one["kind"] == "feature" else "text"
    yield "tokens", " → ".join(f"{side['kind']} ({side['size']:,})" for side in facts["vocabularies"].values())
    depth = f"{model['n_encoder_layers']} encoder, {model['n_decoder_layers']} decoder"
    yield "layers", f"{depth}, {model['norm']}-norm, {model['positions']} positions"
    heads = f"{model['n_heads']} heads of d_k {model['d_k']}, d_v {model['d_v']}"
    yield "width", f"d_model {model['d_model']}, d_ff {model['d_ff']}, {heads}"
    for name, count in facts["parameters"].items():
        yield f"parameters, {name}", f"{count:,}"
    if data.imported_from is not None:
        yield "imported from", data.imported_from
    rows = f"{data.train_rows:,} rows, {data.valid_rows:,} held out"
    yield "trained on", f"{data.table or '?'}: {rows}"
    yield "metrics", ", ".join(f"{name} {value}" for name, value in facts["metrics"].items())
    for side, tokens in never.items():
        yield f"{side} tokens never trained", f"{len(tokens)}  {' '.join(tokens[:80])}"
    yield "versions", ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
