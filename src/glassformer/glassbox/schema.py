"""The format of a trace: `glassformer-trace/1`. docs/trace-schema.md describes it.

`trace-1.schema.json` in this folder is made from these dataclasses. No number of a trace is infinite or NaN.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from glassformer.errors import ModelFileError, first_fault
from glassformer.glassbox.run_records import Errors, HeadEffects, Strict, TrainingRecord
from glassformer.storage.files import shown

FORMAT: Literal["glassformer-trace/1"] = "glassformer-trace/1"

DataType = Literal["float32", "int32", "uint8"]
TokenKind = Literal["ordinary", "input", "pad", "bos", "eos", "unk"]
NodeState = Literal["kept", "finished", "pruned"]
Op = Literal[
    "embed",
    "sinusoids",
    "multiply",
    "add",
    "divide",
    "project_heads",
    "linear",
    "matmul",
    "matmul_transposed",
    "softmax",
    "concatenate_heads",
    "mean",
    "variance",
    "layer_norm",
    "relu",
    "gelu",
    "swish",
    "add_copies",
    "log_softmax",
    "smooth_targets",
    "cross_entropy",
    "overwrite",
]
OPS: tuple[str, ...] = get_args(Op)
"""The closed set: a trace has no step of another kind."""

MASK_REASONS = ("open", "causal", "source padding", "target padding")
"""The meaning of the codes 0, 1, 2, 3 in the cells of a mask. Only 0 may be attended to."""


@dataclass(frozen=True)
class Provenance(Strict):
    """The model, and the settings of its search.

    `model_hash` is the SHA-256 over names, shapes and bytes of the tensors, before any edit; `data_hash` the
    fingerprint of the pairs that were trained on. `computed_in` is the type of the arithmetic, tensors are stored as
    float32. `decoding` has the settings of the search with all defaults filled in. `columns` are the names of
    source and target in the table that was trained on, `members` the number of models in the file: the first is traced.
    """

    model: str
    model_hash: str
    data_hash: str | None
    settings: dict[str, Any]
    metrics: dict[str, Any]
    decoding: dict[str, Any]
    mode: Literal["eval"]
    computed_in: Literal["float64"]
    seed: int
    versions: dict[str, str]
    columns: list[str] = field(default_factory=lambda: ["source", "target"])
    members: int = 1


@dataclass(frozen=True)
class Token(Strict):
    """One position. `count`: how often the token is in the training data, if the model file has it.

    `given` are the characters of the text that became `<unk>`. In a source with several inputs `input` is the name of
    its input, and the kind "input" is that of a symbol of a feature, and of the start of a text after the first.
    """

    id: int
    text: str
    kind: TokenKind
    count: int | None = None
    given: str | None = None
    input: str | None = None


@dataclass(frozen=True)
class Tokens(Strict):
    """Row t of the decoder is fed `target_in[t]`; its target is `target_out[t]`.

    `gold_in` and `gold` are the same for the gold target, if there is one.
    """

    source: list[Token]
    target_in: list[Token]
    target_out: list[Token]
    gold_in: list[Token] | None = None
    gold: list[Token] | None = None


@dataclass(frozen=True)
class TraceVocabulary(Strict):
    """The pieces of a side are the labels of `axis`; `counts` is empty if the model file has none.

    `specials` are the ids of "pad", "bos", "eos" and, if there is one, "unk", however they are written. `inputs` are
    the ids of the tokens of the kind "input", `seen` the values of `text.seen.Seen`, if the model file has them.
    `tokenizer` is that of the model file, without its pieces; merges and scores are in it where the weights are in the
    trace, and what splits a text into the tokens of SentencePiece is not.
    """

    axis: str
    specials: dict[str, int]
    counts: list[int]
    tokenizer: dict[str, Any]
    inputs: list[int] = field(default_factory=list)
    seen: dict[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Axis(Strict):
    """An axis of tensors. `labels` is empty if its positions are only numbered, from 0.

    Rows of the decoder have two: `labels` are the tokens fed, `predicted` the target tokens.
    """

    length: int
    title: str
    labels: list[str] = field(default_factory=list)
    predicted: list[str] | None = None


@dataclass(frozen=True)
class Tensor(Strict):
    """Numbers with named axes; a scalar has none.

    `data` is base64 of the little-endian numbers, row by row. `origin`: computed by a step, a weight of the model, or
    given from outside.
    """

    axes: list[str]
    dtype: DataType
    data: str
    origin: Literal["step", "weight", "given"]

    @classmethod
    def of(cls, array: NDArray[Any], axes: list[str], origin: Literal["step", "weight", "given"]) -> Tensor:
        """The tensor of an array; booleans and integers keep their kind, all others become float32.

        Raises ModelFileError for a number that is not finite.
        """
        kinds: dict[str, DataType] = {"b": "uint8", "u": "uint8", "i": "int32"}
        dtype = kinds.get(array.dtype.kind, "float32")
        with np.errstate(over="ignore"):
            stored = np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<"))
        if dtype == "float32" and not np.isfinite(stored).all():
            raise ModelFileError(
                "the model computes numbers that are too large to be shown",
                expected="finite float32",
                hint="its weights are too large: train again with a smaller training.learning_rate",
            )
        return cls(axes, dtype, base64.b64encode(stored.tobytes()).decode("ascii"), origin)

    def array(self, axes: dict[str, Axis]) -> NDArray[Any]:
        """The numbers, in the shape given by the axes of the trace."""
        dtype = np.dtype(self.dtype).newbyteorder("<")
        shape = [axes[name].length for name in self.axes]
        return np.frombuffer(base64.b64decode(self.data), dtype).reshape(shape)


@dataclass(frozen=True)
class Step(Strict):
    """`output` = `op`(`inputs`, `attributes`). All but `op`, `inputs` and `attributes` is for people.

    `id` is the name of the output. `formula` is MathML, `section` that of the paper.
    """

    id: str
    op: Op
    inputs: list[str]
    output: str
    attributes: dict[str, float]
    title: str
    words: str
    formula: str
    section: str


@dataclass(frozen=True)
class Node(Strict):
    """A candidate of a search. `parent` is None in the first step, where all follow `<bos>`.

    `log_prob` is that of the token, `sum` that of all tokens so far, `rank_score` the sum over the length penalty.
    `rank` counts from 1 among the candidates of its step; `reason` says why it was kept or pruned.
    """

    id: int
    parent: int | None
    step: int
    token: int
    text: str
    log_prob: float
    sum: float
    rank_score: float
    rank: int
    state: NodeState
    reason: str


@dataclass(frozen=True)
class TraceAnswer(Strict):
    """An answer of a search. `node` is its last token; `ids` are without `<bos>` and `<eos>`."""

    node: int
    text: str
    ids: list[int]
    score: float
    rank_score: float
    finished: bool


@dataclass(frozen=True)
class SearchTrace(Strict):
    """A search: the 2·`num_beams` best candidates of each step, pruned ones too. `answers` are ranked, best first.

    `forced` are the ids of a prefix that the answer had to start with. `encoder_runs` is 1.
    """

    num_beams: int
    length_alpha: float
    max_new_tokens: int
    forced: list[int]
    encoder_runs: int
    decoder_runs: int
    nodes: list[Node]
    answers: list[TraceAnswer]
    stopped: str


@dataclass(frozen=True)
class SearchTraces(Strict):
    """Greedy search, and the beam search whose best answer the tensors belong to."""

    greedy: SearchTrace
    beam: SearchTrace


@dataclass(frozen=True)
class Prediction(Strict):
    """The most probable next tokens at one decoder row: (id, text, probability), best first.

    `rank` (from 1) is that of the target token, `margin` the log-probability of the best token minus that of the
    second.
    """

    top: list[tuple[int, str, float]]
    rank: int
    margin: float


@dataclass(frozen=True)
class Evidence(Strict):
    """The evidence for the answer, as tensors `[target, source_key]`; attention alone is not an explanation.

    `occluded_by` is a token, or "mask".
    """

    attention: str
    occlusion: str
    occluded_by: str


@dataclass(frozen=True)
class Outputs(Strict):
    """One search before and after the edits. `first_changed_step` counts from 0; None: the same tokens."""

    before: TraceAnswer
    after: TraceAnswer
    first_changed_step: int | None


@dataclass(frozen=True)
class TraceDifference(Strict):
    """What the edits changed. `largest`: per tensor, with the decoder fed the answer from before the edits."""

    greedy: Outputs
    beam: Outputs
    largest: dict[str, float]


@dataclass(frozen=True)
class TraceCheck(Strict):
    """The `largest` difference between the logits of the trace and those of the PyTorch model, against its tolerance.

    `passed` is None if they cannot be compared; `note` says why, or what was compared.
    """

    largest: float
    tolerance: float
    passed: bool | None
    note: str


@dataclass(frozen=True)
class Trace(Strict):
    """Every number behind one translation. Names in `gold.…` belong to the gold target, teacher-forced.

    `inputs` has each input's cell, `heads` is of a table, `notices` say what is missing, `confidence` is of the answer.
    """

    text: str
    translation: str
    target: str | None
    provenance: Provenance
    tokens: Tokens
    vocabularies: dict[Literal["source", "target"], TraceVocabulary]
    axes: dict[str, Axis]
    tensors: dict[str, Tensor]
    steps: list[Step]
    predictions: dict[str, list[Prediction]]
    search: SearchTraces
    evidence: Evidence | None
    edits: list[str]
    difference: TraceDifference | None
    check: TraceCheck
    training: TrainingRecord | None = None
    errors: Errors | None = None
    heads: HeadEffects | None = None
    notices: list[str] = field(default_factory=list)
    mask_reasons: list[str] = field(default_factory=lambda: list(MASK_REASONS))
    inputs: dict[str, str] | None = None
    confidence: float | None = None
    format: Literal["glassformer-trace/1"] = FORMAT

    @property
    def passed(self) -> bool:
        """Whether the logits are those of the PyTorch model, as far as it is known."""
        return self.check.passed is not False

    def array(self, name: str) -> NDArray[Any]:
        """The numbers of a tensor."""
        return self.tensors[name].array(self.axes)

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, ready for `json.dumps`."""
        return dataclasses.asdict(self)

    def dumps(self) -> str:
        """One JSON document. Raises ValueError for a number that is not finite."""
        return "".join(self.parts())

    def parts(self) -> Iterator[str]:
        """The document in parts, each tensor by itself: as a whole it takes several times the memory of the trace."""
        head, mark, tail = _dumped(replace(self, tensors={}).to_json()).partition('"tensors":{')
        yield head + mark
        for number, (name, tensor) in enumerate(self.tensors.items()):
            yield "," * bool(number) + _dumped({name: dataclasses.asdict(tensor)})[1:-1]
        yield tail

    @classmethod
    def loads(cls, document: str | bytes) -> Trace:
        """A trace that `dumps` wrote. Raises ModelFileError for anything else."""
        try:
            return _adapter().validate_json(document)
        except ValidationError as error:
            where, _, expected = first_fault(error)
            raise ModelFileError("this is not a trace", where=where, expected=f"{FORMAT}: {expected}") from None


def _dumped(value: object) -> str:
    return shown(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


@cache
def _adapter() -> TypeAdapter[Trace]:
    return TypeAdapter(Trace)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a trace (draft 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": FORMAT,
        **_adapter().json_schema(mode="serialization"),
    }
