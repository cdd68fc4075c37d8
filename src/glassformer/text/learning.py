"""Build a vocabulary from example texts or from the preset ascii68."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal

from glassformer.errors import SettingsError, TextError
from glassformer.settings import SideSettings, TokenKind, TokenSettings
from glassformer.text.inputs import Inputs, Source, input_tokens, learn_inputs, texts_of
from glassformer.text.normalization import normalize
from glassformer.text.segmenters import BYTES, MARK, SPECIALS, Learned, mark, of_chunks
from glassformer.text.tokenizer import Tokenizer, library
from glassformer.text.vocabulary import Vocabulary

_JOINED = 4096


def learn(texts: Iterable[str], settings: SideSettings, inputs: Inputs = ()) -> Tokenizer:
    """Build a tokenizer with a vocabulary from `texts`. The same texts and settings give the same tokenizer.

    The special tokens have the first ids: <pad> 0, <bos> 1, <eos> 2 and, if the settings include it, <unk> 3. The
    preset ascii68 has ids of its own and ignores `texts`. For a shared vocabulary, pass the texts of both sides.
    Subwords keep the texts in memory; the other kinds read them once. `inputs` are those of a source that has several,
    learned already (`learn_inputs`); `texts` are then their texts.

    Raises TextError when the texts are empty, SettingsError when `vocabulary_size` is too small (it names the minimum)
    or no piece occurs `min_count` times, MissingExtraError when the library for subwords is not installed.
    """
    if settings.preset == "ascii68":
        letters = string.digits + string.ascii_uppercase + string.ascii_lowercase + "-, "
        vocabulary = Vocabulary.from_pieces(letters, {"<sos>": 65, "<eos>": 66, "<pad>": 67}, input_tokens(inputs))
        return Tokenizer(settings.model_copy(update={"kind": "characters", "unknown": False}), vocabulary, {}, inputs)
    normalized = (normalize(text, settings, f"text {row}") for row, text in enumerate(texts, start=1))
    pieces, learned = _LEARNERS[settings.kind](normalized, settings)
    specials = _specials(settings, has_inputs=bool(inputs))
    return Tokenizer(settings, Vocabulary.from_pieces(pieces, specials, input_tokens(inputs)), learned, inputs)


def learn_both(
    pairs: Iterable[tuple[Source, str]], settings: TokenSettings, inputs: Inputs = ()
) -> tuple[Tokenizer, Tokenizer]:
    """Build the tokenizers of both sides from pairs of source and target; a shared one from all texts. See `learn`.

    `inputs` are those of sources that have several. A shared vocabulary has their tokens too; only the tokenizer of the
    source reads them.
    """
    inputs = learn_inputs((source for source, _ in pairs), inputs, settings.source.min_count)
    if settings.shared:
        texts = (text for pair in pairs for text in (*texts_of(pair[0], inputs), pair[1]))
        source = learn(texts, settings.target, inputs).with_ends(settings.source)
        return source, source.as_target
    sources = (text for source, _ in pairs for text in texts_of(source, inputs))
    return learn(sources, settings.source, inputs), learn((target for _, target in pairs), settings.target)


def grow_both(
    tokenizers: tuple[Tokenizer, Tokenizer], pairs: Iterable[tuple[Source, str]], settings: TokenSettings
) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of a model, of `settings`, with the new characters or words of pairs. See `grow`.

    New symbols of the features of a source are added too, after those that the feature has.
    """
    source, target = tokenizers
    inputs = learn_inputs((pair[0] for pair in pairs), source.inputs, settings.source.min_count)
    if settings.shared:
        grown = grow(target, (text for pair in pairs for text in (*texts_of(pair[0], inputs), pair[1])), inputs)
        if grown is target:
            return source, target
        grown = grown.with_ends(settings.source)
        return grown, grown.as_target
    sources = (text for pair in pairs for text in texts_of(pair[0], inputs))
    return grow(source, sources, inputs), grow(target, (pair[1] for pair in pairs))


def grow(tokenizer: Tokenizer, texts: Iterable[str], inputs: Inputs = ()) -> Tokenizer:
    """Return a tokenizer with the characters or words of `texts` that it lacks, with new ids after all others.

    They must occur `min_count` times, and words are limited by `vocabulary_size`, the most frequent first. Other kinds
    of tokens, and a fixed vocabulary, stay as they are: the same tokenizer is returned.

    `inputs` are those of the source, with symbols that may be new. Ids of inputs are the last ones, and move.
    """
    new = _new_pieces(tokenizer, texts)
    has_new_symbols = len(input_tokens(inputs)) > tokenizer.vocabulary.n_input_tokens
    return tokenizer.with_pieces(new, inputs) if new or has_new_symbols else tokenizer


def _new_pieces(tokenizer: Tokenizer, texts: Iterable[str]) -> list[str]:
    settings, vocabulary = tokenizer.settings, tokenizer.vocabulary
    if settings.kind not in ("characters", "words") or settings.preset != "none":
        return []
    normalized = (normalize(text, settings, f"text {row}") for row, text in enumerate(texts, start=1))
    is_words = settings.kind == "words"
    counts = _count(text.split() for text in normalized) if is_words else _count(_joined(normalized))
    new = [piece for piece, count in counts.items() if count >= settings.min_count and piece not in vocabulary.ordinary]
    if is_words:
        rest = settings.vocabulary_size - (len(vocabulary) - vocabulary.n_input_tokens)
        return sorted(new, key=lambda word: (-counts[word], word))[: max(0, rest)]
    return sorted(new)


