"""MarianMT folders of Hugging Face, such as those of OPUS-MT, as models of ours.

    config.json, generation_config.json    -> settings (config.py)
    source.spm, target.spm, vocab.json     -> tokenizers
    model.safetensors or pytorch_model.bin -> weights (weights.py)

The imported model computes the same numbers, and has MarianMT's frame: a source has no <bos>, and a target starts with
<pad>. What MarianMT has and the paper has not is a setting (docs/paper.md): swish and the biases. Answers differ from
MarianMT's where it would write <unk>, which no answer of ours has.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.errors import GlassformerError, ModelFileError, UsageError
from glassformer.settings import SideSettings
from glassformer.storage.files import shown
from glassformer.storage.importers.config import MarianConfig, read_json
from glassformer.storage.importers.spm import read_sentencepiece
from glassformer.storage.importers.weights import PICKLED, SAFETENSORS, read_weights
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.records import TrainingData
from glassformer.text import Tokenizer, Vocabulary
from glassformer.text.sentencepiece import SentencePieceModel

REQUIRED = ("config.json", "source.spm", "target.spm", "vocab.json")
TARGET_VOCABULARY = "target_vocab.json"  # only of models with two vocabularies
FILES = (*REQUIRED, "generation_config.json", TARGET_VOCABULARY, SAFETENSORS, PICKLED)
"""Every file that is read."""
MIN_FITTING = 0.5  # of the pieces of a SentencePiece model that are in the vocabulary
_EOS, _UNK, _PAD = "</s>", "<unk>", "<pad>"


def is_marian(folder: Path) -> bool:
    """Return whether a folder looks like a MarianMT model."""
    return (folder / "source.spm").is_file() and (folder / "config.json").is_file()


def import_marian(folder: str | Path) -> ModelFile:
    """Read a MarianMT folder.

    Raises ModelFileError, with the file, for what is missing, damaged, not MarianMT, or does not fit together.
    """
    folder = Path(folder)
    _check_files(folder)
    config = MarianConfig.read(folder)
    separate = (folder / TARGET_VOCABULARY).exists() and not config.share_encoder_decoder_embeddings
    vocabularies = "vocab.json", TARGET_VOCABULARY if separate else "vocab.json"
    sides = [_MarianSide.read(folder, *names) for names in zip(("source", "target"), vocabularies, strict=True)]
    for side, size in zip(sides, (config.vocab_size, config.target_size), strict=True):
        side.check(config, size)
    try:
        settings = config.settings((sides[0].model.algorithm, sides[1].model.algorithm), shared=not separate)
        source, target = sides[0].tokenizer(settings.tokens.source), sides[1].tokenizer(settings.tokens.target)
    except ModelFileError:
        raise
    except GlassformerError as error:
        what = f"this model has a setting that ours cannot have: {error.what}"
        raise ModelFileError(what, where=str(folder), got=error.got, expected=error.expected) from None
    tensors = read_weights(folder, config, settings.model)
    data = TrainingData(imported_from=_name_of(folder.resolve()))
    return ModelFile(settings, source, target, tensors, data)


def _name_of(folder: Path) -> str:
    """Return the name of a folder, or of the repository and its commit where it is in the cache of the hub."""
    if folder.parent.name == "snapshots" and (cache_name := folder.parent.parent.name).startswith("models--"):
        return f"{cache_name.removeprefix('models--').replace('--', '/')}@{folder.name}"
    return folder.name


def _check_files(folder: Path) -> None:
    """Raise ModelFileError that names all files that a MarianMT folder has and this one has not."""
    missing = [name for name in REQUIRED if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in (SAFETENSORS, PICKLED)):
        missing.append(f"{SAFETENSORS} or {PICKLED}")
    if missing:
        raise ModelFileError("this is not a MarianMT folder", where=str(folder), got=f"no {', no '.join(missing)}")


@dataclass(frozen=True)
class _MarianSide:
    """The SentencePiece model of a side, and the vocabulary of the translation model: piece -> id."""

    spm: Path
    vocabulary: Path
    model: SentencePieceModel
    ids: dict[str, int]

    @classmethod
    def read(cls, folder: Path, side: str, vocabulary: str) -> _MarianSide:
        path, spm = folder / vocabulary, folder / f"{side}.spm"
        ids: dict[str, Any] = read_json(path)
        integers = {at for at in ids.values() if type(at) is int}  # not true or 1.0, which are equal to 1
        if integers != set(range(len(ids))):
            raise ModelFileError(
                "the ids of the vocabulary are not 0, 1, 2, …, each once", where=str(path), got=f"{len(ids):,} pieces"
            )
        odd = next((piece for piece in ids if not piece or shown(piece) != piece), None)
        if odd is not None:
            what = "a piece of the vocabulary is empty or has a lone surrogate"
            raise ModelFileError(what, where=str(path), got=ascii(odd))
        try:
            content = spm.read_bytes()
        except OSError as error:
            raise ModelFileError("cannot read a file of the model", where=str(spm), got=error.strerror) from None
        return cls(spm, path, read_sentencepiece(content, str(spm)), ids)

    def check(self, config: MarianConfig, size: int) -> None:
        """Raise ModelFileError when the vocabulary fits neither the model nor the SentencePiece model."""
        where = str(self.vocabulary)
        if len(self.ids) != size:
            what = "the vocabulary is not as large as config.json says"
            raise ModelFileError(what, where=where, got=f"{len(self.ids):,} pieces", expected=f"{size:,}")
        for piece, at in ((_EOS, config.eos_token_id), (_PAD, config.pad_token_id), (_UNK, self.ids.get(_UNK))):
            if piece not in self.ids or self.ids[piece] != at:
                got = f"the id {self.ids[piece]}" if piece in self.ids else "nothing"
                what = f"the vocabulary does not have {piece} where config.json says"
                raise ModelFileError(what, where=where, got=got, expected="an id" if at is None else f"the id {at}")
        n_shared = sum(piece in self.ids for piece in self.model.pieces)
        if n_shared < MIN_FITTING * len(self.model.pieces):
            raise ModelFileError(
                "the SentencePiece model does not fit the vocabulary",
                where=f"{self.spm} and {self.vocabulary.name}",
                got=f"{n_shared:,} of its {len(self.model.pieces):,} pieces are in the vocabulary",
                expected=f"at least {MIN_FITTING:.0%}",
            )

    def tokenizer(self, settings: SideSettings) -> Tokenizer:
        """Return the tokenizer of this side. Raises ModelFileError for a vocabulary that is not valid."""
        specials = {piece: self.ids[piece] for piece in (_EOS, _UNK, _PAD)}
        ordinary = sorted(self.ids.keys() - specials.keys(), key=self.ids.__getitem__)
        try:
            vocabulary = Vocabulary.from_pieces(ordinary, specials)
            return Tokenizer(settings, vocabulary, {"sentencepiece": self.model.model_dump()})
        except UsageError as error:
            raise ModelFileError(error.what, where=str(self.vocabulary), got=error.got) from None
