"""Where a model fails on a table: its answers by group, their edits, the confused tokens, and which rows to add.

    failures = find_failures(translator, evaluate(translator, table).answered, further_columns(…))

An item is a source with all its targets, as in `evaluation`; it is right if its answer equals one of them. The edits of
a wrong answer are those to its nearest target, in tokens. All shares have 95 % intervals (`metrics.Share`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from glassformer.evaluation.metrics import Item, Share, exact_matches, nearest_references
from glassformer.inference.translator import Translation, Translator
from glassformer.text.inputs import Source
from glassformer.text.seen import words_of

FEW = 10
"""No conclusion is drawn from a group with fewer items."""

MAX_VALUES = 20
"""Different values of a column that are groups."""

SHOWN_ROWS, SHOWN_CONFUSIONS, SHOWN_ADVICE, SHOWN_TOKENS, SHOWN_IN_A_LINE = 20, 20, 5, 8, 3
_LENGTH_GROUPS = 8
_RARE = (0, 1, 10, 100, 1000, 10_000)  # the least numbers of times of each group

KINDS = {
    "substitution": "another token in the place of the right one",
    "deletion": "a token is missing inside the answer",
    "insertion": "a token too many inside the answer",
    "copy of a neighbor": "a token too many that equals the one before or after it",
    "ends too early": "the end of the right answer is missing",
    "cut off": "the end is missing because of the maximum number of tokens",
    "runs on": "tokens after the end of the right answer",
    "no token": "not equal, but equal in tokens: white space, or letters that the tokenizer makes equal",
}
"""Kind of an edit -> what it is. An answer can have several."""


class AnswerEdit(NamedTuple):
    """One edit of an answer: `expected` is missing in it, or `got` is too many; both, for a substitution."""

    kind: str
    expected: str = ""
    got: str = ""


@dataclass(frozen=True)
class Group:
    """Some of the items: how many of them are right. `rows` describes them, as in "rows with size = large"."""

    name: str
    share: Share
    rows: str


@dataclass(frozen=True)
class Breakdown:
    """All items, in groups."""

    by: str
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class KindOfEdit:
    """How often a kind of edit is made, and the share of the wrong answers that have it."""

    name: str
    edits: int
    answers: Share


@dataclass(frozen=True)
class Confusion:
    """How often a token of the right answers was another one in the answer; `got` is empty where it was left out."""

    expected: str
    got: str
    share: Share


@dataclass(frozen=True)
class RowsToAdd:
    """Rows to add to the training table: a group that is worse than all other items (`others`)."""

    rows: str
    share: Share
    others: Share


@dataclass(frozen=True)
class AnsweredRow:
    """An item with its answer, the nearest target and the edits to it; none for a right answer.

    `number` is the number of the pair in the table, from 0.
    """

    number: int
    source: Source
    expected: str
    answer: Translation
    edits: tuple[AnswerEdit, ...]
    is_right: bool


@dataclass(frozen=True)
class Failures:
    """Where a model fails. `worst`: the wrong answers with most edits per token; `doubtful`: the least certain ones."""

    right: Share
    breakdowns: tuple[Breakdown, ...]
    kinds: tuple[KindOfEdit, ...]
    confusions: tuple[Confusion, ...]
    advice: tuple[RowsToAdd, ...]
    worst: tuple[AnsweredRow, ...]
    doubtful: tuple[AnsweredRow, ...]


def find_failures(
    translator: Translator,
    answered: Sequence[tuple[Item, Translation]],
    columns: Mapping[str, Sequence[str]] | None = None,
) -> Failures:
    """Return where the answers fail. `columns` have a value for each pair of the table, by the name of the column."""
    rows = _rows(translator, answered)
    breakdowns = _by_source(translator, rows)
    breakdowns += [_by_column(name, values, rows) for name, values in (columns or {}).items()]
    right = Share(sum(row.is_right for row in rows), len(rows))
    split = translator.target_tokenizer.split
    wrong = [row for row in rows if not row.is_right]
    worst = sorted(wrong, key=lambda row: (-len(row.edits) / max(1, len(split(row.expected))), row.number))
    # By its confidence where the model has been calibrated, or else by its score.
    certainty = [row.answer.score if row.answer.confidence is None else row.answer.confidence for row in rows]
    doubtful = [row for _, _, row in sorted(zip(certainty, range(len(rows)), rows, strict=True))]
    return Failures(
        right=right,
        breakdowns=tuple(breakdowns),
        kinds=_kinds(wrong),
        confusions=_confusions(wrong, Counter(token for row in rows for token in split(row.expected))),
        advice=_advice(breakdowns, right),
        worst=tuple(worst[:SHOWN_ROWS]),
        doubtful=tuple(doubtful[:SHOWN_ROWS]),
    )


def most_wrong(translator: Translator, answered: Sequence[tuple[Item, Translation]]) -> RowsToAdd | None:
    """Return the group of items, by their source, that loses most answers; None if none is worse than all others."""
    answers, references = [answer.text for _, answer in answered], [item.references for item, _ in answered]
    right = (exact_matches(answers, references) == 1).tolist()
    rows = [
        AnsweredRow(item.row, item.source, "", answer, (), is_right)
        for (item, answer), is_right in zip(answered, right, strict=True)
    ]
    breakdowns = _by_source(translator, rows, SHOWN_IN_A_LINE)
    return next(iter(_advice(breakdowns, Share(sum(right), len(right)))), None)


def largest_kind(translator: Translator, answered: Sequence[tuple[Item, Translation]]) -> KindOfEdit | None:
    """Return the kind of edit that most wrong answers have; None if all answers are right."""
    return next(iter(_kinds([row for row in _rows(translator, answered) if not row.is_right])), None)


def _rows(translator: Translator, answered: Sequence[tuple[Item, Translation]]) -> list[AnsweredRow]:
    split = translator.target_tokenizer.split
    texts, references = [answer.text for _, answer in answered], [item.references for item, _ in answered]
    matches, nearest = exact_matches(texts, references), nearest_references(texts, references, split)
    rows = []
    for (item, answer), is_right, best in zip(answered, (matches == 1).tolist(), nearest, strict=True):
        expected = item.references[best]
        edits = () if is_right else edits_of(split(expected), split(answer.text), is_cut=not answer.finished)
        rows.append(AnsweredRow(item.row, item.source, expected, answer, edits, is_right))
    return rows


# Edits


def edits_of(expected: Sequence[str], got: Sequence[str], *, is_cut: bool = False) -> tuple[AnswerEdit, ...]:
    """Return the fewest edits between the tokens of a target and of an answer, from left to right, with their kinds.

    Ties: equal and substituted tokens are taken as early as possible.
    """
    distances = _distances(expected, got)
    edits: list[AnswerEdit] = []
    i = j = 0
    while i < len(expected) or j < len(got):
        n_left = distances[i][j]
        if i < len(expected) and j < len(got) and n_left == distances[i + 1][j + 1] + (expected[i] != got[j]):
            if expected[i] != got[j]:
                edits.append(AnswerEdit("substitution", expected[i], got[j]))
            i, j = i + 1, j + 1
        elif i < len(expected) and n_left == distances[i + 1][j] + 1:
            at_end = "cut off" if is_cut else "ends too early"
            edits.append(AnswerEdit(at_end if j == len(got) else "deletion", expected=expected[i]))
            i += 1
        else:
            is_copy = got[j] in (*got[max(0, j - 1) : j], *got[j + 1 : j + 2])
            inside = "copy of a neighbor" if is_copy else "insertion"
            edits.append(AnswerEdit("runs on" if i == len(expected) else inside, got=got[j]))
            j += 1
    return tuple(edits) or (AnswerEdit("no token"),)


def _distances(a: Sequence[str], b: Sequence[str]) -> list[list[int]]:
    """Return the number of edits between a[i:] and b[j:], for all i and j."""
    left = [[len(b) - j for j in range(len(b) + 1)]]
    for i in range(len(a) - 1, -1, -1):
        below, row = left[-1], [0] * len(b) + [len(a) - i]
        for j in range(len(b) - 1, -1, -1):
            row[j] = min(below[j + 1] + (a[i] != b[j]), below[j] + 1, row[j + 1] + 1)
        left.append(row)
    return left[::-1]


def _kinds(wrong: Sequence[AnsweredRow]) -> tuple[KindOfEdit, ...]:
    edits = Counter(edit.kind for row in wrong for edit in row.edits)
    answers = Counter(kind for row in wrong for kind in {edit.kind for edit in row.edits})
    return tuple(
        KindOfEdit(kind, edits[kind], Share(answers[kind], len(wrong)))
        for kind in sorted(KINDS, key=lambda kind: -answers[kind])
        if answers[kind]
    )


def _confusions(wrong: Sequence[AnsweredRow], occurrences: Mapping[str, int]) -> tuple[Confusion, ...]:
    counts = Counter((edit.expected, edit.got) for row in wrong for edit in row.edits if edit.expected)
    order = sorted(counts, key=lambda pair: (-counts[pair], pair))
    return tuple(Confusion(*pair, Share(counts[pair], occurrences[pair[0]])) for pair in order[:SHOWN_CONFUSIONS])


# Groups


def _grouped(by: str, rows: Sequence[AnsweredRow], names: Sequence[str], described: Mapping[str, str]) -> Breakdown:
    """Return the items by the names of their groups; `described` has the words for the rows of each, in order."""
    n, n_right = Counter(names), Counter(name for row, name in zip(rows, names, strict=True) if row.is_right)
    groups = [Group(name, Share(n_right[name], n[name]), words) for name, words in described.items() if n[name]]
    return Breakdown(by, tuple(groups))


def _by_source(translator: Translator, rows: Sequence[AnsweredRow], shown: int = SHOWN_TOKENS) -> list[Breakdown]:
    """Return the items by length, by their rarest token, and by what the training does not have.

    `shown` tokens are in the words for a group.
    """
    tokenizer, data = translator.source_tokenizer, translator.model_file.data
    encoded = tokenizer.encode_many([row.source for row in rows])
    lengths = [len(ids) for ids in encoded]
    span_of = {
        length: f"{first:,}" if first == last else f"{first:,} to {last:,}"
        for first, last in _spans(lengths)
        for length in range(first, last + 1)
    }
    described = {span: f"rows whose source has {span} tokens" for span in span_of.values()}
    breakdowns = [_grouped("tokens of the source", rows, [span_of[length] for length in lengths], described)]
    if data.source_counts:
        breakdowns.append(_by_rarity(translator, encoded, rows, shown))
    if data.longest_source is not None:
        longest = data.longest_source
        kinds = []
        for row, length in zip(rows, lengths, strict=True):
            unlike = "longer than all" if length > longest else "new string of tokens"
            like = unlike if row.answer.unlike else "like the training"
            kinds.append("unknown token" if row.answer.unknown else like)
        unknown = Counter(token for row in rows if not row.is_right for token in row.answer.unknown)
        described = {
            "unknown token": f"rows with tokens that the vocabulary does not have: {_listed(unknown, shown)}",
            "new string of tokens": "rows with strings of tokens that no row of the training has",
            "longer than all": f"rows whose source has more than {longest} tokens, the longest of the training",
            "like the training": "rows like those of the training",
        }
        breakdowns.append(_grouped("what the training does not have", rows, kinds, described))
    return breakdowns


def _by_rarity(
    translator: Translator, encoded: Sequence[Sequence[int]], rows: Sequence[AnsweredRow], shown: int
) -> Breakdown:
    """Return the items by how often the rarest token of their source was trained."""
    tokenizer, counts = translator.source_tokenizer, translator.model_file.data.source_counts
    vocabulary = tokenizer.vocabulary
    spans = [f"{first:,} to {end - 1:,} times" for first, end in pairwise(_RARE[1:])]
    all_names = ["never", *spans, f"{_RARE[-1]:,} times or more"]

    def times(token: int) -> int:
        return 0 if token == vocabulary.unk_id else counts[token]

    names: list[str] = []
    words: dict[str, Counter[str]] = {name: Counter() for name in all_names}  # of the wrong answers
    for ids, row in zip(encoded, rows, strict=True):
        positions = (at for at, token in enumerate(ids) if token not in vocabulary.input_ids)
        at = min(positions, key=lambda at: times(ids[at]), default=len(ids))
        rarest = [*ids, vocabulary.eos_id][at]
        names.append(all_names[sum(times(rarest) >= limit for limit in _RARE) - 1])
        if not row.is_right and at < len(ids):
            tokens, kind = tokenizer.tokens(ids, row.answer.unknown), tokenizer.settings.kind
            words[names[-1]][tokens[at] if kind == "characters" else words_of(tokens, at, at + 1, kind)] += 1
    described = {}
    for name, counter in words.items():
        trained = "never trained" if name == "never" else f"trained {name}"
        described[name] = f"rows with source tokens that were {trained}: {_listed(counter, shown)}"
    return _grouped("how often the rarest token of the source was trained", rows, names, described)


def _listed(tokens: Counter[str], shown: int) -> str:
    """Return the most frequent tokens in words."""
    text = ", ".join(f"“{token}”" for token, _ in tokens.most_common(shown)) or "none in the wrong answers"
    return f"{text} and {len(tokens) - shown:,} more" if len(tokens) > shown else text


def _by_column(name: str, column: Sequence[str], rows: Sequence[AnsweredRow]) -> Breakdown:
    """Return the items by the value of a column; several values with fewer than FEW items are one group."""
    values = [column[row.number] for row in rows]
    counts = Counter(values)
    rare = [value for value in counts if counts[value] < FEW]
    others_name = f"{len(rare)} other values" if len(rare) > 1 else ""
    group_of = {value: others_name if others_name and counts[value] < FEW else value or "(empty)" for value in counts}
    order = sorted({*group_of.values()} - {others_name}, key=lambda value: (-counts[value], value))
    described = {value: f"rows with {name} = {value}" for value in order}
    described[others_name] = f"rows with other values of {name}"
    return _grouped(f"column {name}", rows, [group_of[value] for value in values], described)


def _spans(values: Sequence[int]) -> list[tuple[int, int]]:
    """Return spans (first, last) that cover all values, each with about the same number of them and at least FEW."""
    least = max(FEW, -(-len(values) // _LENGTH_GROUPS))
    spans: list[tuple[int, int]] = []
    counts = sorted(Counter(values).items())
    first, n, n_left = counts[0][0], 0, len(values)
    for value, count in counts:
        n, n_left = n + count, n_left - count
        if (n >= least and n_left >= FEW) or not n_left:
            spans.append((first, value))
            first, n = value + 1, 0
    return spans


# Rows to add


def _advice(breakdowns: Sequence[Breakdown], right: Share) -> tuple[RowsToAdd, ...]:
    """Return the groups whose interval is below that of all other items, the groups with most lost answers first."""
    advice = []
    for group in (group for breakdown in breakdowns for group in breakdown.groups):
        share = group.share
        if share.of < FEW or right.of - share.of < FEW:
            continue
        share_of_others = Share(right.count - share.count, right.of - share.of)
        if share.high < share_of_others.low:
            advice.append(RowsToAdd(group.rows, share, share_of_others))
    # Lost answers are answers that would be right if the group were as good as all other items.
    advice.sort(key=lambda rows: rows.share.of * (rows.others.value - rows.share.value), reverse=True)
    return tuple(advice[:SHOWN_ADVICE])
