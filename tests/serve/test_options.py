"""`glassformer serve`: its options, from the command line and from the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer.main

from glassformer.cli import command_line
from glassformer.errors import UsageError


@pytest.fixture
def command() -> Any:
    return typer.main.get_command(command_line("serve")).commands["serve"]  # type: ignore[attr-defined]


def test_every_option_is_read_from_the_environment(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    values: dict[str, tuple[str, Any]] = {
        "models": ("fr=runs/fr german", [("fr", Path("runs/fr")), ("german", Path("german"))]),
        "ensemble": ("one two", [Path("one"), Path("two")]),
        "allow_origin": ("https://a.example https://b.example", ["https://a.example", "https://b.example"]),
        "host": ("0.0.0.0", "0.0.0.0"),
        "port": ("80", 80),
        "text": ("an example", "an example"),
        "time_limit": ("20", 20),
        "log": ("1", True),
        "quiet": ("true", True),
        "device": ("cpu", "cpu"),
        "precision": ("auto", "auto"),
    }
    for name, (given, _) in values.items():
        monkeypatch.setenv(f"GLASSFORMER_{name.upper()}", given)
    context = command.make_context("serve", [])
    assert context.params == {name: value for name, (_, value) in values.items()}
    assert command.make_context("serve", ["--port", "8001", "other"]).params["port"] == 8001


@pytest.mark.parametrize("origin", ["example.org", "https://example.org/", "https://example.org/page", "file:///x", ""])
def test_an_origin_is_a_scheme_and_a_host(command: Any, model_path: Path, origin: str) -> None:
    with pytest.raises(UsageError, match="not the origin") as caught:
        command.main([str(model_path), "--allow-origin", origin], standalone_mode=False)
    assert "https://example.org" in str(caught.value)
