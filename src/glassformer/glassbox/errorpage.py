"""Where a model fails, as one HTML file that needs no network: `evaluate --report`.

It has no script, and a content security policy that forbids everything but its own style sheet. All of it is a tree of
elements whose texts are escaped when it is written, so that no text of a table or a model can be markup.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlencode
from xml.etree.ElementTree import Element, tostring

from glassformer.data.cleaning import CONTROL
from glassformer.evaluation.failures import FEW, KINDS, AnswerEdit, AnsweredRow, Breakdown, Failures, Group, RowsToAdd
from glassformer.evaluation.metrics import Share
from glassformer.glassbox.report import PAGE, policy_hash
from glassformer.inference.translator import Translation
from glassformer.text.inputs import Inputs, cells_of, readable

SERVER = "http://127.0.0.1:8000/"
"""The address of `glassformer serve` without other options."""

BAR = 200
LIKELY, UNLIKELY = 0.9, 0.5  # probabilities of tokens that are not in doubt, and that are in much doubt


@dataclass(frozen=True)
class EvaluationOrigin:
    """What was measured: the model and the table as they were given.

    `row_name` names a pair by its number. `beams` is the width of the beam, if it is not the model's own.
    """

    model: str
    table: str
    rows_read: int
    rows_scored: int
    row_name: Callable[[int], str]
    inputs: Inputs = ()
    beams: int | None = None


def error_page(failures: Failures, measured: EvaluationOrigin) -> str:
    """Return the page."""
    style = _style()
    policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src {policy_hash(style)}"
    title = f"Errors of {measured.model} on {measured.table}"
    sections = dict(_sections(failures, measured))
    head = (
        _element("meta", charset="utf-8"),
        _element("meta", {"http-equiv": "Content-Security-Policy"}, content=policy),
        _element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        _element("title", title),
        _element("style", style),
    )
    main = (
        _element("h1", title),
        _element("p", *_verdict(failures.right, measured), {"class": "verdict"}),
        _element("nav", *(_element("a", name, href=f"#{_anchor(name)}") for name in sections)),
    )
    titles = (_element("h2", name, id=_anchor(name)) for name in sections)
    parts = (_element("section", heading, *section) for heading, section in zip(titles, sections.values(), strict=True))
    page = _element("html", _element("head", *head), _element("body", _element("main", *main, *parts)), lang="en")
    return "<!doctype html>\n" + tostring(page, encoding="unicode", method="html") + "\n"


@cache
def _style() -> str:
    sheets = PAGE / "style" / "base.css", PAGE.parent / "errors.css"
    return "\n" + "".join(sheet.read_text("utf-8") for sheet in sheets)


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


# Parts


def _verdict(right: Share, measured: EvaluationOrigin) -> Iterator[str]:
    rows = f"{measured.rows_scored:,} of {measured.rows_read:,} rows scored"
    if right.count == right.of:
        yield f"All {right.of:,} answers are right ({_interval(right)}; {rows})."
    else:
        yield f"{right.count:,} of {right.of:,} answers are right: {_percent(right)} ({rows})."


def _sections(failures: Failures, measured: EvaluationOrigin) -> Iterator[tuple[str, list[Element]]]:
    """Yield the sections by name."""
    wrong = failures.right.of - failures.right.count
    yield "Rows to add", _rows_to_add(failures.advice, wrong)
    note = (
        "Answers that equal a target of their row. The line on a bar is the 95 % interval (Wilson); groups of fewer "
        f"than {FEW} are gray. Of twenty groups, one has its true share outside of its interval."
    )
    yield "Right answers by group", [_element("p", note), *map(_breakdown, failures.breakdowns)]
    if wrong:
        yield "Kinds of edits", list(_kinds(failures))
        if failures.confusions:
            yield "Confused tokens", list(_confusions(failures))
        text = "The wrong answers with the most edits per token of the nearest target."
        yield "Worst answers", [_element("p", text), _how_to_open(measured), *_items(failures.worst, measured)]
    text = "The answers of lowest confidence, right or wrong."
    if all(row.answer.confidence is None for row in failures.doubtful):
        text = (
            "The answers of lowest score, right or wrong. With --confidence, a calibrated model gives their confidence."
        )
    yield "Most doubtful answers", [_element("p", text), _how_to_open(measured), *_items(failures.doubtful, measured)]


def _rows_to_add(advice: Sequence[RowsToAdd], wrong: int) -> list[Element]:
    if not wrong:
        return [_element("p", "No answer is wrong, so this table does not show which rows are missing.")]
    if not advice:
        text = f"No group of {FEW} or more has an interval below that of all others: add rows like all of these."
        return [_element("p", text)]
    lines = []
    for rows in advice:
        right = f"Of {rows.share.of:,} in this table, {rows.share.count:,} are right: {_percent(rows.share)}"
        text = f". {right}; of all others, {_percent(rows.others)}."
        lines.append(_element("li", _element("b", f"Add {rows.rows}"), text))
    return [_element("ol", *lines, {"class": "advice"})]


def _breakdown(breakdown: Breakdown) -> Element:
    rows = [_group(group) for group in breakdown.groups]
    return _element("div", _element("h3", f"By {breakdown.by}"), _table(("group", "", "right", "share"), rows))


def _group(group: Group) -> Element:
    size = "few" if group.share.of < FEW else "enough"
    return _row((_bdi(group.name),), group.share, {"class": size})


def _kinds(failures: Failures) -> Iterator[Element]:
    text = "What turns a wrong answer into its nearest target, in tokens. An answer can have several kinds."
    yield _element("p", text)
    rows = []
    for kind in failures.kinds:
        meaning = _element("small", f"{KINDS[kind.name]} ({kind.edits:,} in all)")
        rows.append(_row((kind.name, _element("br"), meaning), kind.answers))
    yield _table(("kind", "", "wrong answers", "share"), rows)


def _confusions(failures: Failures) -> Iterator[Element]:
    yield _element("p", "Tokens of the targets that are another token in the answer, or missing in it.")
    rows = []
    for confusion in failures.confusions:
        got = _token_of(confusion.got) if confusion.got else "missing"
        rows.append(_row((_token_of(confusion.expected), " → ", got), confusion.share))
    yield _table(("target → answer", "", "times", "share"), rows)


def _table(names: tuple[str, ...], rows: Sequence[Element]) -> Element:
    """Return a table of a name, a bar, a count and a share."""
    kinds = ("", "bar", "number", "number")
    head = (_element("th", name, {"class": kind}, scope="col") for name, kind in zip(names, kinds, strict=True))
    return _element("table", _element("thead", _element("tr", *head)), _element("tbody", *rows), {"class": "groups"})


def _row(name: Sequence[Element | str], share: Share, *attributes: dict[str, str]) -> Element:
    counts = _number(f"{share.count:,} of {share.of:,}"), _number(_percent(share))
    return _element("tr", _element("th", *name, scope="row"), _bar(share), *counts, *attributes)


def _number(text: str) -> Element:
    return _element("td", text, {"class": "number"})


def _bar(share: Share) -> Element:
    """Return a cell with a bar for the share, and a line for its interval. The numbers are next to it."""
    low, high = (str(round(BAR * limit, 1)) for limit in (share.low, share.high))
    parts = (
        _element("rect", {"class": "track"}, width=str(BAR), height="14"),
        _element("rect", {"class": "part"}, width=str(round(BAR * share.value, 1)), height="14"),
        _element("line", {"class": "interval"}, x1=low, x2=high, y1="7", y2="7"),
    )
    svg = {"viewBox": f"0 0 {BAR} 14", "preserveAspectRatio": "none", "aria-hidden": "true"}
    return _element("td", _element("svg", *parts, svg), {"class": "bar"})


def _percent(share: Share) -> str:
    return f"{100 * share.value:.1f} % ({_interval(share)})"


def _interval(share: Share) -> str:
    return f"{100 * share.low:.1f} to {100 * share.high:.1f} %"


# Rows


def _how_to_open(measured: EvaluationOrigin) -> Element:
    return _element(
        "p",
        "“Glass box” opens the page of ",
        _element("code", shlex.join(["glassformer", "serve", measured.model])),
        " while it runs on this computer; the command of a row writes the same page to a file.",
    )


def _items(rows: Sequence[AnsweredRow], measured: EvaluationOrigin) -> Iterator[Element]:
    for row in rows:
        answer = row.answer
        verdict, color = ("right", "green") if row.is_right else ("wrong", "red")
        title = (
            measured.row_name(row.number),
            _element("span", verdict, {"class": f"badge {color}"}),
            _element("small", _certainty(answer)),
            _element("a", "Glass box", href=_address(row, measured)),
        )
        facts: dict[str, Sequence[Element | str]] = {
            "source": [_bdi(readable(row.source, measured.inputs))],
            "target": [_bdi(row.expected)],
            "answer": [_bdi(answer.text), *([] if answer.finished else [_element("small", " cut off")])],
            "edits": list(_edits(row.edits)),
            "unlike the training": [answer.unlike] if answer.unlike else [],
            "tokens": list(_tokens(answer)),
        }
        terms = ((_element("dt", name), _element("dd", *parts)) for name, parts in facts.items() if parts)
        command = _element("pre", _element("code", _command(row, measured)))
        details = _element("details", _element("summary", "command"), command)
        facts_list = _element("dl", *(element for pair in terms for element in pair))
        yield _element("article", _element("h3", *title), facts_list, details, {"class": "item"})


def _edits(edits: Sequence[AnswerEdit]) -> Iterator[Element | str]:
    for number, edit in enumerate(edits):
        yield f"; {edit.kind} " if number else f"{edit.kind} "
        if edit.expected:
            yield _token_of(edit.expected)
        if edit.expected and edit.got:
            yield " → "
        if edit.got:
            yield _token_of(edit.got)


def _tokens(answer: Translation) -> Iterator[Element]:
    """Yield the tokens, marked by how probable they are, and the probability of tokens in doubt."""
    tokens = (*answer.tokens, *(("<eos>",) if answer.finished else ()))
    for token, score in zip(tokens, answer.token_scores, strict=False):
        doubt = "much" if math.exp(score) < UNLIKELY else "some" if math.exp(score) < LIKELY else "none"
        text = _probability(score)
        yield _element("bdi", token, {"class": f"token doubt {doubt}"}, title=f"probability {text}")
        if doubt != "none":
            yield _element("small", f" {text} ")


def _certainty(answer: Translation) -> str:
    return f"score {answer.score:.2f}" if answer.confidence is None else f"confidence {answer.confidence:.3f}"


def _probability(log_probability: float) -> str:
    value = math.exp(log_probability)
    return f"{value:.3f}" if value >= 0.0005 else f"{value:.0e}"


def _address(row: AnsweredRow, measured: EvaluationOrigin) -> str:
    """Return the address of the text in the page of a server (see `page/shell/address.js`)."""
    cells = cells_of(row.source)
    names = [f"text.{input_.name}" for input_ in measured.inputs] or ["text"]
    query = [*zip(names, cells, strict=False), ("target", row.expected)]
    query += [("beams", str(measured.beams))] if measured.beams else []
    return f"{SERVER}#logits?{urlencode(query, errors='replace')}"


def _command(row: AnsweredRow, measured: EvaluationOrigin) -> str:
    """Return the command that explains the answer."""
    text, *cells = cells_of(row.source)
    features = [f"--feature={input_.name}={cell}" for input_, cell in zip(measured.inputs[1:], cells, strict=False)]
    beams = [f"--beam={measured.beams}"] if measured.beams else []
    options = [f"--target={row.expected}", *features, *beams, "--html=explained.html"]
    return shlex.join(["glassformer", "explain", *options, "--", measured.model, text])


# Elements


def _element(tag: str, *parts: Element | str | dict[str, str], **attributes: str) -> Element:
    """Return an element with these texts and elements in it; a dict has attributes that are no names in Python."""
    element = Element(tag, attributes)
    last: Element | None = None
    for part in parts:
        if isinstance(part, dict):
            element.attrib |= part
        elif isinstance(part, str):
            text = part if tag == "style" else _visible(part)
            if last is None:
                element.text = (element.text or "") + text
            else:
                last.tail = (last.tail or "") + text
        else:
            element.append(part)
            last = part
    return element


def _visible(text: str) -> str:
    r"""Return a text with control and invisible characters, and lone surrogates, as escapes: \u200b."""
    shown = CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
    return shown.encode("utf-8", "backslashreplace").decode()


def _bdi(text: str) -> Element:
    """Return a text of the data, which may run from right to left."""
    return _element("bdi", text) if text else _element("small", "(empty)")


def _token_of(token: str) -> Element:
    return _element("bdi", token if token.strip() else token.replace(" ", "␣"), {"class": "token"})
