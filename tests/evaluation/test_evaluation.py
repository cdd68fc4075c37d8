"""The report of an evaluation, with a translator that looks its answers up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import sacrebleu

from glassformer.data.given import as_table
from glassformer.data.splits import TrainedSources
from glassformer.data.tables import read_table
from glassformer.errors import SettingsError, TableError
from glassformer.evaluation.evaluate import WorstAnswer, evaluate
from glassformer.settings import DataSettings, DecodingSettings
from glassformer.text.inputs import Cells, Inputs, inputs_of

METRICS = [
    "exact_match", "sequence_error_rate", "token_error_rate", "word_error_rate", "char_error_rate",
    "bleu", "chrf",
]  # fmt: skip


class Answer(NamedTuple):
    text: str
    score: float = -1.0
    finished: bool = True


@dataclass
class LookUp:
    """Answers from a dict; its tokens are phones between blanks."""

    answers: dict[Any, Answer]
    settings: Any = field(default_factory=lambda: SimpleNamespace(decoding=DecodingSettings(num_beams=3)))
    searched_with: list[DecodingSettings] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    where: Sequence[str] | None = None
    inputs: Inputs = ()
    model_file: Any = None
    trained_sources: TrainedSources = field(default_factory=lambda: TrainedSources.of([]))

    @property
    def target_tokenizer(self) -> Any:
        return SimpleNamespace(split=str.split)

    def translate(
        self, texts: Sequence[str], /, *, decoding: DecodingSettings, where: Sequence[str] | None
    ) -> list[Answer]:
        self.searched_with.append(decoding)
        self.texts, self.where = list(texts), where
        return [self.answers[text] for text in texts]


PRONUNCIATIONS = [("serres", "s ɛ ʁ"), ("case", "k ɑ z"), ("star", "s t a ʁ"), ("aube", "o b"), ("jeu", "ʒ ø")]


def speaker() -> LookUp:
    answers = {source: Answer(target, -0.2) for source, target in PRONUNCIATIONS}
    return LookUp(answers | {"case": Answer("k a z", -0.7), "aube": Answer("o b e t", -2.5, finished=False)})


def test_the_json_has_the_agreed_form_and_survives_a_round_trip() -> None:
    search = DecodingSettings(num_beams=2, max_new_tokens=9)
    found = evaluate(speaker(), PRONUNCIATIONS, decoding=search).to_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert list(found) == ["rows", "metrics", "trained_on", "seconds", "decoding", "unfinished", "examples"]
    assert found["rows"] == {"read": 5, "scored": 5, "items": 5, "items_with_several_references": 0}
    assert list(found["metrics"]) == METRICS
    for name, measure in found["metrics"].items():
        with_signature = ["signature"] if name in ("bleu", "chrf") else []
        assert list(measure) == ["value", "low", "high", *with_signature]
        assert 0 <= measure["low"] <= measure["high"] <= (100 if with_signature else 1)
    version = sacrebleu.__version__
    assert found["metrics"]["bleu"]["signature"].endswith(f"tok:13a|smooth:exp|version:{version}")
    expected = f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}"
    assert found["metrics"]["chrf"]["signature"] == expected
    assert found["seconds"] >= 0
    assert found["decoding"] == {
        "num_beams": 2, "num_return_sequences": 1, "length_alpha": 0.6, "max_new_tokens": 9,
        "do_sample": False, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 1,
    }  # fmt: skip
    assert found["unfinished"] == 1
    assert found["examples"][0] == {
        "source": "aube", "target": "o b", "answer": "o b e t", "edits": 2, "score": -2.5, "n_references": 1,
    }  # fmt: skip


def test_the_search_is_the_stated_one_or_else_that_of_the_model() -> None:
    translator, stated = speaker(), DecodingSettings(num_beams=7)
    assert evaluate(translator, PRONUNCIATIONS, decoding=stated).decoding["num_beams"] == 7
    assert evaluate(translator, PRONUNCIATIONS).decoding["num_beams"] == 3
    assert translator.searched_with == [stated, translator.settings.decoding]


def test_examples_are_the_wrong_rows_with_the_most_edits_per_token_first() -> None:
    pairs = [("1", "a b c d"), ("2", "a"), ("3", "a b"), ("4", "a b c"), ("5", "a b c d")]
    answers = ["a b x y", "b", "a b", "a b  c", "x y c d"]
    report = evaluate(LookUp({p[0]: Answer(a) for p, a in zip(pairs, answers, strict=True)}), pairs)
    assert [(example.source, example.edits) for example in report.examples] == [
        ("2", 1), ("1", 2), ("5", 2), ("4", 0),
    ]  # fmt: skip
    assert report.examples[0] == WorstAnswer("2", "a", "b", 1, -1.0)


def test_an_undefined_bleu_is_null_in_the_json_with_the_reason() -> None:
    report = evaluate(LookUp({"1": Answer("one"), "2": Answer("two")}), [("1", "one"), ("2", "two")])
    found = json.loads(json.dumps(report.to_json(), allow_nan=False))["metrics"]
    numbers = dict.fromkeys(("value", "low", "high"))
    assert found["bleu"].items() >= (numbers | {"undefined": "no answer has four tokens"}).items()
    assert found["exact_match"] == {"value": 1, "low": pytest.approx(0.34238, abs=1e-5), "high": 1}  # of Wilson
    assert found["sequence_error_rate"] == {"value": 0, "low": 0, "high": pytest.approx(0.65762, abs=1e-5)}


SOURCES = ["live", "bow", "live", "read", "bow", "read", "cat", "cat"]
TARGETS = ["l ɪ v", "b aʊ", "l aɪ v", "ɹ iː d", "b oʊ", "ɹ ɛ d", "k æ t", "k æ t"]
DICTIONARY = list(zip(SOURCES, TARGETS, strict=True))


def dictionary() -> LookUp:
    answers = {"live": "l aɪ v", "bow": "b oʊ w", "read": "ɹ ɪ d", "cat": "k æ t"}
    return LookUp({source: Answer(text) for source, text in answers.items()})


def test_rows_of_one_source_are_one_item_with_several_references() -> None:
    translator = dictionary()
    table = as_table(DICTIONARY)
    report = evaluate(translator, table)
    assert translator.texts == ["live", "bow", "read", "cat"]
    assert translator.where == [table.locations[row] for row in (0, 1, 3, 6)]
    assert report.to_json()["rows"] == {"read": 8, "scored": 8, "items": 4, "items_with_several_references": 3}
    values = {name: measure.value for name, measure in report.metrics.items()}
    assert values["exact_match"] == pytest.approx(2 / 4)  # "live" is right in its second pronunciation
    assert values["sequence_error_rate"] == pytest.approx(2 / 4)
    assert values["token_error_rate"] == pytest.approx((0 + 1 + 1 + 0) / (3 + 2 + 3 + 3))
    assert values["word_error_rate"] == values["token_error_rate"]
    # In letters "ɹ ɛ d" is nearer than "ɹ iː d", which is of the same distance in phones.
    assert values["char_error_rate"] == pytest.approx((0 + 2 + 1 + 0) / (6 + 4 + 5 + 5))
    answers = ["l aɪ v", "b oʊ w", "ɹ ɪ d", "k æ t"]
    streams = [["l ɪ v", "b aʊ", "ɹ iː d", "k æ t"], ["l aɪ v", "b oʊ", "ɹ ɛ d", None]]
    assert report.metrics["bleu"].undefined == "no answer has four tokens"
    assert values["chrf"] == pytest.approx(sacrebleu.corpus_chrf(answers, streams).score)
    assert all((report.metrics[name].signature or "").startswith("nrefs:var|") for name in ("bleu", "chrf"))


def test_examples_have_the_nearest_of_the_references_as_gold_and_say_how_many_there_are() -> None:
    assert evaluate(dictionary(), DICTIONARY).examples == (
        WorstAnswer("bow", "b oʊ", "b oʊ w", 1, -1.0, n_references=2),
        WorstAnswer("read", "ɹ iː d", "ɹ ɪ d", 1, -1.0, n_references=2),
    )


def test_without_groups_every_row_is_scored_by_itself() -> None:
    translator = dictionary()
    report = evaluate(translator, DICTIONARY, group=False)
    assert (report.rows_scored, report.items, report.items_with_several_references) == (8, 8, 0)
    assert translator.texts == SOURCES
    assert report.metrics["token_error_rate"].value == pytest.approx((1 + 2 + 0 + 1 + 1 + 1 + 0 + 0) / 22)
    assert [example.n_references for example in report.examples] == [1] * 5


def test_what_is_wrong_is_said_before_anything_is_translated() -> None:
    translator = speaker()
    with pytest.raises(TableError, match="there are no rows to score\n  got: 0 read, 0 kept"):
        evaluate(translator, [])
    with pytest.raises(SettingsError, match=r"sacreBLEU has no tokenizer 'inlt'\n  next: did you mean 'intl'\?"):
        evaluate(translator, PRONUNCIATIONS, bleu_tokenize="inlt")
    assert translator.searched_with == []


# Rows that were trained on


def test_rows_whose_source_was_trained_on_are_counted_and_left_out_of_a_second_score():
    pairs = [("a", "1"), ("a", "2"), ("e\u0301", "3"), ("b", "4"), ("c", "5")]
    answers = {"a": Answer("1"), "e\u0301": Answer("3"), "b": Answer("4"), "c": Answer("6")}
    report = evaluate(LookUp(answers, trained_sources=TrainedSources.of(["a", "\u00e9", "z"])), pairs)
    assert report.metrics["exact_match"].value == 0.75
    found = report.trained_on
    assert (found.rows, found.items_without, found.unknown) == (3, 2, "")
    alone = evaluate(LookUp(answers), pairs[3:])
    assert found.metrics_without == alone.metrics
    assert found.metrics_without["exact_match"].value == 0.5
    written = json.loads(json.dumps(report.to_json()))["trained_on"]
    assert written["rows"] == 3
    assert written["metrics_without"]["exact_match"]["value"] == 0.5
    assert "signature" in written["metrics_without"]["bleu"]
    by_row = evaluate(LookUp(answers, trained_sources=TrainedSources.of(["a"])), pairs, group=False)
    assert (by_row.trained_on.rows, by_row.trained_on.items_without) == (2, 3)


def test_without_such_rows_or_without_others_there_is_no_second_score():
    pairs, answers = [("a", "1"), ("b", "2")], {"a": Answer("1"), "b": Answer("2")}
    for sources, rows in (([], 0), (["z"], 0), (["a", "b"], 2)):
        found = evaluate(LookUp(answers, trained_sources=TrainedSources.of(sources)), pairs).trained_on
        assert (found.rows, found.items_without, found.metrics_without) == (rows, 2 - rows, {})
    unknown = evaluate(LookUp(answers, trained_sources=TrainedSources.none("no file")), pairs).trained_on
    assert (unknown.rows, unknown.unknown) == (0, "no file")


def test_what_has_columns_is_scored_as_a_table(tmp_path):
    rows = [{"word": source, "pron": target} for source, target in PRONUNCIATIONS] + [{"word": "", "pron": "x"}]
    right = {source: Answer(target) for source, target in PRONUNCIATIONS}
    model_file = SimpleNamespace(source_tokenizer=SimpleNamespace(inputs=()), data=SimpleNamespace(columns=None))
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for given in (rows, path, str(path), read_table(path, DataSettings())):
        translator = LookUp(right, model_file=model_file)
        report = evaluate(translator, given)
        assert (report.rows_read, report.rows_scored, report.metrics["exact_match"].value) == (6, 5, 1)
    turned = LookUp({target: Answer(source) for source, target in PRONUNCIATIONS}, model_file=model_file)
    assert evaluate(turned, rows, data={"source": "pron", "target": "word"}).metrics["exact_match"].value == 1


def test_a_table_is_read_with_the_inputs_of_the_model():
    inputs = inputs_of(["lemma"], ["tags"])
    model_file = SimpleNamespace(source_tokenizer=SimpleNamespace(inputs=inputs), data=SimpleNamespace(columns=None))
    rows = [{"tags": "V;PST", "form": "walked", "lemma": "walk"}, {"lemma": "go", "form": "goes", "tags": ""}]
    translator = LookUp({Cells(["walk", "V;PST"]): Answer("walked")}, inputs=inputs, model_file=model_file)
    report = evaluate(translator, rows)
    assert (report.rows_read, report.rows_scored, report.metrics["exact_match"].value) == (2, 1, 1)
