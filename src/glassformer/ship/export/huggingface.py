"""The format of Hugging Face: a folder for `AutoModelForSeq2SeqLM` and `AutoTokenizer`, without code of ours.

Greedy search of `generate` gives our answers. Its beam has rules of its own: it gives the slot of a finished hypothesis
to another one, and it ranks by score / length^p, which is our ranking only without a length penalty. So
`generation_config.json` asks for a beam where `length_alpha` is 0, and for greedy search elsewhere; `run.py` ranks the
answers of the beam by our penalty.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from glassformer.errors import MissingExtraError
from glassformer.inference.translator import Source
from glassformer.ship.export.answer import Answer, run_script
from glassformer.ship.export.check import Beam
from glassformer.ship.export.description import copy_program, max_new_tokens, max_positions, write_description
from glassformer.ship.export.float16 import as_float16
from glassformer.ship.export.huggingface_card import model_card
from glassformer.ship.export.huggingface_layout import Layout, check_supported
from glassformer.ship.export.tokenizer_json import joined_tokenizer, single_tokenizer
from glassformer.ship.storage.container import save_file
from glassformer.ship.storage.modelfile import ModelFile


@final
class HuggingFaceFormat:
    """A folder with `model.safetensors`, `config.json`, `generation_config.json`, tokenizer, model card and `run.py`.

    The first ids are those of the target vocabulary, as they are here.
    """

    precisions = ("float32", "float16")
    beam: Beam = "own"
    packages = ("glassformer", "transformers", "tokenizers", "torch", "numpy")

    def check_supported(self, model_file: ModelFile) -> None:
        if importlib.util.find_spec("transformers") is None:
            raise MissingExtraError("--to huggingface", package="transformers", extra="huggingface")
        check_supported(model_file.settings.model)
        _tokenizer(model_file, Layout(model_file, 1))

    def write(self, model_file: ModelFile, folder: Path, precision: str) -> None:
        layout = Layout(model_file, max_positions(model_file))
        weights = layout.weights()
        if precision == "float16":
            weights = {name: as_float16(array, name) for name, array in weights.items()}
        weights = {name: np.ascontiguousarray(array) for name, array in weights.items()}
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        _write_json(folder / "config.json", layout.config() | _special_ids(model_file) | {"dtype": precision})
        _write_json(folder / "generation_config.json", _generation(model_file))
        _write_json(folder / "tokenizer.json", _tokenizer(model_file, layout))
        _write_json(folder / "tokenizer_config.json", _tokenizer_config(model_file))
        copy_program(model_file, folder, "huggingface_engine.py")
        write_description(model_file, folder)
        card = model_card(model_file, layout)  # which its owner may edit, so that the description does not hold it fast
        (folder / "README.md").write_text(card, encoding="utf-8", newline="\n")

    def answer(self, folder: Path, texts: Sequence[Source], num_beams: int) -> list[Answer]:
        return run_script(folder, texts, num_beams)


def _tokenizer(model_file: ModelFile, layout: Layout) -> dict[str, Any]:
    if layout.is_joined:
        return joined_tokenizer(model_file.source_tokenizer, model_file.target_tokenizer)
    return single_tokenizer(model_file.source_tokenizer)


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


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8", newline="\n")
