"""The README.md of a run: a model card."""

from __future__ import annotations

from collections.abc import Sequence

from glassformer.data.prepare import Prepared
from glassformer.data.splits import Overlap
from glassformer.errors import counted
from glassformer.settings import DataSettings
from glassformer.storage.files import shown
from glassformer.storage.modelfile import count_parameters
from glassformer.storage.records import TrainingData
from glassformer.training.events import Finished


def model_card(prepared: Prepared, finished: Finished) -> str:
    """Return the card as Markdown: the model, its training data, the metric on held-out rows, and how to use it."""
    settings, data = prepared.settings, prepared.data
    n_source, n_target = len(prepared.source_tokenizer), len(prepared.target_tokenizer)
    n_parameters = count_parameters(settings.model, n_source, n_target)
    model, tokens = settings.model, settings.tokens
    counts, test_counts = (
        ", ".join(f"{name} {count:,}" for name, count in counter.items())
        for counter in (data.rows, prepared.test_ledger.counts())
    )
    tested = f"| rows of the test table | {test_counts} |\n" if prepared.test_ledger.read else ""
    calibrated = (
        f"| confidence of answers | calibrated on {finished.calibrated:,} held-out sources |\n"
        if finished.calibrated
        else ""
    )
    return f"""# A model by glassformer

It turns `{data.column_labels[0]}` into `{data.column_labels[1]}`.

| | |
|---|---|
| trained on | `{data.table}`: {data.train_rows:,} rows; {data.valid_rows:,} held out |
| rows | {counts} (`ledger.jsonl` lists each row that was not kept) |
{_cleaning(settings.data, data)}\
{tested}{_overlaps(prepared.overlaps)}\
| fingerprint of the pairs | `{data.fingerprint}` |
| tokens | {tokens.source.kind} ({n_source:,}) → {tokens.target.kind} ({n_target:,}) |
| model | encoder-decoder Transformer, {model.n_encoder_layers}+{model.n_decoder_layers} layers, \
d_model {model.d_model}, d_ff {model.d_ff}, {model.n_heads} heads, {n_parameters:,} parameters |
| training | {finished.step:,} steps in {finished.seconds:,.0f} s; reason for the end: {finished.reason} |
| weights | {finished.chosen} |
| {finished.metric} on {"training rows" if prepared.valid is None else "held-out rows"} | {finished.value:.4f} |
{calibrated}
`recipe.toml` holds the complete recipe, `history.jsonl` the events of the training (of several models in `members`).

```
glassformer translate model.safetensors INPUT
glassformer evaluate model.safetensors TABLE
glassformer info model.safetensors
```
"""


def _overlaps(overlaps: Sequence[Overlap]) -> str:
    """Return the lines of the card on rows to validate and test on whose source was trained on."""
    named_overlaps = ((each, f"rows of `{shown(each.table)}`" if each.table else "held-out rows") for each in overlaps)
    return "".join(
        f"| overlap | {each.rows:,} of {each.total:,} {rows} have a source that was trained on |\n"
        for each, rows in named_overlaps
    )


def _cleaning(chosen: DataSettings, data: TrainingData) -> str:
    """Return the line of the card on how the table was cleaned, or nothing."""
    changed = f"{counted(data.changed_rows, 'row')} changed"
    parts = [
        *([f"control characters removed ({changed})"] if chosen.strip_controls else []),
        *(["contradictions dropped"] if chosen.drop_contradictions else []),
        *(["duplicates dropped"] if chosen.drop_duplicates else []),
    ]
    held = "before rows were held out" if data.valid_fingerprint is None else "not the table to validate on"
    return f"| cleaning | {'; '.join(parts)} ({held}) |\n" if parts else ""
