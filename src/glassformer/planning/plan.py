"""The plan of a run: every decision before it begins.

    planned = plan("pairs.csv", "run")      planned.settings, .choices, .prepared
    for event in Run(planned): ...          nothing is written before the first event

`train(…)` is the short form. Command line and Python get the same answers and refusals from here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.cleaning import clean
from glassformer.data.column_settings import settings_of, settings_of_model
from glassformer.data.corpus import Tokenizers
from glassformer.data.given import Given, read_given, read_like
from glassformer.data.prepare import Prepared, prepare
from glassformer.data.splits import TrainedSources
from glassformer.data.tables import Table
from glassformer.errors import SettingsError, TextError, UsageError, counted
from glassformer.evaluation.metrics import has_four_tokens
from glassformer.inference.encoding import encode_sources
from glassformer.planning.advise import Candidate, Choice, advise
from glassformer.planning.grow import grow_model, new_token_texts
from glassformer.planning.memory import check_training_fits
from glassformer.planning.recipes.overrides import check_settings, flat, merge, nested
from glassformer.planning.resume import Beginning, Notice, Resumed, check_tables, differences, resumed_beginning
from glassformer.runtime.processes import Processes
from glassformer.settings import DataSettings, Settings
from glassformer.storage.hub import local_model
from glassformer.storage.modelfile import ModelFile, tokenizers_from_dict, tokenizers_to_dict
from glassformer.storage.rundirectory import RunDirectory
from glassformer.text.inputs import listed

SET_BY_USER, NO_RACE = "set by you", "; no race: "  # in reasons
MIN_RACE_ROWS, MIN_RACE_STEPS = 100, 1_000  # of held-out rows and steps that tell candidates apart


@dataclass(frozen=True)
class Plan:
    """A run before it begins. `settings` are complete; `start` is the model to start from, read from `init`.

    `resumed` is what a resumed run of one model continues from; `members` is the number of models. `decided` are the
    notices about these decisions (`notices_of` adds notices about the tables). `candidates` are what is raced before,
    each a plan of its own, the first one with the settings of this one; none where nothing is raced.
    """

    settings: Settings
    choices: tuple[Choice, ...]
    prepared: Prepared
    directory: RunDirectory
    table: Table
    valid: Table | None = None
    test: Table | None = None
    start: ModelFile | None = None
    init: str | None = None
    resumed: Resumed | None = None
    decided: tuple[Notice, ...] = ()
    members: int = 1
    overwrite: bool = False
    processes: Processes = field(default_factory=Processes)
    candidates: tuple[tuple[Candidate, Plan], ...] = ()

    @property
    def reasons(self) -> dict[str, str]:
        """The reason of each choice, by the full name of its setting."""
        return {choice.setting: choice.reason for choice in self.choices}


def plan(
    pairs: Given,
    out: str | Path = "run",
    *,
    overrides: Settings | Mapping[str, Any] | None = None,
    valid: Given | None = None,
    test: Given | None = None,
    init: str | Path | None = None,
    members: int = 1,
    resume: bool = False,
    overwrite: bool = False,
) -> Plan:
    """Decide everything about a run on these pairs. Writes nothing, but finishes an interrupted move of an old run.

    `overrides` are settings over what is advised, nested or by full name (`{"training.steps": 500}`), or complete
    Settings. `valid` replaces the held-out rows; `test` is evaluated on at the end. `init` is a model whose weights,
    tokenizers and shape are the start (in a file with members, the first one); characters or words that it lacks are
    added to its vocabulary. `resume` continues the run in `out` with the same pairs and its own recipe; `overrides` can
    change `planning.resume.CHANGEABLE` in it. A run without a checkpoint begins again, with its recipe.
    `members` are resumed with the settings that they were begun with.

    Under `torchrun` every process decides for itself, and all must agree. After a restart the run is resumed from its
    newest checkpoint.

    Raises RunError for `out`, TableError and ColumnError for tables, SettingsError for settings, UsageError for
    arguments that exclude each other, TextError for test rows that the model would not take.
    """
    processes, directory = Processes.join(), RunDirectory(Path(out))
    if processes.is_first:
        directory.finish_move()
    if processes.has_restarted:
        resume = processes.from_first(resume or directory.resume.exists())
        init, overwrite = (None, False) if resume else (init, True)
    if isinstance(overrides, Settings):  # over which nothing is advised
        complete, fixed = overrides, overrides.model_dump(exclude_unset=True)
    else:  # an error before a long table is read
        complete, fixed = None, check_settings(nested(overrides or {}))

    def decide() -> Plan:
        if resume:
            beginning = resumed_beginning(directory, fixed, members, processes, replaces=init is not None or overwrite)
        else:
            if processes.is_first:
                directory.check_free(overwrite=overwrite)
            beginning = Beginning(fixed, complete, init, overwrite=overwrite)
        return _decide(directory, beginning, processes, pairs=pairs, valid=valid, test=test, members=members)

    return decide() if processes.count == 1 else processes.agree(decide, _in_common)


def _decide(
    directory: RunDirectory,
    beginning: Beginning,
    processes: Processes,
    *,
    pairs: Given,
    valid: Given | None,
    test: Given | None,
    members: int,
) -> Plan:
    """Read the tables, settle the settings, and prepare the rows of a run."""
    start = None if beginning.init is None else ModelFile.load(local_model(beginning.init))
    settled = _settled_by(start, beginning)
    table, overrides = _read_table(pairs, merge(beginning.overrides, settled), start)
    data = DataSettings(**overrides.get("data", {}))
    valid_table = None if valid is None else read_like(table, valid, data)
    test_table = None if test is None else read_like(table, test, data)
    settings, choices, candidates = _settings(table, beginning, overrides, settled)
    check_training_fits(settings, "cpu")  # before rows are prepared for it
    if beginning.resumed is not None:
        saved = beginning.resumed.saved
        check_tables(saved, table, valid_table, directory.resume)
        tokenizers: Tokenizers | None = tokenizers_from_dict(saved.tokenizers)
        earlier = TrainedSources.load(directory.sources) if directory.sources.exists() else None
    else:
        tokenizers = _tokenizers_of(start, table)
        earlier = None if start is None else TrainedSources.of_model(start.path, start.data.sources_digest)
    prepared = prepare(table, settings, valid_table, tokenizers, test_table, earlier, grow=start is not None)
    notices = list(beginning.notices)
    if start is not None:
        notices += [Notice("new tokens", text, table.path) for text in new_token_texts(start, prepared.tokenizers)]
        start = grow_model(start, *prepared.tokenizers)
    _check_test(test_table, prepared, settings)
    if not beginning.is_resumed:
        _check_metric(settings, prepared, table if valid_table is None else valid_table)
    planned = Plan(
        settings,
        choices,
        prepared,
        directory,
        table,
        valid_table,
        test_table,
        start=start,
        init=None if beginning.init is None else str(beginning.init),
        resumed=beginning.resumed,
        decided=tuple(notices),
        members=members,
        overwrite=beginning.overwrite,
        processes=processes,
    )
    return _with_candidates(planned, candidates, overrides) if len(candidates) > 1 else planned


def _with_candidates(planned: Plan, candidates: Sequence[Candidate], overrides: Mapping[str, Any]) -> Plan:
    """Add the candidates of a race, where they can be told apart, and are trained by one process into one model."""
    n_rows, plans = len(planned.prepared.valid_pairs), [(candidates[0], planned)]
    obstacles = {
        f"{counted(n_rows, 'held-out row')} are too few (it needs {MIN_RACE_ROWS})": n_rows < MIN_RACE_ROWS,
        f"training.steps are fewer than {MIN_RACE_STEPS:,}": planned.settings.training.steps < MIN_RACE_STEPS,
        "members share one recipe": planned.members > 1,
        "several processes share one model": planned.processes.count > 1,
    }
    why = next((reason for reason, holds in obstacles.items() if holds), "")
    for candidate in candidates[1:] if not why else ():
        advice = advise(planned.table.pairs, overrides, planned.table.inputs, candidate)
        settings = Settings(**merge(advice.settings, overrides))
        prepared = prepare(planned.table, settings, planned.valid, None, planned.test)
        choices = tuple(_choices(advice.choices, overrides, has_start=False))
        try:
            _check_test(planned.test, prepared, settings)
        except TextError:
            why = f"{candidate} cannot read all rows to test on"
        else:
            plans.append((candidate, replace(planned, settings=settings, choices=choices, prepared=prepared)))
    if len(plans) > 1:
        return replace(planned, candidates=tuple(plans))
    reasoned = (
        replace(choice, reason=f"{choice.reason}{NO_RACE}{why}") if _is_raced(choice.setting) else choice
        for choice in planned.choices
    )
    return replace(planned, choices=tuple(reasoned))


def raced_settings(planned: Plan) -> list[str]:
    """Return the full names of the settings of tokens and model in which the candidates of a race differ."""
    first, *other_settings = (plan.settings for _, plan in planned.candidates)
    names = {name for other in other_settings for name in differences(first, other)}
    return list(filter(_is_raced, names))


def _is_raced(setting: str) -> bool:
    return setting == "model.copy_mechanism" or setting.endswith(".kind")


def _in_common(planned: Plan) -> dict[str, str]:
    """Return what all processes of a run must have in common."""
    tokenizers = json.dumps(tokenizers_to_dict(*planned.prepared.tokenizers), sort_keys=True)
    position = planned.resumed.saved.position if planned.resumed else None
    start, tensors = hashlib.sha256(), planned.start.tensors if planned.start else {}
    for name in sorted(tensors):
        start.update(np.ascontiguousarray(tensors[name]).data)
    return {
        "versions": f"glassformer {version('glassformer')}, torch {version('torch')}",
        "rows": planned.prepared.fingerprint[:12],
        "settings": hashlib.sha256(planned.settings.model_dump_json().encode()).hexdigest()[:12],
        "tokens": hashlib.sha256(tokenizers.encode()).hexdigest()[:12],
        "checkpoints": f"step {position.step:,}, {position.seconds:.3f} s" if position else "",
        "models to start from": start.hexdigest()[:12],
    }


# Settings


def _settings(
    table: Table, beginning: Beginning, overrides: Mapping[str, Any], settled: Mapping[str, Any]
) -> tuple[Settings, tuple[Choice, ...], tuple[Candidate, ...]]:
    """Return the settings of a run, the choices that are advised from its table, and what may be raced."""
    if beginning.resumed is not None:
        return Settings(**overrides), (), ()
    if beginning.complete is not None:
        return Settings(**merge(beginning.complete.model_dump(), settled, {"data": overrides.get("data", {})})), (), ()
    advice = advise(table.pairs, overrides, table.inputs)
    choices = _choices(advice.choices, overrides, has_start=bool(settled))
    return Settings(**merge(advice.settings, overrides)), tuple(choices), () if settled else advice.candidates


def _settled_by(start: ModelFile | None, beginning: Beginning) -> dict[str, Any]:
    """Return the tokens and the shape of the model to start from. Raises UsageError when other ones are set."""
    if start is None:
        return {}
    settled = start.settings.model_dump(include={"tokens", "model"})
    for section, settings in settled.items():
        if merge(settings, beginning.overrides.get(section, {})) != settings:
            what = f"the model to start from has other settings in {section!r}, which cannot change"
            hint = f"leave out every setting {section}.…, or train without init"
            raise UsageError(what, where=str(beginning.init), hint=hint)
    return settled


def _tokenizers_of(start: ModelFile | None, table: Table) -> Tokenizers | None:
    """The tokenizers of the model to start from. Raises UsageError when the table has other inputs than the model."""
    if start is None:
        return None
    inputs = start.source_tokenizer.inputs
    if [input_.kind for input_ in inputs] != [input_.kind for input_ in table.inputs]:
        what, got, expected = "the model has other inputs than the table", listed(table.inputs), listed(inputs)
        raise UsageError(what, where=table.path, got=got or "one text", expected=expected or "one text")
    return start.source_tokenizer, start.target_tokenizer


def _choices(advised: Iterable[Choice], overrides: Mapping[str, Any], *, has_start: bool) -> list[Choice]:
    """Return the choices, advised or given, with their reasons; a model to start from fixes tokens and shape."""
    values = flat(overrides)
    choices = []
    for choice in advised:
        if has_start and choice.setting.startswith(("tokens.", "model.")):
            continue
        if choice.setting in values:
            reason = f"{SET_BY_USER} (advice: {choice.value})"
            choices.append(Choice(choice.setting, values.pop(choice.setting), reason, set_by_user=True))
        else:
            choices.append(choice)
    fixed = {} if has_start else values
    return choices + [Choice(name, value, SET_BY_USER, set_by_user=True) for name, value in fixed.items()]


# Tables


def _read_table(pairs: Given, overrides: dict[str, Any], start: ModelFile | None) -> tuple[Table, dict[str, Any]]:
    """Read and clean the table to train on, and return the settings with the columns of a model to start from.

    Tables to validate or test on are never cleaned.
    """
    data = DataSettings(**overrides.get("data", {}))
    if start is None:
        return clean(read_given(pairs, data), data), overrides
    fields = {name: value for name, value in overrides.get("data", {}).items() if value not in (None, (), [])}
    data = settings_of_model(start.source_tokenizer.inputs, start.data.columns, fields)
    table = clean(read_given(pairs, data, start.data.columns), data)
    columns = {} if table.taken is None else settings_of(table.taken)
    return table, {**overrides, "data": {**data.model_dump(exclude_unset=True), **columns}}


def _check_test(test: Table | None, prepared: Prepared, settings: Settings) -> None:
    """Raise TextError for a row to test on that the model would not take."""
    if test is not None:
        encode_sources(test.sources, test.locations, prepared.source_tokenizer, settings)


def _check_metric(settings: Settings, prepared: Prepared, table: Table) -> None:
    targets = [pair.target for pair in prepared.valid_pairs]
    if settings.training.metric == "bleu" and targets and not has_four_tokens(targets):
        what = "training.metric bleu is undefined here: no held-out target has four tokens"
        raise SettingsError(what, where=table.path, hint="--set training.metric=exact_match, or chrf")
