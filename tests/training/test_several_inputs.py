"""Several inputs from Python: mappings as sources, several languages in one model, and models to start from."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from glassformer.data.given import as_table, read_like
from glassformer.data.tables import read_table
from glassformer.errors import UsageError
from glassformer.evaluation.evaluate import evaluate
from glassformer.glassbox.trace import explain
from glassformer.inference.translator import Translator
from glassformer.planning.notices import notices_of
from glassformer.planning.plan import plan
from glassformer.settings import DataSettings
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.weights import build_model
from glassformer.text.inputs import compose
from glassformer.training import Run
from glassformer.training.train import train
from tests.training.test_loop import PAIRS as ONE_INPUT, settings
from tests.untrained import logits_of

LANGUAGES = {"a": {"V;PST": "ed", "V;PRS": "s"}, "b": {"V;PST": "te", "V;PRS": "t"}}
LEMMAS = ("bap", "bok", "dal", "dim", "gup", "gor", "kip", "lam")
PAIRS = [
    ({"lemma": lemma, "tags": tags, "language": language}, lemma + ending)
    for lemma in LEMMAS
    for language, endings in LANGUAGES.items()
    for tags, ending in endings.items()
]
FEATURES = ("tags", "language")


def chosen(**changes):
    steps = {"steps": 60, "validate_every": 60, "learning_rate": 0.02}
    return settings(training=steps, data={"features": FEATURES, "valid_fraction": 0}, **changes)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two languages in one model, with one vocabulary."""
    path = tmp_path_factory.mktemp("languages") / "run"
    one = chosen(model={"tied_embeddings": "all"}, tokens={"shared": True})
    train(PAIRS, one, path, device="cpu").finish()
    return path


@pytest.fixture(scope="module")
def translator(run) -> Translator:
    return Translator.load(run, device="cpu")


def test_score_and_evaluate_take_mappings(translator):
    scores = translator.score(PAIRS[:4])
    right = translator.score([(PAIRS[0][0], PAIRS[0][1]), (PAIRS[2][0], PAIRS[0][1])])
    assert right[0].score == pytest.approx(scores[0].score)
    assert right[0].score > right[1].score + 0.3  # the ending of the other language
    report = evaluate(translator, PAIRS)
    assert (report.rows_scored, report.items) == (32, 32)
    assert all(" · tags: " in example.source for example in report.examples)
    for call in (translator.translate, lambda texts: translator.score([(text, "x") for text in texts])):
        with pytest.raises(UsageError, match="a source has 3 inputs") as caught:
            call([PAIRS[0][0], "bap"])
        assert "row 2" in (caught.value.where or "")


def test_a_trace_tells_the_input_of_each_token(translator):
    trace = explain(translator, {"lemma": "bax", "tags": "V;PST", "language": "b"}, num_beams=2)
    assert trace.passed
    assert (trace.text, trace.inputs) == (
        "bax · tags: V;PST · language: b",
        {"lemma": "bax", "tags": "V;PST", "language": "b"},
    )
    assert [(token.kind, token.input) for token in trace.tokens.source] == [
        ("bos", None),
        *[("ordinary", "lemma")] * 2,
        ("unk", "lemma"),
        *[("input", "tags")] * 2,
        ("input", "language"),
        ("eos", None),
    ]
    assert trace.tokens.source[3].given == "x"
    edited = explain(translator, PAIRS[0][0], edits=["token 6=<language=b>"], num_beams=2)
    assert edited.passed
    assert edited.tokens.source[6].text == "<language=b>"


def test_pairs_without_a_feature_are_in_the_ledger(tmp_path):
    broken = [
        ({"lemma": "x", "tags": "", "language": "a"}, "y"),
        ({"lemma": "", "tags": "V", "language": "a"}, "y"),
        ({"lemma": "x", "tags": "V", "language": "a"}, " "),
    ]
    planned = plan([*PAIRS, *broken], tmp_path / "run", overrides=chosen())
    assert Counter(str(entry.reason) for entry in planned.table.ledger.entries) == {
        "empty feature": 1,
        "empty source": 1,
        "empty target": 1,
    }
    assert (planned.table.ledger.read, planned.table.ledger.kept) == (35, 32)


def test_without_data_features_all_inputs_are_texts(tmp_path):
    planned = plan(PAIRS, tmp_path / "run", overrides={"training.steps": 1})
    assert [one.kind for one in planned.prepared.source_tokenizer.inputs] == ["text"] * 3


