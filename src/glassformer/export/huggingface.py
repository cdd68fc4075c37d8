"""The format of Hugging Face: a folder for `AutoModelForSeq2SeqLM` and `AutoTokenizer`, without code of ours.

It has `model.safetensors`, `config.json`, `generation_config.json`, tokenizer and model card. The first ids are those
of the target vocabulary, as they are here.

Greedy search of `generate` gives our answers. Its beam has other rules: it gives the slot of a finished hypothesis to
another one, and it ranks by score / length^p, which is our ranking only without a length penalty. So
`generation_config.json` asks for a beam where `length_alpha` is 0, and for greedy search elsewhere; the check ranks the
answers of the beam by our penalty, which `config.json` has.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import MissingExtraError
from glassformer.export.huggingface_layout import TransformersLayout, check_shape
from glassformer.export.programs import Format, ProgramAnswer, max_new_tokens, max_positions
from glassformer.export.tokenizer_json import tokenizer_json
from glassformer.paper.search import length_penalty
from glassformer.runtime.pytorch import check_pytorch
from glassformer.storage.container import save_file
from glassformer.storage.modelfile import ModelFile
from glassformer.text.inputs import SourceLike

HUB_METRICS = ("exact_match", "bleu", "chrf")
"""The metrics that the hub has, under the same names."""
TEXTS_TOGETHER = 8  # in the check


def check_supported(model_file: ModelFile) -> None:
    """Raise SettingsError for a model that the library cannot represent, MissingExtraError without the library."""
    if importlib.util.find_spec("transformers") is None:
        raise MissingExtraError("--to huggingface", package="transformers", extra="huggingface")
    check_pytorch("--to huggingface")
    check_shape(model_file.settings.model)
    _tokenizer(model_file, TransformersLayout(model_file, 1))


def write(model_file: ModelFile, folder: Path, precision: str) -> None:
    """Write the folder."""
    layout = TransformersLayout(model_file, max_positions(model_file))
    weights = {name: np.ascontiguousarray(array, precision) for name, array in layout.weights().items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    contents = {
        "config": layout.config()
        | _special_ids(model_file)
        | {"dtype": precision, "length_alpha": model_file.settings.decoding.length_alpha},
        "generation_config": _generation(model_file),
        "tokenizer": _tokenizer(model_file, layout),
        "tokenizer_config": _tokenizer_config(model_file),
    }
    for name, content in contents.items():
        text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8", newline="\n")
    (folder / "README.md").write_text(model_card(model_file, layout), encoding="utf-8", newline="\n")


def answer(folder: Path, texts: Sequence[SourceLike], num_beams: int) -> list[ProgramAnswer]:
    """Answer texts with transformers; the answers of a beam are ranked by the model's own length penalty."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, logging

    had_progress_bar = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True).eval()
    finally:
        if had_progress_bar:
            logging.enable_progress_bar()
    filled = [i for i, text in enumerate(texts) if str(text).strip()]
    answers = [ProgramAnswer("", (), 0.0, finished=True, rank_score=0.0)] * len(texts)
    for start in range(0, len(filled), TEXTS_TOGETHER):
        rows = filled[start : start + TEXTS_TOGETHER]
        for i, beam in zip(rows, _beams(tokenizer, model, [texts[i] for i in rows], num_beams), strict=True):
            answers[i] = max(beam, key=lambda candidate: (candidate.rank_score, candidate.finished))
    return answers


def _beams(tokenizer: Any, model: Any, texts: list[SourceLike], num_beams: int) -> Iterator[list[ProgramAnswer]]:
    """Yield all answers of the beam of each text."""
    import torch

    config = model.generation_config
    beam = {"length_penalty": 0.0, "early_stopping": "never"} if num_beams > 1 else {}
    with torch.inference_mode():
        sources = tokenizer(texts, return_tensors="pt", padding=True)
        outputs = model.generate(**sources, num_beams=num_beams, num_return_sequences=num_beams, **beam)
        repeated = {name: array.repeat_interleave(num_beams, dim=0) for name, array in sources.items()}
        logits = model(**repeated, decoder_input_ids=outputs[:, :-1], use_cache=False).logits.float()
        targets, pad = outputs[:, 1:], config.pad_token_id
        is_end = targets == config.eos_token_id
        targets = targets.masked_fill(is_end.cumsum(dim=1) > is_end, pad)  # if pad is 0, beams are filled with <eos>
        losses = torch.nn.functional.cross_entropy(logits.mT, targets, ignore_index=pad, reduction="none").sum(dim=1)
    answers = []
    for row, loss in zip(targets.tolist(), losses.tolist(), strict=True):
        ids = tuple(token for token in row if token != pad)
        finished = ids[-1:] == (config.eos_token_id,)
        rank_score = -loss / length_penalty(max(1, len(ids)), model.config.length_alpha)
        text = str(tokenizer.decode(ids, skip_special_tokens=True))
        answers.append(ProgramAnswer(text, ids[: len(ids) - finished], -loss, finished, rank_score))
    return (answers[start : start + num_beams] for start in range(0, len(answers), num_beams))


