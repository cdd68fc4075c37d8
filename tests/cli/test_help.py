"""The options of every verb, and the help: short, in groups, and without a library that takes long to import."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib.metadata import version

import pytest
import typer.main

from glassformer.cli import command_line

COLUMNS = "--source --feature --target --header --no-header --bad-rows "
LEDGER = COLUMNS + "--ledger --overwrite "
TRAINING = COLUMNS + "--valid --recipe --set --init --device --precision --seed "
COMPUTING = "--ensemble --device --precision "
PRINTED = "--quiet --json"
CONTRACT = {
    "audit": f"TABLE --valid --test --set --strict {COLUMNS} {PRINTED}",
    "split": f"TABLE --out --valid --test --group --seed {COLUMNS} {PRINTED}",
    "demo": f"--out --device --seed {PRINTED}",
    "train": f"""
        TABLE --out --test --resume --overwrite --dry-run --verbose --members --tensorboard {TRAINING} {PRINTED}
    """,
    "settings": f"WORD --recipes {PRINTED}",
    "translate": f"""
        MODEL INPUT --out --ledger --resume --overwrite --column --feature --keep --header --no-header --prefix
        --nbest --min-confidence --alignments --must-match --choices --lexicon --ensemble --beam --long --set --device
        --on {PRINTED}
    """,
    "evaluate": f"""
        MODEL TABLE --confidence --report --beam --bleu-tokenize --no-group --set {LEDGER} {COMPUTING}
        {PRINTED}
    """,
    "compare": f"A B TABLE --device --beam --bleu-tokenize --no-group --set --seed {LEDGER} {PRINTED}",
    "score": f"MODEL TABLE --suspects {LEDGER} {COMPUTING} {PRINTED}",
    "calibrate": f"MODEL TABLE --beam --device {COLUMNS} {PRINTED}",
    "explain": f"""
        MODEL TEXT --feature --target --tensor --head --heads --edit --beam --set --pad-to --html --overwrite {PRINTED}
    """,
    "neighbors": f"MODEL TOKEN --analogy --side --count {PRINTED}",
    "tokens": f"MODEL TEXT --feature --side --pad-to {PRINTED}",
    "info": f"MODEL {PRINTED}",
    "export": f"MODEL --to --out --precision --check --title {COLUMNS} {PRINTED}",
    "import": "DIR --out --overwrite --quiet",
    "serve": f"MODEL --host --port --allow-origin --text --time-limit --log {COMPUTING} --quiet",
}
"""The arguments and options of each verb. Scripts of users have them."""


def options_in(text: str) -> set[str]:
    """The options that a help lists, one in a line: not those that its descriptions mention."""
    return set(re.findall(r"--[a-z-]+", " ".join(re.findall(r"^│ (--\S+(?: +--\S+)*)", text, re.MULTILINE))))


def test_help_of_every_verb_and_settings_answer_without_torch_and_other_heavy_libraries():
    program = f"""
import sys
from glassformer.cli import main
heavy = {{"torch", "numpy", "pyarrow", "tokenizers", "sacrebleu", "safetensors"}}
def run(commands, *heavy):
    for words in commands:
        sys.argv = ["glassformer", *words]
        try:
            main()
        except SystemExit as left:
            assert left.code in (0, None), (words, left.code)
    assert not {{*heavy}} & sys.modules.keys(), {{*heavy}} & sys.modules.keys()
verbs = ([verb, "--help"] for verb in {[*CONTRACT]!r})
run([["--help"], ["--version"], *verbs], "glassformer.settings", "pydantic", *heavy)
run([["settings"], ["settings", "--json"], ["settings", "dropout"]], *heavy)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("verb", CONTRACT)
def test_a_verb_has_the_options_of_the_contract_and_no_others_and_at_most_24(call, verb):
    words = CONTRACT[verb].split()
    options = {word for word in words if word.startswith("--")}
    answer = call(verb, "-h")
    assert answer.code == 0
    assert options_in(answer.out) == options | {"--help"}
    assert len((options | {"--help"}) - {"--no-header"}) <= 24
    assert set(words) - options <= set(re.findall(r"\b[A-Z]+\b", answer.out))
    lines = call(verb, "-h", columns=80).out.splitlines()  # a name is in one piece and says what it takes, not a type
    assert not [line for line in lines if len(line) > 80 and line.startswith("│")]
    names = [line[2:].split("  ")[0] for line in lines if line.startswith("│ ") and not line.startswith("│  ")]
    assert not [name for name in names if not re.fullmatch(r"(-[\w-]+,? ?)+(\S+( \S+)*)?|\S+", name)]
    assert not re.search(r"<(str|int|bool|float|[Pp]ath|list)\b|\[required\]|\bNone\b", "\n".join(lines))


@pytest.mark.parametrize("verb", CONTRACT)
def test_the_help_ends_with_two_commands_that_the_verb_accepts(verb, monkeypatch):
    monkeypatch.setattr("glassformer.cli.options.local", lambda text, **_: text)  # nothing is fetched
    command = typer.main.get_command(command_line(verb)).commands[verb]
    assert not [each.name for each in command.params if not (each.metavar or getattr(each, "is_flag", False))]
    examples = [shlex.split(line.partition(" > ")[0]) for line in command.epilog.splitlines()]
    assert len(examples) == 2
    for example in examples:
        assert example[:2] == ["glassformer", verb]
        assert command.make_context(verb, example[2:])


def test_the_verbs_are_in_groups_and_the_bare_command_says_what_there_is(call):
    assert re.findall(r"^│ (--\S+)", call("explain", "--help").out, re.MULTILINE)[0] == "--html"
    assert call("--version").out == f"glassformer {version('glassformer')}\n"
    bare = call()
    assert (bare.code, "translate" in bare.out + bare.err) == (2, True)
    groups = re.findall(r"^╭─ ([\w ]+?) ─+╮$(.*?)^╰", call("--help").out, flags=re.MULTILINE | re.DOTALL)
    listed = {title: re.findall(r"^│ ([a-z]+) ", lines, flags=re.MULTILINE) for title, lines in groups}
    assert [*listed] == ["Options", "Data", "Train", "Use", "Look inside", "Ship"]
    assert [verb for title, verbs in listed.items() if title != "Options" for verb in verbs] == [*CONTRACT]
