"""The bodies of requests and answers: /openapi.json describes them from here, with the numbers of `limits`."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from glassformer.inference.translator import Translation
from glassformer.serve.limits import BEAMS, CHOICES, EDITS, INPUTS, TEXT_CHARACTERS, TEXTS
from glassformer.settings import Settings
from glassformer.storage.records import Metrics, TrainingData
from glassformer.text.inputs import Input

NAME_CHARACTERS = 100
DETAILS = ("rank_score", "tokens", "token_scores")
"""What an answer has only when a request asks for details."""

Text = Annotated[str, StringConstraints(max_length=TEXT_CHARACTERS)]
Beams = Annotated[int | None, Field(ge=1, le=BEAMS)]
Source = str | Annotated[dict[Text, str], Field(max_length=INPUTS)]
"""A text, or for a model with several inputs the text of each by name."""
Given = Text | Annotated[dict[Text, Text], Field(max_length=INPUTS)]
Name = Annotated[str | None, StringConstraints(max_length=NAME_CHARACTERS)]


def _documented(*examples: dict[str, Any]) -> ConfigDict:
    """Return the configuration of a body with examples; the text below a field is its description."""
    return ConfigDict(
        use_attribute_docstrings=True, extra="forbid", json_schema_extra={"examples": [*examples]} if examples else {}
    )


# Requests


class Body(BaseModel):
    """A request to a model."""

    model_config = _documented()

    model: Name = None
    """The name of the model; by default the first of `/v1/models`."""
    num_beams: Beams = None
    """Beam width; 1 is greedy search. The default is the model's own."""

    @property
    def search(self) -> dict[str, Any]:
        """The settings of the search that are given."""
        return self.model_dump(include={"num_beams", "num_return_sequences"}, exclude_none=True)


class TranslateBody(Body):
    """Texts to translate."""

    model_config = _documented({"texts": ["1969-07-20"]})

    texts: Annotated[list[Source], Field(max_length=TEXTS)]
    """Texts; of a model with several inputs, objects with the text of each input."""
    num_return_sequences: Beams = None
    """Number of answers to each text, of which all but the first are `alternatives`."""
    details: bool = False
    """Whether answers have their `rank_score`, `tokens` and `token_scores`."""
    confidence: bool = False
    """Whether answers have their confidence."""
    prefix: Text = ""
    """The start of every answer."""
    must_match: Text | None = None
    """A regular expression that every answer matches."""
    choices: Annotated[list[Text], Field(max_length=CHOICES)] | None = None
    """The possible answers."""


class TraceBody(Body):
    """A text to trace."""

    model_config = _documented({"text": "1969-07-20"})

    text: Given
    """The text; of a model with several inputs, an object with the text of each input."""
    target: Text | None = None
    """A target whose loss is traced too."""
    weights: bool = False
    """Whether the trace has the weights of the model, if it is small enough."""
    history: bool = False
    """Whether the trace has the history of the run and its wrong answers."""


class WhatIfBody(Body):
    """A text to trace with edits."""

    model_config = _documented({"text": "1969-07-20", "edits": ["head decoder.0.cross 1 off"]})

    text: Given
    """The text; of a model with several inputs, an object with the text of each input."""
    target: Text | None = None
    """A target whose loss is traced too."""
    edits: Annotated[list[Text], Field(min_length=1, max_length=EDITS)]
    """Edits of the text or the model, such as `token 1=x`."""


# Answers

_ANSWER = {"text": "July 20, 1969", "score": -0.000108, "finished": True, "unknown": [], "unlike": ""}


class TextAnswer(BaseModel):
    """The answer to a text."""

    model_config = _documented()

    text: str
    """The answer; empty where it was left out."""
    score: float | None
    """The sum of the log-probabilities of its tokens, in nats; null where it was left out."""
    finished: bool
    """False: the answer was cut off at the maximum length."""
    unknown: list[str]
    """The parts of the text that the vocabulary does not have."""
    unlike: str
    """How the text is unlike all that the model was trained on; empty: it is not."""
    alternatives: list[TextAnswer]
    """The other answers to the text, best first."""
    confidence: float | None = None
    """The calibrated probability that the answer is right."""
    left_out: str | None = None
    """Why the text has no answer."""
    rank_score: float | None = None
    """The score after the length penalty."""
    tokens: list[str] | None = None
    """The tokens of the answer."""
    token_scores: list[float] | None = None
    """The log-probability of each token and of the end."""


class AnswersBody(BaseModel):
    """An answer for each text, in order."""

    model_config = _documented({"answers": [_ANSWER | {"alternatives": []}], "notices": []})

    answers: list[TextAnswer]
    notices: list[str]
    """What the answers lack of what was requested, and why."""


class ModelName(BaseModel):
    """A model that is served."""

    model_config = _documented()

    name: str
    parameters: int
    """The number of parameters."""


class ModelNames(BaseModel):
    """The models; the first answers requests that name none."""

    model_config = _documented({"models": [{"name": "dates", "parameters": 1_002_368}]})

    models: list[ModelName]


class Numbers(BaseModel):
    """The limits of a request."""

    model_config = _documented()

    text: int
    """Characters of a text."""
    texts: int
    edits: int
    beams: int
    bytes: int
    seconds: float
    """Computing time."""
    waiting: int
    """Requests that wait."""


class Description(BaseModel):
    """A model, and the limits of a request to it."""

    model_config = _documented()

    name: str
    digest: str
    """SHA-256 of its weights."""
    parameters: int
    settings: Settings
    data: TrainingData
    metrics: Metrics
    versions: dict[str, str]
    example: str | dict[str, str]
    inputs: list[Input]
    weights_fit: bool
    """Whether traces can have the weights."""
    limits: Numbers


class Health(BaseModel):
    """The server is running."""

    status: Literal["ok"] = "ok"


class Error(BaseModel):
    """What is wrong with a request, and what to do."""

    model_config = _documented()

    kind: str
    what: str
    where: str | None = None
    got: str | None = None
    expected: str | None = None
    hint: str | None = None


class ErrorBody(BaseModel):
    """The answer to a request that failed."""

    model_config = _documented(
        {
            "error": {
                "kind": "RequestError",
                "what": "the request does not fit: body.texts",
                "expected": "Field required",
            }
        }
    )

    error: Error


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": HTTPStatus(status).phrase}
    for status in (400, 404, 405, 408, 413, 422, 500, 503, 504)
}


def answer_json(answer: Translation, *, details: bool) -> dict[str, Any]:
    """Return a `TextAnswer` as JSON values."""
    values = answer.to_json() | {
        "alternatives": [answer_json(alternative, details=details) for alternative in answer.alternatives]
    }
    return values if details else {name: value for name, value in values.items() if name not in DETAILS}
