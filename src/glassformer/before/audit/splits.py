"""Findings about rows of one table that another one has as well, exactly or nearly."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from glassformer.before.advise import PROSE_WORDS
from glassformer.before.audit.findings import N_EXAMPLES, Example, Finding, about_rows, rows_that
from glassformer.before.audit.pairs import Rows
from glassformer.data.corpus import spread
from glassformer.data.tables import Pair

SIMILAR = 0.8  # minimum Jaccard similarity of near duplicates
GRAM = 4  # characters of an n-gram
MAX_NEAR_ROWS = 200_000  # rows to train on that are compared; of more, an even sample
MAX_NEAR_HELD = 20_000  # rows to validate or test on that are compared; of more, an even sample
MAX_CANDIDATES = 200  # texts that are compared, for each text on average; tables of few different words have many


class Near(NamedTuple):
    """A held-out text (by index), a similar text to train on (by index), and their Jaccard similarity."""

    held: int
    trained: int
    similarity: float


def shared_pairs(trained: Sequence[Pair], held: Sequence[Pair]) -> list[int]:
    """Return the indices of held-out pairs that are trained on as well."""
    others = set(held)
    seen = {pair for pair in trained if pair in others}
    return [index for index, pair in enumerate(held) if pair in seen]


def find_overlap(trained: Rows, held: Rows, purpose: str, known: str = "train") -> Iterator[Finding]:
    """Yield findings for sources and pairs of a held-out table that another one has.

    `purpose` is that of the held-out table ("validate", "test"), `known` that of the other.
    """
    held_sources = set(held.sources)
    known_sources = held_sources.intersection(trained.sources)
    sources = [index for index, source in enumerate(held.sources) if source in known_sources]
    pairs = shared_pairs(trained.pairs, held.pairs) if sources else []
    advice = f"remove these rows from the table to {purpose} on, or from the one to {known} on"
    split = "glassformer split writes parts without a shared source, and without --valid training holds out such rows"
    other = f"the table to {known} on"

    def note(index: int) -> str:
        """Name the first row of the other table that has the pair, or else the source."""
        pair = held.pairs[index]
        same = next((at for at, other in enumerate(trained.pairs) if other == pair), None)
        at, what = (trained.sources.index(pair.source), "this source") if same is None else (same, "the same")
        return f"row {trained.table.rows[at]} of {trained.table.file(at)} has {what}"

    yield from about_rows(
        "pair overlap",
        "error",
        held.table,
        None,
        pairs,
        f"are in {other} as well, source and target",
        f"a score counts answers that were memorized: {advice}; {split}",
        note=note,
    )
    others = sorted(set(sources).difference(pairs))
    if others:
        yield from about_rows(
            "source overlap",
            "warning",
            held.table,
            "source",
            [*others, *pairs],
            f"have a source that {other} has as well; {len(others):,} of them with another target",
            f"{advice}, unless sources repeat by nature; {split}",
            note=note,
            n_examples=min(N_EXAMPLES, len(others)),
        )


def find_near(trained: Rows, held: Rows, purpose: str) -> tuple[list[Finding], list[str]]:
    """Return the finding for held-out sources that nearly equal one to train on, and notes on what was sampled.

    `purpose` is that of the held-out table ("validate", "test").
    """
    train_rows, held_rows = (
        spread(len(each.sources), most).tolist() for each, most in ((trained, MAX_NEAR_ROWS), (held, MAX_NEAR_HELD))
    )
    notes = [
        f"near overlap: {len(rows):,} of the {len(each.sources):,} rows of {each.table.path} were compared"
        for each, rows in ((trained, train_rows), (held, held_rows))
        if len(rows) < len(each.sources)
    ]
    known = set(trained.sources)
    new = [row for row in held_rows if held.sources[row] not in known]
    found, n_compared = near_duplicates(
        [held.sources[row] for row in new], [trained.sources[row] for row in train_rows]
    )
    if n_compared < len(train_rows):
        notes.append(
            f"near overlap: {n_compared:,} rows of {trained.table.path} were compared, because too many texts are "
            "similar; there may be more"
        )
    if not found:
        return [], notes
    shown = []
    for near in sorted(found, key=lambda near: (-near.similarity, near.held))[:N_EXAMPLES]:
        similar = Example.of(trained.table, train_rows[near.trained])
        note = f"similarity {near.similarity:.2f} to row {similar.row} of {similar.table}: {similar.source!r}"
        shown.append(Example.of(held.table, new[near.held], note))
    finding = Finding(
        "near overlap",
        "warning" if held.words_a_source >= PROSE_WORDS else "info",
        held.table.path,
        "source",
        len(found),
        len(held_rows),
        rows_that("have a source that nearly equals one to train on", len(found), len(held_rows))
        + f": {100 * SIMILAR:.0f} % or more of the strings of {GRAM} characters in either are in both (Jaccard), "
        "without case and white space",
        f"read the examples; if they are the same text, remove those rows from the table to {purpose} on",
        None,
        tuple(shown),
    )
    return [finding], notes


def near_duplicates(held: Sequence[str], trained: Sequence[str]) -> tuple[list[Near], int]:
    """Return each held-out text with the first text to train on of a Jaccard similarity of SIMILAR or more.

    The second value is the number of texts to train on that were compared: all, unless there are more than
    MAX_CANDIDATES candidates for each. Within them no near duplicate is missed.

    Two sets as similar as that share an n-gram among the rarest |set| - ceil(SIMILAR |set|) + 1 of each (prefix
    filter: Chaudhuri et al. 2006, Bayardo et al. 2007). Only those of the held-out texts are indexed, and an n-gram
    that no held-out text has is the rarest, so that most texts to train on are dismissed at once.
    """
    sets = [grams(text) for text in held]
    counts = Counter(gram for found in sets for gram in found)
    rank = {gram: place for place, (gram, _) in enumerate(sorted(counts.items(), key=lambda item: (item[1], item[0])))}
    prefixes = [sorted(rank[gram] for gram in found)[: _prefix(len(found))] for found in sets]
    holders: dict[int, set[int]] = {}
    for index, prefix in enumerate(prefixes):
        for place in prefix:
            holders.setdefault(place, set()).add(index)
    near: list[Near] = []
    n_left = MAX_CANDIDATES * (len(trained) + len(held))
    for index, text in enumerate(trained):
        found = grams(text)
        places = sorted(rank[gram] for gram in found if gram in rank)
        n_indexed = _prefix(len(found)) - (len(found) - len(places))
        candidates = set().union(*(holders.get(place, ()) for place in places[: max(0, n_indexed)]))
        n_left -= len(candidates)
        if n_left < 0:
            return near, index
        for other in sorted(candidates):
            similarity = _similarity(found, sets[other])
            if similarity >= SIMILAR:
                near.append(Near(other, index, similarity))
                for place in prefixes[other]:
                    holders[place].discard(other)
    return near, len(trained)


def _similarity(one: set[str], other: set[str]) -> float:
    """Return the Jaccard similarity, or 0 where the sizes of the sets exclude SIMILAR."""
    if not SIMILAR * len(one) <= len(other) <= len(one) / SIMILAR:
        return 0.0
    common = len(one & other)
    return common / (len(one) + len(other) - common)


def _prefix(size: int) -> int:
    return size - math.ceil(SIMILAR * size - 1e-9) + 1


def grams(text: str) -> set[str]:
    """Return the strings of GRAM characters in a text, without case and with single spaces."""
    plain = " ".join(text.casefold().split())
    return {plain[start : start + GRAM] for start in range(max(1, len(plain) - GRAM + 1))}
