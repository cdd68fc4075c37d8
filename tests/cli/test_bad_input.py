"""Bad input ends in words: what, where, what was expected, what next; exit code not 0, no traceback, nothing lost."""

from __future__ import annotations

import csv
import io
import json
import shlex
import subprocess
import sys
import unicodedata
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from glassformer.errors import RunError


def assert_is_for_people(answer, code: int, *parts: str) -> None:
    assert answer.code == code, answer.err
    assert "Traceback" not in answer.err
    for part in parts:
        assert part in answer.err


# Training


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--valid", "no.csv"], 1, "there is no such file\n  where: no.csv"),
        (["--test", "no.csv"], 1, "there is no such file\n  where: no.csv"),
        (["--device", "cuda:99"], 1, "device 'cuda:99' is not available"),
        (["--precision", "bfloat61"], 2, "did you mean 'bfloat16'?"),
        (["--set", "training.max_minutes", "3"], 2, "  next: --set training.max_minutes=3\n"),
        (["--set", "training.max_minutes", "--resume"], 2, "--set training.max_minutes=VALUE\n"),
        (["--set", "training.max_minutes: 3"], 2, "  next: --set training.max_minutes=3\n"),
        (["--set", "training.max_minutes:", "3"], 2, "  next: --set training.max_minutes=3\n"),
        (["--set", "training.max_minutes:=3"], 2, "  next: --set training.max_minutes=3\n"),
        (["--set", "max_minuets=3"], 2, "  next: --set training.max_minutes=3\n"),
        (["--set", "lr=3"], 2, "  next: --set training.learning_rate=3\n"),
        (["--set", "epochs=3"], 2, "  next: --set training.steps=VALUE\n"),
        (["--set", "num_layers=3"], 2, "--set model.n_encoder_layers=3 or --set model.n_decoder_layers=3\n"),
        (["max_minutes=5"], 2, "unexpected argument 'max_minutes=5'\n  next: --set training.max_minutes=5\n"),
        (["--steps", "100"], 2, "there is no option --steps; it is a setting\n  next: --set training.steps=100\n"),
        (["--drop-out=0.1"], 2, "No such option"),
        (["--set", "training.steps", "=", "3"], 2, "  next: --set training.steps=VALUE\n"),
        (["--epochs", "3"], 2, "; it is a setting in another unit\n  next: --set training.steps=VALUE\n"),
        (["--dropout=0.1"], 2, "; it is a setting\n  next: --set model.dropout=0.1\n"),
    ],
)
def test_what_training_cannot_take_is_refused_before_anything_is_written(tmp_path, call, table, words, code, said):
    assert_is_for_people(call("train", table, "--out", tmp_path / "run", *words), code, said)
    assert not (tmp_path / "run").exists()


