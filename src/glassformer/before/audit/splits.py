"""Findings about rows of one table that another one has as well, exactly or nearly."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from glassformer.before.audit.findings import N_EXAMPLES, Example, Finding, Severity, examples, rows_that
from glassformer.before.audit.pairs import PROSE_WORDS, Rows
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
    total = len(held.pairs)
    held_sources = set(held.sources)
    known_sources = held_sources.intersection(trained.sources)
    sources = [index for index, source in enumerate(held.sources) if source in known_sources]
    pairs = shared_pairs(trained.pairs, held.pairs) if sources else []
    path = held.table.path
    advice = f"remove these rows from the table to {purpose} on, or from the one to {known} on"
    split = "glassformer split writes parts without a shared source, and without --valid training holds out such rows"
    other = f"the table to {known} on"
    if pairs:
        yield Finding(
            "pair overlap",
            "error",
            path,
            None,
            len(pairs),
            total,
            f"{rows_that('are', len(pairs), total)} in {other} as well, source and target",
            f"a score counts answers that were memorized: {advice}; {split}",
            None,
            _examples(trained, held, pairs),
        )
    if len(sources) > len(pairs):
        shared = set(pairs)
        others = [index for index in sources if index not in shared]
        yield Finding(
            "source overlap",
            "warning",
            path,
            "source",
            len(sources),
            total,
            f"{rows_that('have', len(sources), total)} a source that {other} has as well; "
            f"{len(others):,} of them with another target",
            f"{advice}, unless sources repeat by nature; {split}",
            None,
            _examples(trained, held, others),
        )


def _examples(trained: Rows, held: Rows, indices: Sequence[int]) -> tuple[Example, ...]:
    """Return examples, each with the first row of the other table that has the pair, or else the source."""
    notes = []
    for index in indices[:N_EXAMPLES]:
        pair = held.pairs[index]
        same = next((at for at, other in enumerate(trained.pairs) if other == pair), None)
        at, what = (trained.sources.index(pair.source), "this source") if same is None else (same, "the same")
        notes.append(f"row {trained.table.rows[at]} of {trained.table.file(at)} has {what}")
    return examples(held.table, indices, notes)


def find_near(trained: Rows, others: Sequence[tuple[Rows, str]]) -> tuple[list[Finding], list[str]]:
    """Return the findings for held-out sources that nearly equal one to train on, and notes on what was sampled.

    `others` are the held-out tables, each with its purpose ("validate", "test").
    """
    known, notes = set(trained.sources), []
    train_rows = spread(len(trained.sources), MAX_NEAR_ROWS).tolist()
    compared: list[tuple[Rows, str, list[int], int]] = []
    for held, purpose in others:
        rows = spread(len(held.sources), MAX_NEAR_HELD).tolist()
        compared.append((held, purpose, [row for row in rows if held.sources[row] not in known], len(rows)))
    sampled = [(trained, len(train_rows)), *((held, n_rows) for held, _, _, n_rows in compared)]
    for each, n_rows in sampled if others else ():
        if n_rows < len(each.sources):
            notes.append(
                f"near overlap: {n_rows:,} of the {len(each.sources):,} rows of {each.table.path} were compared"
            )
    texts = [held.sources[row] for held, _, rows, _ in compared for row in rows]
    found, n_compared = near_duplicates(texts, [trained.sources[row] for row in train_rows])
    if n_compared < len(train_rows):
        notes.append(
            f"near overlap: {n_compared:,} rows of {trained.table.path} were compared, because too many texts are "
            "similar; there may be more"
        )
    findings, start = [], 0
    for held, purpose, rows, n_rows in compared:
        own = [
            Near(rows[near.held - start], train_rows[near.trained], near.similarity)
            for near in found
            if start <= near.held < start + len(rows)
        ]
        start += len(rows)
        if own:
            findings.append(_near_finding(trained, held, purpose, own, n_rows))
    return findings, notes


def _near_finding(trained: Rows, held: Rows, purpose: str, found: Sequence[Near], total: int) -> Finding:
    severity: Severity = "warning" if held.words_a_source >= PROSE_WORDS else "info"
    shown = []
    for near in sorted(found, key=lambda near: (-near.similarity, near.held))[:N_EXAMPLES]:
        similar = Example.of(trained.table, near.trained)
        note = f"similarity {near.similarity:.2f} to row {similar.row} of {similar.table}: {similar.source!r}"
        shown.append(Example.of(held.table, near.held, note))
    return Finding(
        "near overlap",
        severity,
        held.table.path,
        "source",
        len(found),
        total,
        f"{rows_that('have', len(found), total)} a source that nearly equals one to train on: "
        f"{100 * SIMILAR:.0f} % or more of the strings of {GRAM} characters in either are in both (Jaccard), without "
        "case and white space",
        f"read the examples; if they are the same text, remove those rows from the table to {purpose} on",
        None,
        tuple(shown),
    )


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
