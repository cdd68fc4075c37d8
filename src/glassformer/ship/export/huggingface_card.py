"""The model card of a Hugging Face export: README.md, with the metadata of the hub."""

from __future__ import annotations

import json

from glassformer.ship.export.description import max_new_tokens
from glassformer.ship.export.huggingface_layout import Layout
from glassformer.ship.storage.modelfile import ModelFile

_METRICS = {"exact_match": "exact_match", "bleu": "bleu", "chrf": "chrf"}
"""Our name of a metric -> that of the hub, where it has one."""


def model_card(model_file: ModelFile, layout: Layout) -> str:
    """Return the card as Markdown: metadata, model, use, limits, upload."""
    parts = (_metadata(model_file, layout), _description(model_file), _USE, _limits(model_file, layout), _UPLOAD)
    return "\n".join(parts)


def _metadata(model_file: ModelFile, layout: Layout) -> str:
    tags = ["glassformer", layout.config()["model_type"], "encoder-decoder"]
    lines = ["---", "library_name: transformers", "pipeline_tag: translation", "tags:", *(f"- {tag}" for tag in tags)]
    if model_file.metrics.metric in _METRICS:
        lines += ["metrics:", f"- {_METRICS[model_file.metrics.metric]}"]
    return "\n".join(
        [*lines, "# license: choose one (https://huggingface.co/docs/hub/repositories-licenses)", "---", ""]
    )


def _description(model_file: ModelFile) -> str:
    settings, data, metrics = model_file.settings, model_file.data, model_file.metrics
    model, tokens = settings.model, settings.tokens
    source, target = (json.dumps(column, ensure_ascii=False) for column in data.columns)
    n_source, n_target = len(model_file.source_tokenizer), len(model_file.target_tokenizer)
    rows = [
        (
            "model",
            f"encoder-decoder Transformer, {model.n_encoder_layers}+{model.n_decoder_layers} layers, d_model "
            f"{model.d_model}, d_ff {model.d_ff}, {model.n_heads} heads, {model_file.n_parameters:,} parameters",
        ),
        ("tokens", f"{tokens.source.kind} ({n_source:,}) → {tokens.target.kind} ({n_target:,})"),
    ]
    if data.train_rows:
        rows.append(("trained on", f"{data.train_rows:,} rows"))
    if metrics.metric is not None and metrics.value is not None:
        rows.append((f"{metrics.metric} on {metrics.rows or 'validation'} rows", f"{metrics.value:.4f}"))
    table = "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
    return f"# A model by glassformer\n\nIt turns {source} into {target}.\n\n{table}\n"


_USE = """## Use

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")
model = AutoModelForSeq2SeqLM.from_pretrained(".")
batch = tokenizer(["a text", "another one"], return_tensors="pt", padding=True)
answers = tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
```

`python run.py < texts.txt` answers line by line; `--json` adds ids and scores, `--beam N` searches with a beam.
`check.json` says on which rows the answers were compared with those of glassformer.
"""


def _limits(model_file: ModelFile, layout: Layout) -> str:
    decoding, longest = model_file.settings.decoding, max_new_tokens(model_file)
    lines = [
        f"- A text has at most {model_file.settings.max_source_tokens} tokens, an answer at most {longest} "
        "(`max_new_tokens`). An empty text has no answer; `generate` makes one up.",
    ]
    if decoding.num_beams > 1 and decoding.length_alpha:
        lines.append(
            f"- `generate` searches greedily. The model's own search is a beam of {decoding.num_beams}, ranked by "
            f"score / ((5 + length) / 6)^{decoding.length_alpha:g}; `generate` has another penalty, and `run.py` ranks "
            f"by this one. The nearest call is `generate(**batch, num_beams={decoding.num_beams}, length_penalty=0.0, "
            'early_stopping="never")`, which ranks by the score alone.'
        )
    if layout.is_joined:
        lines.append(
            "- The vocabulary has the target's tokens first, then the source's. The tokenizer encodes sources and "
            "decodes answers; it does not encode targets, so that `text_target=` is not for this model."
        )
    if layout.loses_positions:
        lines.append(
            "- The position tables of this model are not those that MarianMT computes. `from_pretrained` reads them "
            "from `model.safetensors`; `save_pretrained` does not write them."
        )
    return "## Limits\n\n" + "\n".join(lines) + "\n"


_UPLOAD = """## Upload

```
hf auth login
hf upload YOUR_NAME/YOUR_MODEL . .
```

Set `license:` in the first lines of this file before that.
"""