def test_pairs_of_a_further_table_have_the_inputs_of_the_first_in_any_order(tmp_path):
    data, table = DataSettings(features=("tags",)), tmp_path / "table.csv"
    first = as_table([({"lemma": "go", "tags": "V"}, "went")], data)
    turned = [({"tags": "V", "lemma": "be"}, "was")]
    assert read_like(first, turned, data).sources == [compose(["be", "V"])]
    table.write_text("lemma,tags,form\ngo,V,went\n", encoding="utf-8")
    from_file = read_table(table, DataSettings(source=("lemma",), features=("tags",), target="form"))
    assert read_like(from_file, turned, data).sources == [compose(["be", "V"])]
    assert read_like(first, [], data).pairs == []


@pytest.mark.parametrize("role", ["valid", "test"])
def test_a_further_table_with_other_inputs_is_an_error(role, tmp_path):
    for pairs, other, got in ((ONE_INPUT, PAIRS, "lemma (text), tags (text)"), (PAIRS, ONE_INPUT, "one text")):
        with pytest.raises(UsageError, match="a table has other inputs than the first") as caught:
            plan(pairs, tmp_path / "run", overrides={"training.steps": 1}, **{role: other})
        assert got in (caught.value.got or "")
    with pytest.raises(UsageError, match="row 1 of the pairs is not a pair"):
        plan([(compose(["bap", "V"]), "x")] * 9, tmp_path / "run", overrides={"training.steps": 1})


# A model to start from


def test_a_model_to_start_from_gets_new_symbols_and_answers_as_before(run, tmp_path):
    new = [({"lemma": f"ж{lemma}", "tags": "V;PST;PL", "language": "c"}, lemma) for lemma in LEMMAS]
    overrides = {"training.steps": 2, "data.features": FEATURES}
    planned = plan([*PAIRS, *new], tmp_path / "run", overrides=overrides, init=run)
    old = ModelFile.load(run)
    source = planned.prepared.source_tokenizer
    tags, language = source.inputs[1:]
    assert (tags.symbols, language.symbols) == (("PRS", "PST", "V", "PL"), ("a", "b", "c"))
    told = [notice.text for notice in notices_of(planned) if notice.kind == "new tokens"]
    assert told[0] == "2 new symbols of features: '<tags=PL>', '<language=c>'"
    assert planned.start is not None
    cells = compose(["bap", "V;PST", "b"])
    with torch.no_grad():
        one, two = (
            logits_of(
                build_model(file),
                torch.tensor([file.source_tokenizer.frame(file.source_tokenizer.encode(cells))]),
                torch.tensor([file.target_tokenizer.frame(file.target_tokenizer.encode("bapte"))]),
            )
            for file in (old, planned.start)
        )
    ids = [
        planned.start.target_tokenizer.vocabulary.lookup(piece) for piece in old.target_tokenizer.vocabulary.ordinary
    ]
    before = list(old.target_tokenizer.vocabulary.ordinary.values())
    torch.testing.assert_close(one[..., before], two[..., ids], rtol=0, atol=1e-5)
    Run(planned, "cpu").finish()
    grown = Translator.load(tmp_path / "run", device="cpu")
    assert grown.translate([{"lemma": "bap", "tags": "V;PST;PL", "language": "c"}])[0].unknown == ()


def test_a_model_to_start_from_asks_for_its_own_columns(run, tmp_path):
    table = tmp_path / "table.csv"
    rows = [(source["language"], target, source["tags"], source["lemma"]) for source, target in PAIRS]
    table.write_text("".join(",".join(row) + "\n" for row in [("language", "target", "tags", "lemma"), *rows]))
    planned = plan(table, tmp_path / "run", overrides={"training.steps": 1}, init=run)
    assert [one.name for one in planned.table.inputs] == ["lemma", "tags", "language"]
    assert planned.settings.data.features == ("tags", "language")


def test_a_model_to_start_from_with_other_inputs_is_an_error(run, tmp_path):
    with pytest.raises(UsageError, match="a source is one text"):
        plan([("a", "b"), ("c", "d")], tmp_path / "run", overrides={"training.steps": 1}, init=run)
    one = tmp_path / "one"
    train(ONE_INPUT, settings(training={"steps": 1}), one, device="cpu").finish()
    with pytest.raises(UsageError, match="this model has one input"):
        plan(PAIRS, tmp_path / "run", overrides={"training.steps": 1, "data.features": FEATURES}, init=one)


def test_a_run_from_a_model_begins_again_with_the_columns_of_its_own_recipe(run, tmp_path):
    table, out = tmp_path / "more.tsv", tmp_path / "run"
    rows = [("lemma", "T", "L", "form"), *((*source.values(), form) for source, form in PAIRS)]
    table.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    given = {"data": {"source": "lemma", "features": ["tags=T", "language=L"], "target": "form"}}
    started = plan(table, out, overrides=given, init=run)
    events = iter(Run(started, "cpu"))
    next(events)
    events.close()  # killed before its first checkpoint
    again = plan(table, out, resume=True)
    assert [notice.kind for notice in notices_of(again) if notice.kind == "no checkpoint"]
    assert again.settings == started.settings
