"""CTranslate2 as its own manual uses it: its converter for Hugging Face models, its `translate_batch`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.marian import load_weights, make_marian
from benchmarks.turns import Absent
from glassformer.inference.encoding import default_max_new_tokens
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.text import Tokenizer


class DirectDecoder:
    """As many workers as cores, each of one thread: its best setting, and far ahead of one worker of two threads."""

    batch_sizes = (32, 64, 128, 256, 512)

    def __init__(self, model: Path, device: str, precision: str) -> None:
        try:
            import ctranslate2
        except ModuleNotFoundError:
            raise Absent("ctranslate2 is not installed") from None
        model_file = ModelFile.load(model)
        self.tokenizer = model_file.target_tokenizer
        self.longest = default_max_new_tokens(model_file.data, model_file.settings)
        with tempfile.TemporaryDirectory() as folder:
            convert(model_file, self.tokenizer, folder)
            workers = torch.get_num_threads() if device == "cpu" else 1
            self.translator = ctranslate2.Translator(
                folder, device, compute_type=precision, inter_threads=workers, intra_threads=1
            )

    def translate(self, texts: list[str], num_beams: int, batch_size: int) -> list[str]:
        results = self.translator.translate_batch(
            [["<bos>", *self.tokenizer.split(text), "<eos>"] for text in texts],
            beam_size=num_beams,
            max_batch_size=batch_size,
            max_decoding_length=self.longest,
            length_penalty=0,  # with its default of 1 a beam ends some dates a digit early
        )
        return ["".join(result.hypotheses[0]) for result in results]


def convert(model_file: ModelFile, tokenizer: Tokenizer, folder: str) -> None:
    """By way of MarianMT, which has the same weights. Its special loader is for models that start from nothing."""
    from ctranslate2.converters.transformers import BartLoader

    pieces = list(tokenizer.vocabulary.pieces)
    marian: Any = make_marian(model_file.settings.model, tokenizer.vocabulary)
    load_weights(marian, model_file.tensors)
    marian.config.normalize_before = marian.config.normalize_embedding = False
    with torch.inference_mode():
        spec = BartLoader().get_model_spec(marian.eval())
        spec.register_source_vocabulary(pieces)
        spec.register_target_vocabulary(pieces)
        spec.config.bos_token = spec.config.decoder_start_token = "<bos>"
        spec.config.eos_token, spec.config.unk_token = "<eos>", "<unk>"
        spec.validate()
        spec.optimize()
        spec.save(folder)
