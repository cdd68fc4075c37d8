r"""A pattern as an automaton over the tokens of a vocabulary, by outlines-core, the library of an extra.

A text matches as in `re.fullmatch`. The pattern of the automaton is ` (?:PATTERN)\z`: with `\z`, an alternative that
matches early (`a|ab`) does not end the match, and the state after the space is the start of an answer. Where tokens
carry the space before a word (words, subwords), the text of an answer is the text of its tokens without a first space.
Such an answer begins in the state before the space, with a token that has one, or in the state after it, with another.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import MissingExtraError, UsageError, quoted, shortened
from glassformer.inference.allowed import program
from glassformer.inference.allowed.automaton import TokenTable
from glassformer.inference.timelimit import check_time_limit
from glassformer.settings import TokenKind
from glassformer.text import Tokenizer

N_BYTES, CPU_SECONDS, SECONDS = 2**31, 10, 60
"""Limits of the process that makes an automaton; a pattern of an ordinary form needs 0.1 s."""
SPACE = 0x20
WHOLE = "a pattern is for the whole answer: leave out ^, $ and \\b"

_CLASSES = {"w": r"[\p{L}\p{N}_]", "W": r"[^\p{L}\p{N}_]", "s": r"[\s\x1c-\x1f]", "S": r"[^\s\x1c-\x1f]"}
"""The classes that Python and Rust define in different ways, as Python does."""
_SYNTAX = re.compile(
    r"(?P<look_around>\(\?<?[=!])|(?P<condition>\(\?\()|(?P<atomic_group>\(\?>)|(?P<anchor>[\^$]|\\[AbBZz])"
    r"|(?P<back_reference>\\[1-9]|\(\?P=)|\\.|\[\^?\]?(?:\\.|[^\\\]])*\]|(?P<possessive_quantifier>[*+?}]\+)|.",
    re.DOTALL,
)
"""A part of a pattern; the named ones are not supported."""


def check_pattern(pattern: str) -> None:
    """Raise UsageError for a pattern that is not valid or not supported, with the position of the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # for what libraries read in different ways, such as [[a]
            re.compile(pattern)
    except (re.error, FutureWarning, RecursionError, OverflowError) as error:
        raise UsageError("the pattern is not valid", got=f"{error} in {quoted(pattern)}") from None
    for part in _SYNTAX.finditer(pattern):
        if part.lastgroup:
            kind = part.lastgroup.replace("_", " ").replace("look ", "look-")
            raise UsageError(
                f"not supported in a pattern: {kind}",
                got=f"{quoted(part[0])} at position {part.start()} of {quoted(pattern)}",
                hint=WHOLE if kind == "anchor" else "write it without",
            )


@functools.lru_cache(16)
def table_of_pattern(pattern: str, tokenizer: Tokenizer, longest: int) -> tuple[TokenTable, int]:
    """Return the automaton of the answers of at most `longest` tokens that match, and its first state.

    Raises UsageError for a pattern that no answer can match, and for one that needs too much memory or time;
    MissingExtraError where the library is not installed.
    """
    if importlib.util.find_spec("outlines_core") is None:
        raise MissingExtraError("a pattern for answers", package="outlines-core", extra="constraints")
    if tokenizer.settings.normalization == "NFD":
        raise UsageError(
            "a pattern cannot be compared with decomposed characters",
            got="a target vocabulary with the normalization NFD",
            hint="give the possible answers as choices, or train with NFC",
        )
    added, vocabulary = tokenizer.added(), tokenizer.vocabulary
    for extra_bytes in ([SPACE], range(256)):  # all bytes where a text that begins to match cannot be continued
        check_time_limit()
        graph = _Graph.of(pattern, added, len(vocabulary), extra_bytes)
        if graph is None:
            continue
        graph = graph.spaced(added, len(vocabulary), tokenizer.settings.kind)
        table = graph.table(len(vocabulary), vocabulary.eos_id, longest)
        if table.distance[graph.start] <= longest:
            return table, graph.start
    if graph is None:
        raise UsageError("no text at all matches the pattern", got=quoted(pattern))
    raise UsageError(
        "no answer can match the pattern: it is too long, or needs what the target vocabulary does not have",
        got=quoted(pattern),
        expected=f"at most {longest} tokens (decoding.max_new_tokens)",
        hint="`glassformer tokens MODEL TEXT --side target` prints how a text is split",
    )