# Arguments


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("translate {table} {run}", 2, "glassformer translate {run} {table}\n"),
        ("score {table} {run}", 2, "the arguments are in the wrong order"),
        ("tokens 1969 {run}", 2, "glassformer tokens {run} 1969\n"),
        ("explain {run} {table}", 2, "glassformer explain {run} TEXT"),
        ("tokens {run} {table}", 2, "glassformer tokens {run} TEXT"),
        ("evaluate {table}", 2, "the first argument is a table\n  got: {table}\n  expected: MODEL TABLE\n"),
        ("translate {table}", 2, "  expected: MODEL INPUT\n  next: glassformer translate MODEL {table}\n"),
        ("translate {table} --column 1", 2, "glassformer translate MODEL {table} --column 1\n"),
        ("translate {table} 1969 --beam 2", 2, "glassformer translate MODEL 1969 --beam 2\n"),
        ("compare {table}", 2, "glassformer compare A B {table}\n"),
        ("compare {table} {run}", 2, "glassformer compare {run} B {table}\n"),
        ("compare {table} {run} {run}", 2, "glassformer compare {run} {run} {table}\n"),
        ("explain {table}", 2, "glassformer explain MODEL TEXT\n"),
        (
            "explain {run} -ed --beam 2",
            2,
            "no option -ed\n  next: as a text: glassformer explain {run} --beam 2 -- -ed\n",
        ),
        ("translate {run} --json -x", 2, "  next: as a text: glassformer translate {run} --json -- -x\n"),
        ("translate {run} ''", 2, "there is nothing to translate"),
        ("translate {run} a -b 4", 2, "No such option: -b"),
        ("serve {run} -p 8000", 2, "No such option: -p"),
        ("train a.en a.de --out x", 2, "  next: two parallel files are one argument: a.en,a.de\n"),
        ("explain {table} 1969", 2, "glassformer explain MODEL 1969\n"),
        ("info {table}", 1, "this is not a model"),
        ("info {parent}", 1, "did you mean {run}?"),
        ("serve {parent}", 1, "did you mean {run}?"),
        ("translate {run} {folder}/nosuch.csv", 1, "there is no such file\n  where: {folder}/nosuch.csv\n"),
        ("translate {run} {folder}/daets.csv", 1, "did you mean 'dates.csv'?"),
        ("translate {run} {folder}/daets.csv --column iso", 1, "did you mean 'dates.csv'?\n"),
        ("translate {run} 1969-07-20 --column iso", 1, "without --column, this text is translated\n"),
        ("train {table} r2", 2, "unexpected argument 'r2'\n  next: --out r2\n"),
        ("split {table} parts", 2, "  next: --out parts\n"),
        ("explain {run} x --out page.html", 2, "there is no option --out\n  next: --html FILE\n"),
        ("translate {run} x num_beams=4", 2, "  next: --set decoding.num_beams=4\n"),
        ("translate {run}s x", 1, "did you mean {run}?"),
        ("train", 2, "Missing argument 'TABLE'"),
        ("translaet", 2, "No such command 'translaet'"),
        ("translate m --bean 3", 2, "--beam"),
        ("tokens m x --side left", 2, "target"),
    ],
)
def test_words_that_are_confused_say_what_to_write(call, run, few, words, code, said):
    places = {"run": run, "parent": run.parent, "table": few, "folder": few.parent}
    answer = call(*shlex.split(words.format(**places)))
    assert_is_for_people(answer, code, said.format(**places))
    assert answer.out == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [("it's.txt", "'it'\"'\"'s.txt'"), ("3/4", "3/4"), ("long/" * 80, "TEXT"), ("a b.csv2", "'a b.csv2'")],
)
def test_a_file_that_does_not_exist_names_the_command_for_texts(call, run, text, shown):
    answer = call("translate", run, text)
    assert_is_for_people(answer, 1, f"as a text: echo {shown} | glassformer translate {run}")


@pytest.mark.parametrize("text", ["1969-07-20", "3.5", "it's 3/4"])
def test_a_text_that_is_no_path_is_translated_with_a_notice(call, run, text):
    answer = call("translate", run, text)
    assert answer.code == 0, answer.err
    assert answer.out == call("translate", run, stdin=f"{text}\n".encode()).out
    assert f"there is no file {text!r}: it is translated as a text\n" in answer.err


def test_a_table_whose_header_is_not_seen_is_translated_with_a_warning(tmp_path, call, run, table_of):
    table = table_of(tmp_path / "table.csv", [("wann", "was"), ("1969-07-20", "x"), ("1970-07-20", "y")])
    assert "if it has the names of the columns: --header" in call("translate", run, table, "--column", "0").err
    assert "--header" not in call("translate", run, table, "--column", "0", "--no-header").err


def test_a_document_is_no_text(call, run, tmp_path):
    for name, data, what in (
        ("a.xlsx", b"PK\x03\x04" + bytes(50), "an Excel workbook"),
        ("a.txt", "1969-07-20\n".encode("utf-16"), "text in UTF-16"),
    ):
        (tmp_path / name).write_bytes(data)
        assert_is_for_people(call("translate", run, tmp_path / name), 1, what, "next: ")
    answer = call("translate", run, stdin="é\n".encode("latin-1"))
    assert_is_for_people(answer, 1, "standard input", "or send it through iconv -f WINDOWS-1252 -t UTF-8;")


