"""`glassformer info`: the shape, the training data and the metrics of a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from glassformer.cli.console import Reporter, print_table
from glassformer.cli.options import Model

if TYPE_CHECKING:
    from glassformer.storage.modelfile import ModelFile


def info(model: Model, reporter: Reporter) -> None:
    """Print the shape, the training data and the metrics of a model.

    Examples:
        glassformer info run
        glassformer info run --json
    """
    from glassformer.storage.modelfile import ModelFile, find_model

    model_file = ModelFile.load(model)
    facts = {"path": str(find_model(model)), **model_file.describe()}
    reporter.result(facts, lambda: print_table(facts["path"], ("", ""), list(_rows(model_file, facts))))


def _metrics(metrics: dict[str, Any]) -> Iterator[str]:
    """Yield the metric with what it was measured on, and which weights these are."""
    from glassformer.evaluation.metrics import is_fraction

    if "metric" in metrics:
        name, value = metrics["metric"], metrics["value"]
        shown = f"{100 * value:.4g} %" if is_fraction(name) else f"{value:.4g}"
        sources = f"{metrics['n_sources']:,} " if "n_sources" in metrics else ""
        rows = f"{sources}held-out rows" if metrics.get("rows") == "validation" else "training rows"
        yield f"{name.replace('_', ' ')} {shown} of {rows}" if is_fraction(name) else f"{name} {shown} on {rows}"
    if "step" in metrics:
        yield f"after {metrics['step']:,} steps"
    if "chosen" in metrics:
        yield f"weights: {metrics['chosen']}"


def _rows(model_file: ModelFile, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    model, never, data = facts["settings"]["model"], facts["never_trained"], model_file.data
    yield "columns", " → ".join(data.column_labels)
    for entry in facts["inputs"]:
        symbols = f"{len(entry['symbols']):,} symbols: {' '.join(entry['symbols'][:20])}"
        yield f"{entry['kind']} {entry['name']}", symbols if entry["kind"] == "feature" else "text"
    yield "tokens", " → ".join(f"{side['kind']} ({side['size']:,})" for side in facts["vocabularies"].values())
    depth = f"{model['n_encoder_layers']} encoder, {model['n_decoder_layers']} decoder"
    copying = ", copy mechanism" if model["copy_mechanism"] else ""
    yield "layers", f"{depth}, {model['norm']}-norm, {model['positions']} positions{copying}"
    heads = f"{model['n_heads']} heads of d_k {model['d_k']}, d_v {model['d_v']}"
    yield "width", f"d_model {model['d_model']}, d_ff {model['d_ff']}, {heads}"
    for name, count in facts["parameters"].items():
        yield f"parameters, {name}", f"{count:,}"
    if model_file.members:
        seeds = ", ".join(map(str, model_file.seeds))
        yield "members", f"{len(model_file.seeds)} such models, with the seeds {seeds}; probabilities are averaged"
    if data.imported_from is not None:
        yield "imported from", data.imported_from
    rows = f"{data.train_rows:,} rows, {data.valid_rows:,} held out"
    yield "trained on", f"{data.table or '?'}: {rows}"
    yield "metrics", ", ".join(_metrics(facts["metrics"]))
    yield (
        "confidence of answers",
        "not calibrated" if model_file.calibration is None else model_file.calibration.summary,
    )
    for side, tokens in never.items():
        yield f"{side} tokens never trained", f"{len(tokens)}  {' '.join(tokens[:80])}"
    yield "versions", ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