@dataclass(frozen=True)
class _Graph:
    """The automaton of a pattern: `transitions` [E, 3] of state, token, next state, states from 0.

    Tokens from the size of the vocabulary on are single bytes, which no answer has.
    """

    transitions: NDArray[np.int64]
    finals: frozenset[int]
    start: int
    n_states: int

    @classmethod
    def of(cls, pattern: str, added: Mapping[int, bytes], n_tokens: int, extra_bytes: Sequence[int]) -> _Graph | None:
        """Make the automaton with `extra_bytes` as tokens too. None: there is a state without a next token."""
        numbers_read = _run(
            pattern,
            tokens=[text.decode("latin-1") for text in added.values()] + [chr(byte) for byte in extra_bytes],
            ids=[*added, *(n_tokens + byte for byte in extra_bytes)],
        )
        if numbers_read is None:
            return None
        start, n_finals = numbers_read[:2]
        transitions = numbers_read[2 + n_finals :].reshape(-1, 3)
        transitions = transitions[np.lexsort(transitions.T)]  # the library lists them in any order
        names, numbers = np.unique(np.append(transitions[:, ::2], start), return_inverse=True)
        numbered = transitions.copy()
        numbered[:, ::2] = numbers[:-1].reshape(-1, 2)
        finals = np.flatnonzero(np.isin(names, numbers_read[2 : 2 + n_finals])).tolist()
        return cls(numbered, frozenset(finals), int(numbers[-1]), len(names))

    def spaced(self, added: Mapping[int, bytes], n_tokens: int, kind: TokenKind) -> _Graph:
        """Return the automaton of the tokens of answers; this one reads a space before them."""
        table = self.transitions
        is_space = table[:, 1] == n_tokens + SPACE
        begun = int(table[(table[:, 0] == self.start) & is_space, 2][0])
        if kind in ("characters", "bytes"):
            return replace(self, start=begun)
        texts = [added.get(token, b"").decode(errors="ignore") for token in range(n_tokens + 256)]
        has_space = np.array([text.startswith(" ") for text in texts])[table[:, 1]]
        first = np.concatenate(
            (table[(table[:, 0] == self.start) & has_space], table[(table[:, 0] == begun) & ~has_space])
        )
        first[:, 0] = self.n_states
        graph = _Graph(
            np.concatenate((table, first)),
            self.finals | ({self.n_states} if begun in self.finals else frozenset()),
            self.n_states,
            self.n_states + 1,
        )
        return graph._stripped(texts) if kind == "sentencepiece" else graph

    def _stripped(self, texts: Sequence[str]) -> _Graph:
        """Return the automaton of the texts without white space at their ends, which SentencePiece takes off there.

        Each state is there twice: the second one, where white space came last, is not final and takes no more of it.
        """
        table = self.transitions
        begins, ends = (np.array([text[at:][:1].isspace() for text in texts])[table[:, 1]] for at in (0, -1))
        after_space = np.array([text[1:2].isspace() for text in texts])[table[:, 1]]
        only_space = np.array([text[:1].isspace() and text[:1] != " " for text in texts])[table[:, 1]]
        table = table.copy()
        table[ends, 2] += self.n_states
        is_kept = (table[:, 0] != self.start) | ~(only_space | (begins & after_space))
        second = table[~begins]
        second[:, 0] += self.n_states
        return replace(self, transitions=np.concatenate((table[is_kept], second)), n_states=2 * self.n_states)

    def table(self, n_tokens: int, eos_id: int, longest: int) -> TokenTable:
        """Return the table of the transitions of real tokens."""
        real = self.transitions[self.transitions[:, 1] < n_tokens]
        return TokenTable(real, self.finals, self.n_states, n_tokens=n_tokens, eos_id=eos_id, longest=longest)


def _run(pattern: str, tokens: Sequence[str], ids: Sequence[int]) -> NDArray[np.int64] | None:
    """Return what the program writes, or None for a state without a next token. Raises UsageError for other errors."""
    limits = {"n_bytes": N_BYTES, "seconds": CPU_SECONDS}
    as_python = re.sub(r"\\(.)", lambda escape: _CLASSES.get(escape[1], escape[0]), pattern, flags=re.DOTALL)
    request = {"pattern": rf" (?:{as_python})\z", "tokens": tokens, "ids": ids, **limits}
    command = [sys.executable, "-P", program.__file__]
    try:
        done = subprocess.run(
            command, input=json.dumps(request).encode(), capture_output=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        done = subprocess.CompletedProcess(command, -1)
    problem = (done.stderr or b"").decode(errors="replace").strip()
    if done.returncode == 0:
        return np.frombuffer(done.stdout, np.int64)
    if done.returncode < 0 or problem.endswith("MemoryError"):
        raise UsageError(
            "the pattern is too large",
            got=quoted(pattern),
            expected=f"an automaton made in {CPU_SECONDS} s and {N_BYTES >> 30} GiB",
            hint="smaller numbers of repetitions, such as \\w{1,20} in place of \\w{1,1000}",
        )
    if "incompatible with the regex" in problem:
        return None
    raise UsageError(
        "outlines-core does not support the pattern",
        got=f"{quoted(pattern)}: {shortened(problem.splitlines()[-1] if problem else 'no reason', 120)}",
        expected="the syntax of regular expressions that Rust and Python share",
    )
