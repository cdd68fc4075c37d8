"""The bodies of requests and of errors: what a request may contain is declared here, with the numbers of `limits`."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from glassformer.serve.limits import BEAMS, CHOICES, EDITS, INPUTS, TEXT_CHARACTERS, TEXTS

NAME_CHARACTERS = 100

Text = Annotated[str, StringConstraints(max_length=TEXT_CHARACTERS)]
Beams = Annotated[int | None, Field(ge=1, le=BEAMS)]
Given = Text | Annotated[dict[Text, Text], Field(max_length=INPUTS)]
"""A text, or for a model with several inputs the text of each by name."""
Name = Annotated[str | None, StringConstraints(max_length=NAME_CHARACTERS)]


class Error(BaseModel):
    """An error in the words of the command line."""

    kind: str
    what: str
    where: str | None = None
    got: str | None = None
    expected: str | None = None
    hint: str | None = None


class ErrorBody(BaseModel):
    """The answer to a request that failed."""

    error: Error


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": HTTPStatus(status).phrase}
    for status in (400, 404, 405, 408, 413, 422, 500, 503, 504)
}


class Body(BaseModel):
    """A request to a model: the name of one that is served, or None for the first."""

    model_config = ConfigDict(extra="forbid")

    model: Name = None
    num_beams: Beams = None

    @property
    def search(self) -> dict[str, Any]:
        """The settings of the search that are given."""
        return self.model_dump(include={"num_beams", "num_return_sequences"}, exclude_none=True)


class TranslateBody(Body):
    """Texts to translate. `prefix` is the forced start of every answer.

    `confidence` adds the probability that each answer is right. Answers match the pattern `must_match`, or are
    `choices`.
    """

    texts: Annotated[list[Given], Field(max_length=TEXTS)]
    num_return_sequences: Beams = None
    prefix: Text = ""
    confidence: bool = False
    must_match: Text | None = None
    choices: Annotated[list[Text], Field(max_length=CHOICES)] | None = None


class TraceBody(Body):
    """A text to trace. `history` adds the history of the run directory, `weights` the weights of the model."""

    text: Given
    target: Text | None = None
    weights: bool = False
    history: bool = False


class WhatIfBody(Body):
    """A text to trace with edits, in the syntax of `explain --edit`."""

    text: Given
    target: Text | None = None
    edits: Annotated[list[Text], Field(min_length=1, max_length=EDITS)]