def test_a_word_of_another_option_is_no_file(call, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("glassformer.export.export", Mock(side_effect=RunError("it was called")))
    assert call("export", run, "--to", "html", "--out", "html").err == "error: it was called\n"


# Options


HUGE, DIGITS = str(10**30), "9" * 5000


@pytest.mark.parametrize("number", [HUGE, DIGITS], ids=["10^30", "5,000 digits"])
@pytest.mark.parametrize(
    "words",
    [
        ("translate", "RUN", "--beam"),
        ("translate", "RUN", "--nbest"),
        ("explain", "RUN", "1845", "--tensor", "decoder.0.cross.weights", "--head"),
        ("explain", "RUN", "1845", "--pad-to"),
        ("tokens", "RUN", "1845", "--pad-to"),
        ("serve", "RUN", "--port"),
        ("train", "TABLE", "--out", "OUT", "--seed"),
        ("demo", "--out", "OUT", "--seed"),
    ],
    ids=lambda words: f"{words[0]} {words[-1]}",
)
def test_a_number_beyond_all_sense_is_refused_in_a_few_words(tmp_path, call, run, table, words, number):
    places = {"RUN": run, "TABLE": table, "OUT": tmp_path / "out"}
    answer = call(*(places.get(word, word) for word in words), number, stdin=b"1845\n")
    assert_is_for_people(answer, 2)
    assert answer.out == ""
    assert DIGITS[:200] not in answer.err
    assert not (tmp_path / "out").exists()


# Outputs


with_full_disk = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


@with_full_disk
@pytest.mark.parametrize("words", [["info", "RUN"], ["info", "RUN", "--json"], ["score", "RUN", "TABLE"]])
def test_a_full_disk_on_standard_output_is_an_error(call, run, table, words):
    places = {"RUN": run, "TABLE": table}
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        answer = call(*(places.get(word, word) for word in words), stdout=full)
        full.flush()  # nothing is left that the end of the process would fail to write
    assert_is_for_people(answer, 1, "No space left on device")


def test_out_of_memory_is_an_error_that_says_what_to_make_smaller(call, run, monkeypatch):
    def too_much(*_arguments, **_options):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")

    monkeypatch.setattr("glassformer.inference.translator.Translator.translate", too_much)
    answer = call("translate", run, stdin=b"1845-01-05\n")
    assert_is_for_people(answer, 1, "error: out of memory\n", "a smaller training.batch_tokens, beam")


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stderr"])
def test_a_closed_stream_is_no_error(call, run, closed):
    answer = call("translate", run, **{closed: None})
    assert (answer.code, answer.out) == (0, "")
    assert "Traceback" not in answer.err


def test_a_process_whose_streams_are_closed_ends_well(run):
    """All three, so that the first file that is opened has the number of standard input."""
    command = f'"{sys.executable}" -m glassformer translate "{run}" <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", command], check=False, timeout=120).returncode == 0


def test_results_are_utf8_in_any_locale(tmp_path, call, run, table_of):
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    answer = call("score", run, table_of(tmp_path / "strange.csv", [("é", "ß")]), stdout=out)
    out.flush()
    assert (answer.code, out.buffer.getvalue().decode().split("\t")[1:]) == (0, ["é", "ß\n"])


# Names and texts that are not UTF-8, or act on a terminal

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no such names")


@on_linux
def test_names_that_are_not_utf8_can_be_used_for_everything(tmp_path, call, small):
    folder = tmp_path / "f\udcff"
    folder.mkdir()
    table = folder / "t\udcfe.csv"
    table.write_text("iso,english\n" + "".join(f"{n},{n + 1}\n" for n in range(100, 200)), encoding="utf-8")
    run, page, out = folder / "run\udcfd", folder / "p\udcfc.html", folder / "out\udcfb.txt"
    for words in (
        ("train", table, "--out", run, "--test", table, *small(training__steps="2", training__validate_every="1")),
        ("info", run, "--json"),
        ("evaluate", run, table, "--json"),
        ("score", run, table),
        ("translate", run, table, "--column", "iso", "--out", out, "--json"),
        ("explain", run, "123", "--html", page),
    ):
        answer = call(*words)
        assert (answer.code, "Traceback" in answer.err) == (0, False), answer.err
        if "--json" in words and "--out" not in words:
            json.loads(answer.out)
    assert f"{tmp_path}/f\\udcff/t\\udcfe.csv" in (run / "README.md").read_text("utf-8")
    assert len(out.read_text("utf-8").splitlines()) == 100
    assert b"\\udcfd" in page.read_bytes()
    answer = call("train", folder / "no\udcff.csv", "--out", run, "--overwrite")
    assert_is_for_people(answer, 1, "there is no such file", r"no\udcff.csv")


@pytest.mark.parametrize(
    "words",
    [
        ("tokens", "RUN", "a\udcff"),
        ("explain", "RUN", "a\udcff"),
        ("explain", "RUN", "123", "--target", "a\udcff"),
        ("serve", "RUN", "--text", "a\udcff"),
    ],
    ids=lambda words: words[0],
)
def test_a_text_that_is_not_utf8_is_refused(call, run, words):
    answer = call(*(run if word == "RUN" else word for word in words))
    assert_is_for_people(answer, 1)
    assert "surrogate" in answer.err or "not UTF-8" in answer.err
    assert answer.out == ""


def test_json_keys_with_half_a_surrogate_pair_do_no_harm(tmp_path, call, small):
    path = tmp_path / "t.jsonl"
    path.write_text("".join(f'{{"a\\ud800": "{n}", "b\\udfff": "{n + 1}"}}\n' for n in range(100)), encoding="ascii")
    answer = call("train", path, "--out", tmp_path / "run", *small(training__steps="1"))
    assert (answer.code, r"source: a\ud800 (column 0)" in answer.err) == (0, True), answer.err
    answer = call("train", path, "--out", tmp_path / "new", "--source", "a\ud800", "--target", "1")
    assert_is_for_people(answer, 2, "'data.source'", "valid UTF-8")


@on_linux
def test_a_name_that_is_too_long_is_refused_before_the_work(tmp_path, call, run, table, monkeypatch):
    def work(*_arguments, **_options):
        raise AssertionError("it works already")

    monkeypatch.setattr("glassformer.inference.translator.Translator.load", work)
    monkeypatch.setattr("glassformer.glassbox.trace.explain", work)
    monkeypatch.setattr("glassformer.planning.plan.prepare", work)
    for words in (
        ("train", table, "--out", tmp_path / ("a" * 256)),
        ("translate", run, "-", "--out", tmp_path / ("a" * 255)),
        ("explain", run, "123", "--html", tmp_path / ("a" * 256)),
        ("explain", run, "123", "--html", run / "model.safetensors" / "a"),
    ):
        answer = call(*words, stdin=b"1\n")
        assert_is_for_people(answer, 1, "cannot write the file")
        assert len(answer.err) < 300
    assert list(tmp_path.iterdir()) == []


EVIL = "\x1b[2J\x1b]8;;http://evil\x1b\\a\u202eb\x9bc"


@pytest.mark.medium
def test_what_a_table_says_never_acts_on_the_terminal(tmp_path, call, small):
    rows = [(f"{EVIL}{n}", f"{EVIL}{n + 1}") for n in range(60)]
    path = tmp_path / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([(f"s{EVIL}", f"t{EVIL}"), *rows])
    run = tmp_path / "run"
    source = ("--source", f"s{EVIL}", "--target", f"t{EVIL}")
    few = small(training__steps="2", training__validate_every="1")
    for words in (
        ("train", path, "--out", run, *source, "--test", path, *few),
        ("info", run),
        ("evaluate", run, path, *source),
        ("score", run, path),
        ("explain", run, rows[0][0], "--target", rows[0][1]),
        ("explain", run, rows[0][0], "--edit", f"token 3={EVIL[0]}"),
        ("evaluate", run, path, "--source", "none", "--target", f"{EVIL}"),
        ("info", tmp_path / EVIL),
    ):
        answer = call(*words)
        assert "Traceback" not in answer.err
        printed = {*answer.out, *answer.err} - {"\n", "\t"}  # ends of lines, and the tabs of score
        assert not [char for char in printed if unicodedata.category(char) in ("Cc", "Cs") or char == "\u202e"]
