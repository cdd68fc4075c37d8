"""`--help` answers without torch and names every option of the contract; the bare command says what there is."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

CONTRACT = {
    "demo": "--out --device --seed --quiet --json",
    "audit": """
        TABLE --valid --test --source --feature --target --header --bad-rows --set --html --overwrite --strict
        --drop-duplicates --drop-contradictions --max-length --min-ratio --max-ratio --strip-controls --quiet --json
    """,
    "check": """
        TABLE --source --feature --target --header --bad-rows --valid --recipe --set --init --find --device --precision
        --seed --quiet --json --drop-duplicates --drop-contradictions --max-length --min-ratio --max-ratio
        --strip-controls
    """,
    "split": "TABLE --out --source --feature --target --header --bad-rows --valid --test --seed --quiet --json",
    "train": """
        TABLE --source --feature --target --header --no-header --bad-rows --valid --test --out --recipe --set --init
        --resume
        --overwrite --log --device --precision --seed --quiet --json
        --drop-duplicates --drop-contradictions --max-length --min-ratio --max-ratio
        --strip-controls
    """,
    "translate": """
        MODEL INPUT --out --beam --nbest --column --feature --keep --header --bad-rows --ledger --from --to --prefix
        --prefix-column --scores --alignments --long --ensemble --set --resume --overwrite --on --engine --device
        --precision --seed --quiet --json
    """,
    "evaluate": """
        MODEL TABLE --source --feature --target --header --bad-rows --ledger --overwrite --beam --bleu-tokenize
        --no-group --ensemble --set --engine --device --precision --seed --quiet --json
    """,
    "score": """
        MODEL TABLE --source --feature --target --header --bad-rows --ledger --overwrite --ensemble --device --precision
        --quiet --json
    """,
    "explain": """
        MODEL TEXT --feature --target --tensor --head --heads --edit --beam --set --pad-to --html --overwrite --quiet
        --json
    """,
    "heads": """
        MODEL TABLE --source --feature --target --header --bad-rows --ledger --overwrite --beam --ensemble --set
        --device --precision --quiet --json
    """,
    "tokens": "MODEL TEXT --feature --side --pad-to --json",
    "neighbors": "MODEL TOKEN --analogy --side --count --json",
    "info": "MODEL --json",
    "runs": "--json",
    "settings": "WORD --recipes --json",
    "serve": """
        MODEL --host --port --text --time-limit --workers --log --ensemble --device --precision --quiet
    """,
    "export": """
        MODEL --to --out --precision --check --source --feature --target --header --bad-rows --ensemble --quiet --json
    """,
    "import": "--out --overwrite --quiet",
}


def test_help_of_every_verb_answers_without_torch_and_other_heavy_libraries():
    program = f"""
import sys
from glassformer.cli import main
for verb in ("", {", ".join(map(repr, CONTRACT))}):
    sys.argv = ["glassformer", verb, "--help"] if verb else ["glassformer", "--help"]
    try:
        main()
    except SystemExit as left:
        assert left.code in (0, None), (verb, left.code)
heavy = {{"glassformer.paper.settings", "torch", "numpy", "pyarrow", "tokenizers", "sacrebleu", "safetensors"}}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("verb", CONTRACT)
def test_every_option_of_the_contract_is_there(call, verb):
    answer = call(verb, "--help")
    assert answer.code == 0
    told = set(re.findall(r"--[a-z-]+|\b[A-Z]{4,}\b", answer.out))
    assert set(CONTRACT[verb].split()) <= told
    assert call(verb, "-h").out == answer.out


def test_no_option_is_there_that_the_contract_does_not_know(call):
    for verb, options in CONTRACT.items():
        told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", call(verb, "--help").out))
        assert told <= {*options.split(), "--help", "--no-header", "--set", "--column", "--recipes"}, verb


def test_the_help_lists_all_verbs_and_only_those(call):
    out = call("--help").out
    listed = out[out.index("Commands") :]
    assert re.findall(r"^\W*([a-z]+) ", listed, flags=re.MULTILINE) == [*CONTRACT]


def test_the_bare_command_says_what_there_is(call):
    answer = call()
    assert answer.code == 2
    assert "translate" in answer.out + answer.err


def test_the_version_is_the_installed_one(call):
    from importlib.metadata import version

    assert call("--version").out == f"glassformer {version('glassformer')}\n"


def test_the_module_can_be_run():
    done = subprocess.run(
        [sys.executable, "-m", "glassformer", "--version"], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout.startswith("glassformer ")
