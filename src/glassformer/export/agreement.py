"""An imported MarianMT model compared with transformers: token ids, and the logits of its greedy answers."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from glassformer.errors import EngineError, MissingExtraError, shortened
from glassformer.inference.engines import search
from glassformer.inference.engines.torch import TorchEngine
from glassformer.settings import DecodingSettings
from glassformer.storage.modelfile import ModelFile

N_TEXTS, MAX_PIECES, MAX_NEW_TOKENS = 20, 12, 24
TOLERANCE = 1e-4  # of a logit, relative to the largest of its text where that is above 1


def compare_with_transformers(model_file: ModelFile, folder: Path, texts: Sequence[str] = ()) -> str:
    """Compare an imported model with transformers' MarianMT in `folder`; without texts on random ones of its pieces.

    Return in words what was compared, and how far the logits differ.
    Raises EngineError for the first difference, MissingExtraError where transformers is not installed.
    """
    marian, tokenizer, version = _load_transformers(folder)
    texts = texts or random_texts(model_file)
    if not texts:
        raise EngineError("there is no text to compare with transformers; nothing was written", where=str(folder))
    ours = [model_file.source_tokenizer.frame(ids) for ids in model_file.source_tokenizer.encode_many(texts)]
    for text, ids in zip(texts, ours, strict=True):
        theirs = tokenizer(text).input_ids
        if theirs != ids:
            raise _differs("the token ids", text, str(ids[:20]), str(theirs[:20]))
    engine = TorchEngine.of_files([model_file])
    answers = search(engine, ours, DecodingSettings(num_beams=1), MAX_NEW_TOKENS)
    largest, n_logits = 0.0, 0
    for text, ids, (answer,) in zip(texts, ours, answers, strict=True):
        fed = [engine.bos_id, *answer.ids]
        with torch.inference_mode():
            source, target = torch.tensor([ids]), torch.tensor([fed])
            mine = engine.models[0](source, target)[0]
            expected = marian(input_ids=source, decoder_input_ids=target).logits[0]
        difference = float((mine - expected).abs().max() / max(1.0, float(expected.abs().max())))
        if not difference <= TOLERANCE:
            raise _differs("the logits", text, f"a difference of {difference:.1e}", f"at most {TOLERANCE:.0e}")
        largest, n_logits = max(largest, difference), n_logits + mine.numel()
    return (
        f"compared with transformers {version} on {len(texts)} texts: the same {sum(map(len, ours)):,} token ids, "
        f"{n_logits:,} logits of the answers within {largest:.0e}"
    )


def random_texts(model_file: ModelFile) -> list[str]:
    """Return texts of random pieces of the source, the same in every call."""
    generator, tokenizer = random.Random(0), model_file.source_tokenizer
    ids = list(tokenizer.vocabulary.ordinary.values())
    texts = [tokenizer.decode(generator.choices(ids, k=generator.randint(1, MAX_PIECES))) for _ in range(N_TEXTS)]
    specials = ("</s>", "<unk>", "<pad>")  # as text: transformers takes them for tokens
    return [text for text in texts if text and not any(special in text for special in specials)]


def _load_transformers(folder: Path) -> tuple[Any, Any, str]:
    """The model, the tokenizer and the version of transformers, which reads the folder alone and never a network.

    Raises MissingExtraError where it is not installed, EngineError for a folder that it cannot read.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import transformers
        except ImportError:
            package = "transformers"
            raise MissingExtraError("the comparison with MarianMT", package=package, extra="huggingface") from None
        library: Any = transformers
        library.utils.logging.set_verbosity_error()
        library.utils.logging.disable_progress_bar()
        try:
            model = library.MarianMTModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
            tokenizer = library.MarianTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception as error:  # of many kinds, for files that are read by transformers alone
            what, hint = "transformers cannot read this folder; nothing was written", "download the folder again"
            got = f"{type(error).__name__}: {shortened(str(error).partition(chr(10))[0], 200)}"
            raise EngineError(what, where=str(folder), got=got, hint=hint) from None
        finally:
            library.utils.logging.enable_progress_bar()
    return model.eval(), tokenizer, library.__version__


def _differs(what: str, text: str, got: str, expected: str) -> EngineError:
    what = f"{what} of the imported model differ from those of transformers; nothing was written"
    hint = "please report this, with the name of the model"
    return EngineError(what, where=repr(text[:80]), got=got, expected=expected, hint=hint)
