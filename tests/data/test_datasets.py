"""The dates table: different days, all of them real, the same for the same seed."""

from __future__ import annotations

import calendar
import datetime

import pytest

from glassformer.data import datasets
from glassformer.data.datasets import dates

# 2,000 years; of the 500 that 4 divides, 15 of the 20 that 100 divides (1000, 1100, 1300, …, 2900) are no leap years.
ALL_DAYS = 2000 * 365 + 500 - 15


def test_every_day_of_some_years_has_two_notations(monkeypatch):
    monkeypatch.setattr(datasets, "FIRST_YEAR", 1890)
    monkeypatch.setattr(datasets, "LAST_YEAR", 2000)
    first, last = datetime.date(1890, 1, 1), datetime.date(2000, 12, 31)
    days = [first + datetime.timedelta(n) for n in range((last - first).days + 1)]
    assert len(days) == 111 * 365 + 27  # of the 28 years that 4 divides, 1900 is no leap year
    rows = dict(dates(len(days), seed=0))
    assert rows == {day.isoformat(): f"{calendar.month_name[day.month]} {day.day}, {day.year}" for day in days}


def test_the_days_are_spread_over_the_centuries_in_an_order_of_the_seed():
    years = [int(iso[:4]) for iso, _ in dates(20_000, seed=3)]
    for century in range(1000, 3000, 100):
        assert 850 <= sum(century <= year < century + 100 for year in years) <= 1150
    assert (min(years), max(years)) == (1000, 2999)
    assert years != sorted(years)
    assert dates(50, seed=7) == dates(50, seed=7) != dates(50, seed=8)


def test_more_rows_than_days_is_an_error():
    assert dates(0, seed=1) == []
    for number in (ALL_DAYS + 1, -1):
        with pytest.raises(ValueError, match=f"there are {ALL_DAYS} days, not {number}"):
            dates(number, seed=1)
