"""`glassformer tokens` and `info`: what a model makes of a text, and what it is."""

from __future__ import annotations

import json
import re
import string
from pathlib import Path

import numpy as np
import pytest

from glassformer.settings import ModelSettings, Settings, SideSettings, TokenSettings
from glassformer.storage.modelfile import ModelFile, tensor_shapes
from glassformer.text import Tokenizer, ascii68

# FACTS of the character vocabulary: 65 characters in this order, then <sos>, <eos>, <pad>.
CHARACTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase + "-, "
DATE = [65, 1, 6, 7, 6, 62, 1, 1, 62, 3, 0, 66]
ENGLISH = [65, 23, 50, 57, 40, 48, 37, 40, 53, 64, 3, 0, 63, 64, 1, 6, 7, 6, 66]


def empty_model(path: Path, model: ModelSettings, tokenizer: Tokenizer, side: SideSettings) -> Path:
    """A model file whose weights are zeros."""
    settings = Settings(model=model, tokens=TokenSettings(source=side, target=side, shared=True))
    shapes = tensor_shapes(model, len(tokenizer), len(tokenizer))
    tensors = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    ModelFile(settings, tokenizer, tokenizer, tensors).save(path)
    return path


# tokens


@pytest.mark.parametrize(
    ("side", "text", "pad_to", "ids"),
    [
        ("source", "1676-11-30", 0, DATE),
        ("target", "November 30, 1676", 20, [*ENGLISH, 67]),
        ("target", "November 30, 1676", 5, ENGLISH),
        ("source", "", 4, [65, 66, 67, 67]),
    ],
)
def test_tokens_of_the_fixed_vocabulary(call, ascii_run, side, text, pad_to, ids):
    words = ("tokens", ascii_run, text, "--side", side, "--pad-to", pad_to)
    found = json.loads(call(*words, "--json").out)
    written = [CHARACTERS[i] if i < 65 else {65: "<sos>", 66: "<eos>", 67: "<pad>"}[i] for i in ids]
    assert found == {"text": text, "tokens": written, "ids": ids, "unknown": []}
    printed = call(*words).out
    assert [int(line.split()[-1]) for line in printed.splitlines()[2:]] == ids
    assert f"{len(ids)} {side} tokens" in printed


def test_unknown_characters_are_listed_and_special_tokens_stay_text(call, run):
    found = json.loads(call("tokens", run, "1é<eos>", "--json").out)
    assert found["unknown"] == ["é", "<", "e", "o", "s", ">"]
    assert len(found["ids"]) == 9
    assert found["tokens"][0] == "<bos>"
    assert found["tokens"][-1] == "<eos>"
    assert found["tokens"].count("<eos>") == 1


# info


@pytest.mark.parametrize(("bias", "parameters"), [(False, 1_048_576), (True, 1_050_624)])
def test_info_counts_the_parameters_of_one_attention_of_the_paper(tmp_path, call, bias, parameters):
    model = ModelSettings(n_encoder_layers=1, n_decoder_layers=1, attention_bias=bias)
    path = empty_model(tmp_path / "base.safetensors", model, ascii68(), SideSettings(preset="ascii68"))
    facts = json.loads(call("info", path, "--json").out)
    assert facts["parameters"]["one attention"] == parameters
    printed = call("info", path).out
    assert re.search(rf"parameters, one attention +{parameters:,}", printed)
    assert "?: 0 rows, 0 held out" in printed  # a model that says nothing of its training


def test_info_lists_the_26_characters_that_dates_never_use(call, ascii_run):
    never = json.loads(call("info", ascii_run, "--json").out)["never_trained"]
    english = "JanuaryFebruaryMarchAprilMayJuneJulyAugustSeptemberOctoberNovemberDecember, " + string.digits
    assert never["source"] == [character for character in CHARACTERS if character not in string.digits + "-"]
    assert never["target"] == [character for character in CHARACTERS if character not in english]
    assert len(set(never["source"]) & set(never["target"])) == 26
    assert re.search(r"source tokens never trained +54  A B C", call("info", ascii_run).out)


def test_info_prints_what_a_model_is_and_its_parts_add_up(call, run, table):
    parameters = json.loads(call("info", run, "--json").out)["parameters"]
    parts = [parameters[name] for name in ("embeddings and positions", "encoder", "decoder")]
    assert sum(parts) == parameters["all"] == ModelFile.load(run).n_parameters
    answer = call("info", run)
    assert answer.code == 0
    for told in (
        "iso (column 0) → english (column 1)",
        "characters (15) → characters (42)",
        "1 encoder, 1 decoder, pre-norm, sinusoidal positions",
        "d_model 32, d_ff 32, 2 heads of d_k 16, d_v 16",
        f"{table}: 180 rows, 20 held out",
        " of 20 held-out rows",
        "glassformer ",
    ):
        assert told in answer.out


# neighbors


def test_neighbors_are_a_table_or_json(call, run):
    found = json.loads(call("neighbors", run, "1", "--count", 3, "--json").out)
    assert (found["side"], found["query"], len(found["nearest"])) == ("source", ["1"], 3)
    printed = call("neighbors", run, "1", "--count", 3).out.splitlines()
    assert printed[0].startswith("nearest to '1' of ")
    assert [line.split()[1] for line in printed[2:]] == [repr(one["token"]) for one in found["nearest"]]


def test_an_analogy_has_its_expected_token_and_the_query(call, run):
    words = ("neighbors", run, "4", "--side", "target", "--analogy", "2", "1", "3", "--count", 1)
    found = json.loads(call(*words, "--json").out)
    assert [one["token"] for one in found["of_query"]] == ["2", "1", "3"]
    printed = call(*words).out
    (line,) = [line for line in printed.splitlines() if line.rstrip().endswith("  expected")]
    assert line.split()[0] == str(found["expected"]["rank"])
    assert printed.count("in the query") == 3
    assert f"{found['expected']['difference_cosine']:.4f}" in printed.splitlines()[-1]


def test_a_token_without_a_row_is_an_error_that_names_the_nearest(call, run):
    answer = call("neighbors", run, "11")
    assert (answer.code, answer.out) == (1, "")
    assert "did you mean '1'?" in answer.err
    for words, message in (((), "TOKEN"), (("--analogy", "1", "2"), "'--analogy' requires 3 arguments")):
        answer = call("neighbors", run, *words)
        assert (answer.code, answer.out, message in answer.err) == (2, "", True)
