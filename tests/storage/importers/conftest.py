"""MarianMT folders, built by transformers and sentencepiece with drawn weights and trained pieces."""

from __future__ import annotations

import io
import json
import random
import shutil
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TINY: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
    "activation_function": "swish",
    "scale_embedding": True,
    "init_std": 0.5,
}


@cache
def trained(letters: str, size: int) -> bytes:
    """A SentencePiece model of words drawn from some letters."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="the extra sentencepiece is not installed")
    chance, out = random.Random(0), io.BytesIO()
    words = ["".join(chance.choices(letters, k=chance.randint(1, 8))) for _ in range(20 + size // 2)]
    texts = [" ".join(chance.choices(words, k=6)) for _ in range(500 + 3 * size)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=out, vocab_size=size, hard_vocab_limit=False, minloglevel=2
    )
    return out.getvalue()


def pieces_of(content: bytes) -> list[str]:
    sentencepiece = pytest.importorskip("sentencepiece")
    model = sentencepiece.SentencePieceProcessor(model_proto=content)
    return [model.id_to_piece(i) for i in range(3, model.get_piece_size())]  # after <unk>, <s>, </s>


def vocabulary_of(pieces: list[str], size: int = 0) -> dict[str, int]:
    """Piece -> id as OPUS-MT has them: </s> and <unk> first, <pad> last."""
    named = dict.fromkeys(["</s>", "<unk>", *pieces])
    named |= dict.fromkeys(f"unused{i}" for i in range(len(named), size - 1))
    return {piece: at for at, piece in enumerate([*named, "<pad>"])}


def write_marian(folder: Path, seed: int = 0, **changes: Any) -> Path:
    """Write a folder as `save_pretrained` does; without `share_encoder_decoder_embeddings` with two vocabularies."""
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what transformers says about itself when it is imported
        transformers = pytest.importorskip("transformers", reason="the extra huggingface is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    source, target = trained("abcdefghiéß", 120), trained("klmnopqrstñ", 100)
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    separate = not changes.get("share_encoder_decoder_embeddings", True)
    codes = [">>fra<<", ">>spa<<"]
    if separate:
        ids = vocabulary_of([*codes, *pieces_of(source)])
        target_ids = vocabulary_of(pieces_of(target), size=len(ids))  # of one size, so that <pad> has one id
        (folder / "target_vocab.json").write_text(json.dumps(target_ids))
    else:
        ids = target_ids = vocabulary_of([*codes, *pieces_of(source), *pieces_of(target)])
    pad = ids["<pad>"]
    (folder / "vocab.json").write_text(json.dumps(ids))
    config = transformers.MarianConfig(
        vocab_size=len(ids),
        decoder_vocab_size=len(target_ids),
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=0,
        **(TINY | changes),
    )
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.1)
        model.final_logits_bias.normal_(0, 0.5)
        model.final_logits_bias[0, 0] += 5.0  # so that answers end
        model.get_encoder().embed_tokens.weight[pad] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)
    generation = json.loads((folder / "generation_config.json").read_text())
    generation |= {"num_beams": 4, "max_length": 64, "bad_words_ids": [[pad]]}
    (folder / "generation_config.json").write_text(json.dumps(generation))
    tokenizer = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


@pytest.fixture(scope="session")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny MarianMT folder, which no test changes."""
    return write_marian(tmp_path_factory.mktemp("marian") / "opus-mt-aa-kk")


@pytest.fixture
def copied(marian: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(marian, tmp_path / "copied"))
