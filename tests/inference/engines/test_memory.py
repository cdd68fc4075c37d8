"""A search that cannot fit is refused before it begins, with what it needs and what there is."""

from __future__ import annotations

import pytest

from glassformer.errors import DeviceError
from glassformer.inference.engines.memory import check_search_fits, memory_of
from glassformer.settings import DecodingSettings, ModelSettings
from tests.inference.test_translator import translator

GIGABYTE = 10**9


def test_the_limit_of_a_container_counts_and_where_the_system_does_not_tell_a_bound(monkeypatch):
    for limit in (None, 4 * GIGABYTE):  # that of a container
        monkeypatch.setattr("glassformer.inference.engines.memory.memory_limit", lambda limit=limit: limit)
        assert memory_of("cpu") == (limit or 2**46)


def test_a_search_whose_hypotheses_cannot_fit_is_refused(with_memory):
    with_memory(16 * GIGABYTE)
    refused = ({"num_beams": 10_000}, 10_000), ({"num_return_sequences": 100_000, "do_sample": True}, 1000)
    for options, length in (*refused, ({"num_beams": 5}, 1_000_000)):
        with pytest.raises(DeviceError, match="not enough memory on cpu to search") as caught:
            check_search_fits(ModelSettings(), 37_000, DecodingSettings(**options), length, None)
        assert "decoding.num_beams" in caught.value.hint
    check_search_fits(ModelSettings(), 37_000, DecodingSettings(num_beams=1), 1_000_000, None)
    learned = ModelSettings(positions="learned", max_length=512)
    check_search_fits(learned, 37_000, DecodingSettings(num_beams=5), 1_000_000, None)


def test_a_translator_refuses_such_a_search_before_it_begins(with_memory):
    with_memory(10**6)
    with pytest.raises(DeviceError, match="not enough memory"):
        translator().translate(["a"], num_beams=1000, max_new_tokens=100_000)
    assert translator().translate(["a"])
