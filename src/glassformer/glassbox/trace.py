"""Every number behind one translation: `explain(model, text) -> Trace`.

The reference runs with a recorder, greedy and beam search keep their losers, edits are made and compared with what was
before, and everything that was written down is redone and compared with the fast path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.data.pairs import check_text
from glassformer.engines.torch import TorchEngine, build_model
from glassformer.errors import UsageError, quoted
from glassformer.glassbox.catalogue import GOLD
from glassformer.glassbox.checks import check
from glassformer.glassbox.evidence import correlate, gradient_times_input, occlude
from glassformer.glassbox.history import errors_of, training_of
from glassformer.glassbox.recorder import Recorder
from glassformer.glassbox.run import Ids, Run
from glassformer.glassbox.schema import (
    Check,
    Difference,
    Evidence,
    Outputs,
    Prediction,
    Search,
    Searches,
    Tensor,
    Tokens,
    Trace,
)
from glassformer.glassbox.subject import Subject, tensors_of
from glassformer.glassbox.whatif import Edit, Edits, attentions, parse_edit
from glassformer.model import Transformer
from glassformer.modelfile import ModelFile, find_model
from glassformer.settings import DecodingSettings
from glassformer.translator import Translator

TOP = 10  # likeliest tokens of a prediction
MOST_BEAMS, MOST_POSITIONS = 1_000, 1_000  # that a trace can hold
RELATIVE, ABSOLUTE = 1e-5, 1e-4  # of logits in float32
SCORE = 1e-3  # of a sum of log-probabilities in float32


def explain(
    model: Translator | ModelFile | str | Path,
    text: str,
    *,
    target: str | None = None,
    edits: Sequence[Edit | str] = (),
    decoding: DecodingSettings | None = None,
    evidence: bool = True,
    weights: bool = False,
    history: bool | str | Path = False,
    numbers_as_text: bool = False,
    pad_to: int = 0,
    **options: Any,
) -> Trace:
    """Open the translation of `text`: every number on its way, checked.

    `target` adds the same for a given target, teacher-forced, with its loss. `edits` are made first, and compared with
    what was before. `options` are fields of DecodingSettings over `decoding`, by default the model's own; answers are
    searched, never sampled. `weights` puts the weights into the trace, `history` what a run directory remembers of its
    training: the directory of `model` where that is a path, or one that is named, of a model that is loaded already.
    `pad_to` pads the source, to show that padding changes nothing.

    Raises TextError for a text that the model does not take, UsageError for edits that do not fit, for a beam of more
    than MOST_BEAMS and a source padded to more than MOST_POSITIONS.
    """
    check_text(text, "text to explain")
    if target is not None:
        check_text(target, "target")
    if isinstance(edits, str):
        raise UsageError("the edits come as a list", got=quoted(edits), hint="edits=[edit]")
    subject = _subject(model, text, decoding, options, pad_to)
    changes = Edits(tuple(parse_edit(edit) if isinstance(edit, str) else edit for edit in edits))
    changes.check(subject.file.settings.model)
    run = subject.run(changes)
    searches = _search(subject, run)
    fed, asked = subject.rows_of(searches.beam.answers[0])
    changes.check_rows(len(run.ids), len(fed))
    gold = None if target is None else subject.rows_of_target(target)
    recorder = run.record(fed, gold, subject.file.settings.training.label_smoothing)

    tokens = Tokens(
        source=subject.source_tokens(run.ids),
        target_in=subject.tokens("target", fed),
        target_out=subject.tokens("target", asked),
        gold_in=None if gold is None else subject.tokens("target", gold[0]),
        gold=None if gold is None else subject.tokens("target", gold[1], target),
    )
    axes = subject.axes(tokens)
    tensors = tensors_of(recorder, axes, as_text=numbers_as_text)
    named_weights = subject.named_weights(run)
    if weights:
        for name, (array, names) in named_weights.items():
            tensors[name] = Tensor.of(array, list(names), "weight", text=numbers_as_text)
    fast = _Fast(subject, run)
    found = None
    if evidence:
        measured, found = _evidence(subject, run, fast, recorder, fed, asked)
        for name, numbers in measured.items():
            tensors[name] = Tensor.of(numbers, ["target", "source_key"], "given", text=numbers_as_text)
    trace = Trace(
        text=text,
        translation=searches.beam.answers[0].text,
        target=target,
        provenance=subject.provenance(),
        tokens=tokens,
        vocabularies=subject.vocabularies(),
        axes=axes,
        tensors=tensors,
        steps=recorder.steps,
        predictions=_predictions(subject, recorder, asked, gold),
        search=searches,
        evidence=found,
        edits=[str(edit) for edit in changes.edits],
        difference=_difference(subject, run, searches) if changes.edits else None,
        checks=[],
    )
    folder = find_model(model).parent if history is True and isinstance(model, str | Path) else history
    if isinstance(folder, str | Path):
        folder = Path(folder)
        trace = replace(trace, training=training_of(folder, subject), errors=errors_of(folder))
    checks = [*check(trace, named_weights), fast.check_logits(recorder, fed), fast.check_search(searches)]
    return replace(trace, checks=checks)


def _subject(
    model: Translator | ModelFile | str | Path,
    text: str,
    decoding: DecodingSettings | None,
    options: dict[str, Any],
    pad_to: int,
) -> Subject:
    name = "a model in memory"
    if isinstance(model, str | Path):
        name, model = str(find_model(model)), ModelFile.load(model)
    translator = model if isinstance(model, Translator) else Translator(model, device="cpu")
    base = decoding or translator.settings.decoding
    chosen = base.override(options | {"do_sample": False})
    for name_of, number, most in (("beam", chosen.num_beams, MOST_BEAMS), ("padded source", pad_to, MOST_POSITIONS)):
        if number > most:
            raise UsageError(
                f"the {name_of} is too large to be explained", got=quoted(number), expected=f"at most {most}"
            )
    return Subject(translator, name, text, chosen, pad_to)


def _search(subject: Subject, run: Run) -> Searches:
    space, tokenizer = subject.space(run.edits), subject.file.target_tokenizer
    greedy = run.search(space, tokenizer, subject.decoding, 1)
    width = subject.decoding.num_beams
    return Searches(greedy, greedy if width == 1 else run.search(space, tokenizer, subject.decoding, width))


def _predictions(
    subject: Subject, recorder: Recorder, asked: Ids, gold: tuple[Ids, Ids] | None
) -> dict[str, list[Prediction]]:
    """For each tensor of logits, what every row of it predicts."""
    pieces = subject.file.target_tokenizer.vocabulary.pieces
    found = {}
    for name, logits in recorder.arrays.items():
        if name.rpartition(".")[2] == "logits":
            wanted = gold[1] if gold is not None and name.startswith(GOLD) else asked
            found[name] = [_prediction(*row, pieces) for row in zip(logits, wanted, strict=True)]
    return found


def _prediction(logits: NDArray[np.float64], asked: int, pieces: Sequence[str]) -> Prediction:
    order = np.argsort(-logits, kind="stable")
    shares = np.exp(logits - np.logaddexp.reduce(logits))
    top = [(token, pieces[token], float(shares[token])) for token in order[:TOP].tolist()]
    rank = int((logits > logits[asked]).sum()) + 1
    margin = float(logits[order[0]] - logits[order[1]]) if len(order) > 1 else 0.0
    return Prediction(top, rank, margin)


def _difference(subject: Subject, run: Run, after: Searches) -> Difference:
    """What the edits changed: searches before and after, and each tensor when the decoder is fed the answer before."""
    plain = subject.run(Edits())
    before = _search(subject, plain)
    fed, _ = subject.rows_of(before.beam.answers[0])
    one, other = plain.record(fed).arrays, run.record(fed).arrays
    largest = {
        name: float(np.abs(np.asarray(other[name], float) - np.asarray(array, float)).max(initial=0.0))
        for name, array in one.items()
    }
    return Difference(_outputs(before.greedy, after.greedy), _outputs(before.beam, after.beam), largest)


def _outputs(before: Search, after: Search) -> Outputs:
    one, other = before.answers[0], after.answers[0]
    tokens = [[*answer.ids, *([-1] if answer.finished else [])] for answer in (one, other)]
    pairs = enumerate(zip_longest(*tokens))
    return Outputs(one, other, next((step for step, (left, right) in pairs if left != right), None))


def _evidence(
    subject: Subject, run: Run, fast: _Fast, recorder: Recorder, fed: Ids, asked: Ids
) -> tuple[dict[str, NDArray[np.float64]], Evidence]:
    """Cross-attention (mean over layers and heads), occlusion and gradient times input, and how they agree."""
    cross = [name for name in attentions(run.model) if name.endswith(".cross")]
    vocabulary = subject.file.source_tokenizer.vocabulary
    counts = subject.file.data.source_counts
    unknown = vocabulary.unk_id
    if unknown is not None and not (unknown < len(counts) and counts[unknown]):
        unknown = None  # its embedding was never trained, so that it means nothing

    def score(ids: Ids, visible: NDArray[np.bool_]) -> NDArray[np.float64]:
        return replace(run, ids=tuple(ids), visible=visible).token_scores(fed, asked)

    measured = {
        "evidence.attention": np.mean([recorder.arrays[f"{name}.weights"].mean(axis=0) for name in cross], axis=0),
        "evidence.occlusion": occlude(score, run.ids, run.visible, unknown),
        "evidence.gradient": gradient_times_input(fast.model, run.ids, run.visible, fed, asked),
    }
    attention = measured["evidence.attention"]
    return measured, Evidence(
        attention="evidence.attention",
        occlusion="evidence.occlusion",
        gradient="evidence.gradient",
        occluded_by="mask" if unknown is None else vocabulary.pieces[unknown],
        gradient_before_edits=not run.edits.fit_the_fast_path,
        correlations={name: correlate(attention, measured[f"evidence.{name}"]) for name in ("occlusion", "gradient")},
    )


class _Fast:
    """The model as it translates: in PyTorch, in float32, with those edits that text and weights can carry."""

    def __init__(self, subject: Subject, run: Run) -> None:
        self.subject, self.run = subject, run
        tensors = run.edits.weights(subject.file.tensors, run.model)
        self.model: Transformer = build_model(replace(subject.file, tensors=tensors))

    def check_logits(self, recorder: Recorder, fed: Ids) -> Check:
        """The recorded logits against those of the fast path, within 1e-5 relative + 1e-4."""
        if not self.run.edits.fit_the_fast_path:
            return _unchecked("logits")
        with torch.inference_mode():
            source, visible = torch.tensor([self.run.ids]), torch.from_numpy(self.run.visible)[None]
            logits = self.model(source, visible, torch.tensor([list(fed)]))[0].double().numpy()
        recorded = recorder.arrays["logits"]
        difference = np.abs(logits - recorded)
        allowed = RELATIVE * np.abs(recorded) + ABSOLUTE
        worst = np.unravel_index(np.argmax(difference / allowed), difference.shape)
        largest, tolerance = float(difference[worst]), float(allowed[worst])
        return Check("logits", "fast path", largest, tolerance, largest <= tolerance, "PyTorch in float32")

    def check_search(self, searches: Searches) -> Check:
        """The answer of the trace against that of `translate`."""
        if not self.run.edits.fit_the_fast_path:
            return _unchecked("answer")
        subject, edits = self.subject, self.run.edits
        space = subject.space(edits)
        ids = edits.source_ids(subject.source_ids, subject.file.source_tokenizer)
        engine = TorchEngine.of([self.model], subject.file.target_tokenizer, torch.device("cpu"))
        found = engine.search([ids], subject.decoding, space.max_new_tokens, space.prefixes)[0][0]
        answer = searches.beam.answers[0]
        largest = abs(found.score - answer.score)
        same = list(found.ids) == answer.ids and found.finished == answer.finished
        note = "the same tokens" if same else f"the fast path says {subject.file.target_tokenizer.decode(found.ids)!r}"
        return Check("answer", "search", largest, SCORE, same and largest <= SCORE, note)


def _unchecked(step: str) -> Check:
    kind: Literal["fast path", "search"] = "fast path" if step == "logits" else "search"
    return Check(step, kind, 0.0, 0.0, None, "the fast path cannot make these edits")
