"""What a run does in trouble: it goes back after numbers that are not finite, and splits what exceeds the memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from glassformer.data.batches import Rows
from glassformer.data.corpus import Corpus
from glassformer.errors import DivergedError, RunError
from glassformer.storage.checkpoints import Position
from glassformer.storage.rundirectory import RunDirectory
from glassformer.training.events import Restored

MAX_SKIPPED = 5  # updates in a row that were not finite, before the run goes back to its newest checkpoint
MAX_RESTORED = 10  # times, each with half the learning rate

# Numbers that are not finite


def restore(position: Position, directory: RunDirectory, go_back: Callable[[], None]) -> Restored:
    """Go back to the newest checkpoint, or to the beginning, with half the learning rate.

    `go_back` changes the position in place. Raises DivergedError when that was done `MAX_RESTORED` times.
    """
    before = replace(position)
    factor = before.rate_factor / 2
    if factor < 2.0**-MAX_RESTORED:
        raise diverged(before, directory)
    go_back()
    position.seconds, position.rate_factor, position.max_tokens = before.seconds, factor, before.max_tokens
    return Restored(position.step, position.seconds, MAX_SKIPPED, factor)


def diverged(position: Position, directory: RunDirectory) -> DivergedError:
    """Return the error of a run whose loss is not finite."""
    return DivergedError(
        f"training diverged: the loss is not finite by step {position.step:,}",
        where=str(directory.path),
        hint="train again with a smaller training.learning_rate, or with training.clip_norm=1",
    )


# Too little memory


def split_rows(rows: Rows, corpus: Corpus, max_tokens: int | None) -> list[Rows]:
    """Split the rows of a batch so that no part has more than `max_tokens`, but for a single row."""
    if max_tokens is None or len(rows) == 1 or _padded_tokens(rows, corpus) <= max_tokens:
        return [rows]
    half = len(rows) // 2
    return split_rows(rows[:half], corpus, max_tokens) + split_rows(rows[half:], corpus, max_tokens)


def smaller_limit(parts: Sequence[Rows], corpus: Corpus, device: object, step: int) -> int:
    """Return the `max_tokens` of parts from now on, because not all of these fit into memory.

    Raises RunError when the largest part is a single row.
    """
    largest = max(parts, key=lambda rows: (_padded_tokens(rows, corpus), -len(rows)))
    if len(largest) == 1:
        raise RunError(
            f"not enough memory on {device} for a single row",
            where=f"step {step:,}",
            got=f"{_longest(largest, corpus):,} tokens on its longer side",
            hint="--set training.recompute=true (needs less memory), a smaller model, or a smaller "
            "data.max_source_length and data.max_target_length",
        )
    return max(_padded_tokens(largest, corpus) // 2, max(_longest(rows, corpus) for rows in parts))


def _padded_tokens(rows: Rows, corpus: Corpus) -> int:
    """Return the padded tokens of the longer side of some rows, which training.batch_tokens limits in a batch."""
    return len(rows) * _longest(rows, corpus)


def _longest(rows: Rows, corpus: Corpus) -> int:
    return int(max(corpus.source.lengths[rows].max(), corpus.target.lengths[rows].max()))
