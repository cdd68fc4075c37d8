"""`glassformer info`: what a model is, what it was trained on, how good it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from glassformer.cli.console import AsJson, Model, print_json, print_table

if TYPE_CHECKING:
    from glassformer.modelfile import ModelFile


def info(model: Model, as_json: AsJson = False) -> None:
    """What a model is, what it was trained on, and how good it is."""
    from glassformer.modelfile import ModelFile, find_model

    model_file = ModelFile.load(model)
    facts = describe(model_file)
    if as_json:
        print_json({"path": str(find_model(model)), **facts})
        return
    print_table(str(find_model(model)), ("", ""), list(_rows(facts)))


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    model, data, never = facts["settings"]["model"], facts["data"], facts["never_trained"]
    yield "turns", " into ".join(data.get("columns", ["source", "target"]))
    yield "tokens", " → ".join(f"{each['kind']} ({each['size']:,})" for each in facts["vocabularies"].values())
    depth = f"{model['n_encoder_layers']} encoder, {model['n_decoder_layers']} decoder"
    yield "layers", f"{depth}, {model['norm']}-norm, {model['positions']} positions"
    heads = f"{model['n_heads']} heads of d_k {model['d_k']}, d_v {model['d_v']}"
    yield "width", f"d_model {model['d_model']}, d_ff {model['d_ff']}, {heads}"
    for name, count in facts["parameters"].items():
        yield f"parameters, {name}", f"{count:,}"
    rows = f"{data.get('train_rows', 0):,} rows, {data.get('valid_rows', 0):,} held out"
    yield "trained on", f"{data.get('table', '?')}: {rows}"
    yield "metrics", ", ".join(f"{name} {value}" for name, value in facts["metrics"].items())
    for side, tokens in never.items():
        yield f"{side} tokens never trained", f"{len(tokens)}  {' '.join(tokens[:80])}"
    yield "made with", ", ".join(f"{name} {version}" for name, version in facts["versions"].items())


def describe(model_file: ModelFile) -> dict[str, Any]:
    """Everything that `info` tells, as plain data."""
    from glassformer.modelfile import tensor_shapes

    settings = model_file.settings
    tokenizers = {"source": model_file.source_tokenizer, "target": model_file.target_tokenizer}
    sizes = {
        name: math.prod(shape)
        for name, shape in tensor_shapes(settings.model, *(len(each) for each in tokenizers.values())).items()
    }

    def total(*words: str) -> int:
        return sum(size for name, size in sizes.items() if any(word in name for word in words))

    return {
        "settings": settings.model_dump(mode="json"),
        "vocabularies": {side: {"kind": each.settings.kind, "size": len(each)} for side, each in tokenizers.items()},
        "parameters": {
            "all": sum(sizes.values()),
            "embeddings and positions": total("embedding", "positions", "output_projection"),
            "encoder": total("encoder"),
            "decoder": total("decoder"),
            "one attention": total("encoder.0.self_attention.w_"),
            "one feed-forward": total("encoder.0.feed_forward.w_"),
        },
        "data": {name: value for name, value in model_file.data.items() if not name.endswith("_counts")},
        "metrics": model_file.metrics,
        "never_trained": {side: never_trained(model_file, side) for side in tokenizers},
        "versions": model_file.versions,
    }


def never_trained(model_file: ModelFile, side: str) -> list[str]:
    """Tokens of a side that no row of the training data holds."""
    tokenizer = model_file.source_tokenizer if side == "source" else model_file.target_tokenizer
    counts = model_file.data.get(f"{side}_counts", [])
    ordinary = set(range(len(tokenizer))) - tokenizer.vocabulary.special_ids
    return [tokenizer.vocabulary.pieces[i] for i in sorted(ordinary) if i < len(counts) and counts[i] == 0]