def ascii68() -> Tokenizer:
    """Return the tokenizer ascii68: digits, upper case, lower case, `-`, `,`, space, <sos>, <eos>, <pad>; no <unk>."""
    return learn((), SideSettings(preset="ascii68"))


def _words(texts: Iterator[str], settings: SideSettings) -> tuple[list[str], Learned]:
    words = _frequent(_count(text.split() for text in texts), settings)
    capacity = _capacity(settings, minimum=1 if settings.unknown else len(words))
    return sorted(words, key=lambda word: (-words[word], word))[:capacity], {}


def _subwords(texts: Iterator[str], settings: SideSettings) -> tuple[list[str], Learned]:
    library()  # checked first, because counting may take a while
    marked = [mark(text) for text in texts]
    counts = _count(marked)
    alphabet = {MARK, *_frequent(counts, settings)}
    rare = "".join(sorted(counts.keys() - alphabet))
    if rare:  # texts are split at rare characters, so that no piece is learned across one
        marked = [part for text in marked for part in re.split(f"[{re.escape(rare)}]", text)]
    # The unigram trainer counts a piece of its own, and would prune for ever to fit it in.
    size = _capacity(settings, minimum=len(alphabet) + (settings.algorithm == "unigram"))
    return _train(marked, settings.algorithm, size)


def _train(marked: Sequence[str], algorithm: Literal["bpe", "unigram"], size: int) -> tuple[list[str], Learned]:
    """Learn at most `size` pieces from marked texts, and their merges (bpe) or scores (unigram)."""
    tokenizers = library()
    if algorithm == "bpe":
        # A pair that occurs once is not a pattern.
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, min_frequency=2, show_progress=False)
        model = _trained(tokenizers.models.BPE(), trainer, marked)
        return sorted(model["vocab"], key=model["vocab"].__getitem__), {"merges": model["merges"]}
    trainer = tokenizers.trainers.UnigramTrainer(vocab_size=size, show_progress=False)
    scores = _reproducible(dict(_trained(tokenizers.models.Unigram(), trainer, marked)["vocab"]))
    return list(scores), {"scores": list(scores.values())}


def _trained(model: Any, trainer: Any, marked: Sequence[str]) -> Any:
    """Train a model and return it as plain data: `vocab`, and `merges` for BPE."""
    inner = of_chunks(model)
    inner.train_from_iterator(marked, trainer)
    return json.loads(inner.to_str())["model"]


def _reproducible(scores: dict[str, float]) -> dict[str, float]:
    """Return unigram scores that are the same in every run, in descending order.

    The library sums numbers in an order that differs from run to run, so that the last digits of the scores differ.
    In such an order it also gives the characters that were pruned the lowest score plus 0, 1, 2, … times 0.0001. So
    scores are rounded, and all those characters get the lowest score.
    """
    lowest = min(scores.values())
    margin = 1e-4 * sum(len(piece) == 1 for piece in scores)
    rounded = {
        piece: round(lowest if len(piece) == 1 and score < lowest + margin else score, 6)
        for piece, score in scores.items()
    }
    return dict(sorted(rounded.items(), key=lambda item: (-item[1], item[0])))


def _sentencepiece(_texts: Iterator[str], _settings: SideSettings) -> tuple[list[str], Learned]:
    hint = "--init with an imported model, or the kind subwords"
    raise SettingsError("a SentencePiece model is imported, not learned", hint=hint)


_LEARNERS: dict[TokenKind, Callable[[Iterator[str], SideSettings], tuple[list[str], Learned]]] = {
    "characters": lambda texts, settings: (sorted(_frequent(_count(_joined(texts)), settings)), {}),
    "words": _words,
    "subwords": _subwords,
    "bytes": lambda _texts, _settings: (BYTES, {}),
    "sentencepiece": _sentencepiece,
}


def _joined(texts: Iterator[str]) -> Iterator[str]:
    """Yield the texts, many joined at a time: one call of `Counter.update` costs more than the characters of a text."""
    while block := list(islice(texts, _JOINED)):
        yield "".join(block)


def _count(texts: Iterable[Iterable[str]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    return counts


def _frequent(counts: Counter[str], settings: SideSettings) -> dict[str, int]:
    """Return the pieces that occur `min_count` times or more, with their counts."""
    if not counts:
        raise TextError("there is no text to learn tokens from", expected="at least one text that is not empty")
    frequent = {piece: count for piece, count in counts.items() if count >= settings.min_count}
    if not frequent:
        raise SettingsError(
            "no piece occurs min_count times",
            got=str(settings.min_count),
            expected=f"at most {max(counts.values())}, the count of the most frequent piece",
        )
    return frequent


def _capacity(settings: SideSettings, *, minimum: int) -> int:
    """Return the maximum number of ordinary pieces. Raises SettingsError when it is below `minimum`."""
    specials = len(_specials(settings))
    if settings.vocabulary_size < minimum + specials:
        raise SettingsError(
            "vocabulary_size is too small for these texts",
            got=str(settings.vocabulary_size),
            expected=f"at least {minimum + specials}, of which {specials} are special tokens",
            hint="raise vocabulary_size, or raise min_count so that fewer pieces are needed",
        )
    return settings.vocabulary_size - specials


def _specials(settings: SideSettings, *, has_inputs: bool = False) -> dict[str, int]:
    """Return written form -> id of the special tokens, from 0.

    Bytes can represent any text and need no <unk>, except for the symbols of features.
    """
    has_unknown = settings.unknown and (settings.kind != "bytes" or has_inputs)
    parts = [part for part in SPECIALS if part != "unk" or has_unknown]
    return {SPECIALS[part][0]: token_id for token_id, part in enumerate(parts)}