def _tokenizer(model_file: ModelFile, layout: TransformersLayout) -> dict[str, Any]:
    return tokenizer_json(model_file.source_tokenizer, model_file.target_tokenizer if layout.is_joined else None)


def _special_ids(model_file: ModelFile) -> dict[str, Any]:
    """Return the special ids in the terms of the library, which has other defaults for all of them."""
    vocabulary = model_file.target_tokenizer.vocabulary
    return {
        "pad_token_id": vocabulary.pad_id,
        "bos_token_id": vocabulary.bos_id,
        "eos_token_id": vocabulary.eos_id,
        "decoder_start_token_id": vocabulary.bos_id,
        "forced_eos_token_id": None,
    }


def _generation(model_file: ModelFile) -> dict[str, Any]:
    """Return the search. The suppressed tokens are excluded after the softmax, as ours are."""
    decoding = model_file.settings.decoding
    search: dict[str, Any] = {"num_beams": 1}
    if decoding.num_beams > 1 and decoding.length_alpha == 0:
        search = {"num_beams": decoding.num_beams, "length_penalty": 0.0, "early_stopping": "never"}
    return {
        "do_sample": False,
        "max_new_tokens": max_new_tokens(model_file),
        "suppress_tokens": list(model_file.target_tokenizer.vocabulary.forbidden_ids),
        **search,
        **_special_ids(model_file),
    }


def _tokenizer_config(model_file: ModelFile) -> dict[str, Any]:
    vocabulary, pieces = model_file.target_tokenizer.vocabulary, model_file.target_tokenizer.vocabulary.pieces
    unknown = {} if vocabulary.unk_id is None else {"unk_token": pieces[vocabulary.unk_id]}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": pieces[vocabulary.pad_id],
        "bos_token": pieces[vocabulary.bos_id],
        "eos_token": pieces[vocabulary.eos_id],
        **unknown,
        "split_special_tokens": True,  # one that is spelled out in a text is text
        "clean_up_tokenization_spaces": False,
        "model_max_length": model_file.settings.max_source_tokens + len(model_file.source_tokenizer.frame([])),
        "model_input_names": ["input_ids", "attention_mask"],
    }


CARD = """---
library_name: transformers
pipeline_tag: translation
tags:
- glassformer
- {model_type}
- encoder-decoder
{metric}# license: choose one (https://huggingface.co/docs/hub/repositories-licenses)
---

# A model by glassformer

It turns {source} into {target}.

| | |
|---|---|
{facts}

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")
model = AutoModelForSeq2SeqLM.from_pretrained(".")
batch = tokenizer(["a text", "another one"], return_tensors="pt", padding=True)
answers = tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
```

`check.json` says on which rows the answers were compared with those of glassformer.

{limits}
"""
BEAM_LIMIT = (
    "- `generate` searches greedily. The model's own search is a beam of {beams}, ranked by score / ((5 + length) / 6)"
    "^{alpha:g}; `generate` has another penalty. The nearest call is "
    '`generate(**batch, num_beams={beams}, length_penalty=0.0, early_stopping="never")`, which ranks by the score '
    "alone."
)
JOINED_LIMIT = (
    "- The vocabulary has the target's tokens first, then the source's. The tokenizer encodes sources and decodes "
    "answers; it does not encode targets, so that `text_target=` is not for this model."
)
POSITIONS_LIMIT = (
    "- The position tables of this model are not those that MarianMT computes. `from_pretrained` reads them from "
    "`model.safetensors`; `save_pretrained` does not write them."
)


def model_card(model_file: ModelFile, layout: TransformersLayout) -> str:
    """Return the card as Markdown, with the metadata of the hub: use, limits, and what the model was trained on."""
    settings, data, metrics = model_file.settings, model_file.data, model_file.metrics
    decoding = settings.decoding
    source, target = (json.dumps(column, ensure_ascii=False) for column in data.column_labels)
    facts = [f"| model | {model_file.n_parameters:,} parameters |"]
    facts += [f"| trained on | {data.train_rows:,} rows |"] if data.train_rows else []
    if metrics.metric is not None and metrics.value is not None:
        facts.append(f"| {metrics.metric} on {metrics.rows or 'validation'} rows | {metrics.value:.4f} |")
    limits = [
        f"- A text has at most {settings.max_source_tokens} tokens, an answer at most {max_new_tokens(model_file)} "
        "(`max_new_tokens`). An empty text has no answer; `generate` makes one up."
    ]
    if decoding.num_beams > 1 and decoding.length_alpha:
        limits.append(BEAM_LIMIT.format(beams=decoding.num_beams, alpha=decoding.length_alpha))
    limits += [JOINED_LIMIT] if layout.is_joined else []
    limits += [POSITIONS_LIMIT] if layout.loses_positions else []
    return CARD.format(
        model_type=layout.config()["model_type"],
        metric=f"metrics:\n- {metrics.metric}\n" if metrics.metric in HUB_METRICS else "",
        source=source,
        target=target,
        facts="\n".join(facts),
        limits="\n".join(limits),
    )


FORMAT = Format(
    precisions=("float32", "float16"),
    beam="own",
    packages=("glassformer", "transformers", "tokenizers", "torch", "numpy"),
    check_supported=check_supported,
    write=write,
    answer=answer,
    holds_members=False,
)
