"""Read a SentencePiece model file (`.spm`, `.model`), a protocol buffer: only what segments a text is taken of it."""

from __future__ import annotations

import base64
from typing import Any

from glassformer.errors import MissingExtraError, ModelFileError, UsageError
from glassformer.text.sentencepiece import SentencePieceModel, sentencepiece

MAX_BYTES = 64_000_000  # of a file; real ones have about one million
_ALGORITHMS = {1: "unigram", 2: "bpe"}
_NORMAL, _USER_DEFINED, _UNUSED = 1, 4, 5  # types of pieces; those of other types are not in any text


def read_sentencepiece(content: bytes, where: str) -> SentencePieceModel:
    """Return the model in the bytes of a file. Raises ModelFileError, with the name `where`, for one that is not valid.

    Refused are kinds of models other than unigram and BPE, byte fallback, marks after words, and rules for decoding.
    """
    if len(content) > MAX_BYTES:
        raise ModelFileError("the file is too large", where=where, expected=f"at most {MAX_BYTES:,} bytes")
    try:
        from google.protobuf.message import DecodeError
        from sentencepiece import sentencepiece_model_pb2
    except ImportError as error:
        package = "protobuf" if (error.name or "").startswith("google") else "sentencepiece"
        raise MissingExtraError("an imported model", package=package, extra="sentencepiece") from None
    try:
        proto = sentencepiece_model_pb2.ModelProto.FromString(content)
        return _model(proto, where)
    except (DecodeError, ValueError, UsageError) as error:
        what = "this is not a SentencePiece model, or it is damaged"
        raise ModelFileError(what, where=where, got=str(error)) from None


def _model(proto: Any, where: str) -> SentencePieceModel:
    trainer, normalizer = proto.trainer_spec, proto.normalizer_spec
    unsupported = {
        "a kind of model other than unigram and bpe": trainer.model_type not in _ALGORITHMS,
        "marks of white space after a word": trainer.treat_whitespace_as_suffix,
        "byte fallback": trainer.byte_fallback,
        "rules for decoding": proto.denormalizer_spec.precompiled_charsmap,
    }
    if reasons := [name for name, has_it in unsupported.items() if has_it]:
        raise ModelFileError("this SentencePiece model has what is not supported", where=where, got=", ".join(reasons))
    pieces = [piece for piece in proto.pieces if piece.type in (_NORMAL, _USER_DEFINED, _UNUSED)]
    user_defined, unused = (
        [i for i, piece in enumerate(pieces) if piece.type == kind] for kind in (_USER_DEFINED, _UNUSED)
    )
    model = {
        "algorithm": _ALGORITHMS[trainer.model_type],
        "pieces": [piece.piece for piece in pieces],
        "scores": [piece.score for piece in pieces],
        "user_defined": user_defined,
        "unused": unused,
        "rules": base64.b64encode(normalizer.precompiled_charsmap).decode("ascii"),
        "dummy_prefix": normalizer.add_dummy_prefix,
        "fold_spaces": normalizer.remove_extra_whitespaces,
        "escape_spaces": normalizer.escape_whitespaces,
    }
    sentencepiece({"sentencepiece": model})  # which checks it
    return SentencePieceModel.read(model)
