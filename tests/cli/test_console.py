"""What the verbs share in printing: text from outside is seen, and never acts on the terminal."""

from __future__ import annotations

import io
import unicodedata

import pytest
from rich.console import Console

from glassformer.cli.console import print_error, printable, printable_lines, wrapped
from glassformer.data.digits import six_digits


def test_what_acts_on_a_terminal_is_printed_as_an_escape_and_ordinary_text_of_any_script_stays():
    assert printable("\x1b]8;;http://evil\x1b\\link") == "\\x1b]8;;http://evil\\x1b\\link"
    assert printable("a\nb\rc\td\x7f\x9b") == "a\\nb\\rc\\td\\x7f\\x9b"
    assert printable("a\u202eb\u2066c\u2028d\udcff") == "a\\u202eb\\u2066c\\u2028d\\udcff"
    assert printable_lines("one\n  two\x1b\n") == "one\n  two\\x1b\n"
    for text in ("é ß – “quoted” C:\\n", "日本語", "עברית", "नमस्\u200dते", "👩\u200d🔬 [bold]"):
        assert printable(text) == text


def test_no_control_character_direction_mark_or_surrogate_is_left():
    bidi = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    for character in map(chr, range(0x10000)):  # the other planes have none
        is_control = unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        if is_control or unicodedata.bidirectional(character) in bidi:
            assert printable(character).isascii(), hex(ord(character))
            assert printable(character).isprintable(), hex(ord(character))


def test_a_line_for_a_terminal_breaks_between_words_only_and_one_for_a_file_not_at_all():
    text = f"one two three\n  four five {'x' * 30} six"
    assert wrapped(text, Console(width=14, force_terminal=False)) == text
    lines = wrapped(text, Console(width=14, force_terminal=True)).split("\n")
    assert lines == ["one two three", "  four five", f"    {'x' * 30}", "    six"]


def test_numbers_for_programs_have_six_significant_digits() -> None:
    same = {"count": 12345678, "text": "0.12345678", "is_right": True}
    value = {"scores": [0.12345678, -1234567.8], "pair": (1.5e-9, 2.0), **same}
    assert six_digits(value) == {"scores": [0.123457, -1234570.0], "pair": [1.5e-9, 2.0], **same}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_an_error_for_a_terminal_breaks_between_words_and_its_command_not_at_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    command = f"  next: glassformer train {'long/' * 9}table.csv --out run"
    print_error(f"error: the table does not say which column it is\n  where: t.csv\n{command}")
    said = ["error: the table does not say which", "  column it is", "  where: t.csv", command, ""]
    assert terminal.getvalue().split("\n") == said
