"""The built-in table: dates in two notations."""

from __future__ import annotations

import datetime
import random

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
FIRST_YEAR, LAST_YEAR = 1000, 2999


def dates(n_rows: int, seed: int) -> list[tuple[str, str]]:
    """Return random days from 1000 to 2999 (Gregorian), all different: `("1845-01-05", "January 5, 1845")`.

    Raises ValueError when `n_rows` is negative or larger than the number of days.
    """
    first, last = datetime.date(FIRST_YEAR, 1, 1).toordinal(), datetime.date(LAST_YEAR, 12, 31).toordinal()
    if not 0 <= n_rows <= last - first + 1:
        raise ValueError(f"from {FIRST_YEAR} to {LAST_YEAR} there are {last - first + 1} days, not {n_rows}")
    ordinals = random.Random(seed).sample(range(first, last + 1), n_rows)
    days = [datetime.date.fromordinal(number) for number in ordinals]
    return [(day.isoformat(), f"{MONTHS[day.month - 1]} {day.day}, {day.year}") for day in days]
