"""What was decided about a run, in two sentences."""

from __future__ import annotations

from glassformer.evaluation.metrics import metric_name
from glassformer.planning.plan import NO_RACE, Plan
from glassformer.settings import SideSettings
from glassformer.storage.modelfile import count_parameters


def summary_of(planned: Plan) -> tuple[str, str]:
    """Return a sentence on the tokens, and one on the model, its training and the metric that chooses its weights."""
    return _tokens(planned), _training(planned)


def _tokens(planned: Plan) -> str:
    tokens, reasons = planned.settings.tokens, planned.reasons
    source, target = (_kind(side) for side in (tokens.source, tokens.target))
    if planned.init is not None:
        member = ", its first member" if planned.start is not None and planned.start.members else ""
        return f"Tokens and shape of the model are those of {planned.init}{member}."
    whys = [reasons.get(f"tokens.{side}.kind", "").partition(NO_RACE)[0] for side in ("source", "target")]
    whys = [why.removeprefix("character-level: ") for why in whys]
    of_source, of_target = (f": {why}" if why else "" for why in whys)
    if planned.candidates:
        candidates = " and ".join(str(candidate) for candidate, _ in planned.candidates)
        return f"Tokens: {candidates} are tried first; the better one continues."
    if (source, of_source) == (target, of_target):
        return f"Tokens are {source}{of_source}."
    return f"Tokens of the source are {source}{of_source}; of the target, {target}{of_target}."


def _kind(side: SideSettings) -> str:
    has_size = side.kind in ("subwords", "sentencepiece")
    return f"{side.kind} ({side.vocabulary_size:,})" if has_size else side.kind


def _training(planned: Plan) -> str:
    settings, prepared, training = planned.settings, planned.prepared, planned.settings.training
    n_parameters = count_parameters(settings.model, *map(len, prepared.tokenizers))
    size = f"{n_parameters / 1e6:.1f} million" if n_parameters >= 1e6 else f"{n_parameters:,}"
    steps = f"{training.steps:,} steps"
    if training.max_minutes:
        steps = f"up to {steps} or {training.max_minutes:g} minute{'s' * (training.max_minutes != 1)}"
    elif training.patience:
        steps = f"up to {steps}"
    text = f"The model has {size} parameters and trains {steps} on {len(prepared.train):,} rows; "
    if prepared.valid is None:
        return f"{text}the loss on training rows chooses its weights."
    return f"{text}{metric_name(training.metric)} on {len(prepared.valid_pairs):,} held-out rows chooses its weights."
