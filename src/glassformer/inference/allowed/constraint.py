"""What an answer must be, as the guide of a search: a text that matches a pattern, or one of several choices."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from glassformer.errors import TextError, UsageError, quoted, shortened
from glassformer.inference.allowed.automaton import TokenTable
from glassformer.paper.search import Guide
from glassformer.text import Tokenizer
from glassformer.text.normalization import normalize


@dataclass(frozen=True)
class Constraint:
    """What an answer must be: a text that matches the whole `pattern`, or one of `choices`."""

    pattern: str | None = None
    choices: tuple[str, ...] = ()

    @classmethod
    def of(cls, must_match: str | None, choices: Sequence[str] | None) -> Self | None:
        """Return the constraint, or None where neither is given. Raises UsageError for what is not valid."""
        if must_match is not None and choices is not None:
            raise UsageError("a pattern and choices are both given", hint="give one of them")
        if must_match is not None:
            if not isinstance(must_match, str):
                raise UsageError("a pattern must be a text", got=quoted(must_match))
            from glassformer.inference.allowed.patterns import check_pattern

            check_pattern(must_match)
            return cls(pattern=must_match)
        if choices is None:
            return None
        if isinstance(choices, str) or not all(isinstance(choice, str) for choice in choices):
            raise UsageError("the choices must be a list of texts", got=quoted(choices))
        if not choices:
            raise UsageError("there are no choices", expected="at least one answer")
        return cls(choices=tuple(choices))

    def guide(
        self, tokenizer: Tokenizer, prefixes: Sequence[str], forced: list[list[int]], longest: int
    ) -> tuple[Guide, list[list[int]], set[int]]:
        """Return the guide of answers of at most `longest` tokens, the tokens to force, and what has no answer.

        `prefixes` are the starts of the answers and `forced` their tokens (empty: no answer has one). A choice must
        start with the text of the prefix; its tokens may be others. The last are the numbers of the prefixes that no
        answer starts with. Raises UsageError or TextError where nothing is allowed, or a choice can never be an answer.
        """
        if self.pattern is None:
            forced = []
            table, starts = _choices_after(prefixes, self.choices, tokenizer, longest)
        else:
            from glassformer.inference.allowed.patterns import table_of_pattern

            table, start = table_of_pattern(self.pattern, tokenizer, longest)
            starts = [start] * len(prefixes)
        begun = forced or [[] for _ in prefixes]
        unmatched = {
            i
            for i, (start, ids) in enumerate(zip(starts, begun, strict=True))
            if table.distance[table.walk(start, ids)] > longest - len(ids)
        }
        starts = [table.over if i in unmatched else start for i, start in enumerate(starts)]
        forced = [[] if i in unmatched else ids for i, ids in enumerate(forced)]
        return Guide(table, starts), forced, unmatched


def options_of(constraint: Constraint | None) -> dict[str, Any]:
    """Return the options of `Translator.translate` for a constraint."""
    if constraint is None:
        return {}
    return {"choices": constraint.choices} if constraint.pattern is None else {"must_match": constraint.pattern}


def _choices_after(
    prefixes: Sequence[str], choices: tuple[str, ...], tokenizer: Tokenizer, longest: int
) -> tuple[TokenTable, list[int]]:
    """Return the automaton of the tokens of choices, and for each prefix the state of choices that start with it."""
    encoded = _encoded(choices, tokenizer, longest)
    texts = sorted(encoded)
    transitions: dict[tuple[int, int], int] = {}
    finals: set[int] = set()
    n_states = 0
    roots: dict[str, int] = {}
    for prefix in dict.fromkeys(prefixes):
        start = normalize(prefix, tokenizer.settings)
        roots[prefix], n_states = n_states, n_states + 1
        for text in texts[bisect_left(texts, start) :]:
            if not text.startswith(start):
                break
            state = roots[prefix]
            for token in encoded[text]:
                n_states += (state, token) not in transitions
                state = transitions.setdefault((state, token), n_states - 1)
            finals.add(state)
    table = TokenTable(
        np.array([(state, token, target) for (state, token), target in transitions.items()], np.int64),
        finals,
        n_states,
        n_tokens=len(tokenizer),
        eos_id=tokenizer.vocabulary.eos_id,
        longest=longest,
    )
    return table, [roots[prefix] for prefix in prefixes]


@functools.lru_cache(16)
def _encoded(choices: tuple[str, ...], tokenizer: Tokenizer, longest: int) -> dict[str, tuple[int, ...]]:
    """Return the tokens of each choice, by its normalized text. Raises TextError for choices that no answer can be."""
    encoded: dict[str, tuple[int, ...]] = {}
    impossible: dict[int, str] = {}
    for number, choice in enumerate(choices, start=1):
        if unknown := tokenizer.unknown(choice):
            impossible[number] = f"no {', '.join(map(repr, unknown[:3]))} in the target vocabulary"
            continue
        text = normalize(choice, tokenizer.settings)
        encoded[text] = tuple(tokenizer.encode(choice))
        if len(encoded[text]) > longest:
            impossible[number] = f"{len(encoded[text])} tokens; answers have at most {longest}"
    if impossible:
        reasons = [f"{quoted(shortened(choices[at - 1]))}, number {at}: {why}" for at, why in impossible.items()]
        further = f" and {len(reasons) - 5:,} more" if len(reasons) > 5 else ""
        raise TextError(
            f"{len(impossible):,} of {len(choices):,} choices can never be an answer",
            got="; ".join(reasons[:5]) + further,
            hint="leave them out",
        )
    return encoded
