"""What runs of several files have in common."""

from __future__ import annotations

import pytest


@pytest.fixture
def every_update_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event of progress for each update."""
    monkeypatch.setattr("glassformer.training.loop.PROGRESS_SECONDS", 0.0)
