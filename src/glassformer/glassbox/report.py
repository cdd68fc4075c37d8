"""The page: as one HTML file with a trace in it, or as it is served.

Its modules import each other by bare names ("glassbox/model/trace.js") and are joined here, without a build step: a
browser takes a third of a second to link a hundred of them. A content security policy forbids any other source, and
HTML that is made from text (`require-trusted-types-for`).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from glassformer.errors import RunError
from glassformer.glassbox.schema import Trace
from glassformer.storage.files import atomic

PAGE = Path(__file__).parent / "page"
MAX_BYTES = 20_000_000
"""A larger file is written without its less important parts; it is refused above twice as many bytes."""
SMALL = 10_000  # characters of a tensor that is never left out
_IMPORT = re.compile(r"^import (\{[^}]*\}) from '([^']+)';\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:class|const|function\*?|async function) (\w+))", re.MULTILINE)
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; img-src data:"


@dataclass(frozen=True)
class WrittenReport:
    """A written file. `has_weights`: whether the page can apply edits; `left_out`: the parts that it does not have."""

    path: Path
    n_bytes: int
    has_weights: bool
    left_out: tuple[str, ...] = ()


def write_report(trace: Trace, path: str | Path) -> WrittenReport:
    """Write the page with this trace in it as one file, which opens without a network or a server.

    Of large tensors the file has those that several steps use; the page computes the others, and compares what follows
    from them. If the file has more than 20 MB, these are left out one by one until it is smaller: the weights, the
    tensors that the page can compute from others, the logits. Raises RunError if it is still larger than 40 MB.
    """
    path, complete = Path(path), without_single_use(trace)
    left_out = []
    if _fits(complete):
        trace = complete
    for name, without in _REDUCTIONS.items():
        if _fits(trace):
            break
        smaller = without(trace)
        if len(smaller.tensors) < len(trace.tensors):
            trace = smaller
            left_out.append(name)
    html = report_html(trace)
    if len(html) > 2 * MAX_BYTES:
        raise RunError(
            "the report would be too large for a browser",
            where=str(path),
            got=f"{len(html) / 1e6:.0f} MB without the weights",
            expected=f"at most {2 * MAX_BYTES / 1e6:.0f} MB",
            hint="explain a shorter text, leave out --target, or use a smaller beam",
        )
    with atomic(path) as temporary:
        temporary.write_bytes(html)
    has_weights = any(tensor.origin == "weight" for tensor in trace.tensors.values())
    return WrittenReport(path, len(html), has_weights, tuple(left_out))


def _fits(trace: Trace) -> bool:
    """Whether the page with this trace has at most MAX_BYTES; a large one is not made for it."""
    return sum(len(tensor.data) for tensor in trace.tensors.values()) <= MAX_BYTES >= len(report_html(trace))


def without_weights(trace: Trace) -> Trace:
    """The trace without the weights of the model."""
    return _without(trace, {name for name, tensor in trace.tensors.items() if tensor.origin == "weight"})


def without_derived(trace: Trace) -> Trace:
    """The trace without the large tensors that the page computes from the others, with its own interpreter."""
    return _without(trace, _derivable(trace))


def without_single_use(trace: Trace) -> Trace:
    """The trace without the large tensors that the page can compute and that one later step alone uses."""
    uses = Counter(name for step in trace.steps for name in step.inputs)
    return _without(trace, {name for name in _derivable(trace) if uses[name] == 1})


def _derivable(trace: Trace) -> set[str]:
    """The large tensors that follow from others of the trace."""
    names = set(trace.tensors)
    outputs = {step.output for step in trace.steps if names.issuperset(step.inputs)}
    return {name for name in outputs & names if len(trace.tensors[name].data) > SMALL}


def _without(trace: Trace, names: set[str]) -> Trace:
    return replace(trace, tensors={name: tensor for name, tensor in trace.tensors.items() if name not in names})


def without_logits(trace: Trace) -> Trace:
    """The trace without the numbers of all tokens of the vocabulary; the predictions stay."""
    names = ("logits", "own_logits", "log_probs", "smoothed_targets")
    return _without(trace, {step.output for step in trace.steps if step.output.rpartition(".")[2] in names})


_REDUCTIONS = {
    "the weights": without_weights,
    "what the page computes itself": without_derived,
    "the logits, except for the ten most probable tokens": without_logits,
}
"""Parts that the page can do without -> the trace without the part, in this order."""


def report_html(trace: Trace) -> bytes:
    """The whole page as one HTML document."""
    script, style = page_script(), style_sheet()
    policy = f"{NOTHING}; script-src {policy_hash(script)}; style-src {policy_hash(style)}"
    document = trace.dumps().replace("<", "\\u003c")  # so that no token ends the script or begins a comment
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>'
    body = f'<script type="application/json" id="trace">{document}</script>\n<script type="module">{script}</script>'
    return _filled(head, body).encode()


def live_html() -> tuple[str, str]:
    """The page as it is served, and its content security policy, which goes into a header."""
    policy = f"{NOTHING}; script-src 'self'; style-src 'self'; connect-src 'self'"
    policy += "; frame-ancestors 'none'"  # which works in a header only
    head = '<link rel="stylesheet" href="page/style.css">\n<script type="module" src="page/main.js"></script>'
    return _filled(head, ""), policy


@cache
def modules() -> dict[str, str]:
    """The modules of the page: bare name -> source."""
    return {
        f"glassbox/{path.relative_to(PAGE).as_posix()}": path.read_text("utf-8") for path in sorted(PAGE.rglob("*.js"))
    }


@cache
def page_script() -> str:
    """The modules of the page, joined."""
    return joined("glassbox/main.js", modules())


@cache
def style_sheet() -> str:
    """The style of the page: base.css, then the other sheets by name."""
    return "".join(path.read_text("utf-8") for path in sorted((PAGE / "style").glob("*.css")))


def _filled(head: str, body: str) -> str:
    page = (PAGE / "index.html").read_text("utf-8")
    return page.replace("<!-- head -->", head).replace("<!-- body -->", body)


def joined(name: str, sources: Mapping[str, str]) -> str:
    """Return a module and all that it imports as one; it exports what the modules of the same folder do."""
    folder = name.rpartition("/")[0]
    names = _in_order(name, sources)
    parts = (_enclosed(each, sources[each], each.rpartition("/")[0] == folder) for each in names)
    return "\n".join(["'use strict';", *parts])


def _in_order(name: str, sources: Mapping[str, str], order: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the names of a module and of all that it imports, each after its own imports."""
    for _, imported in _IMPORT.findall(sources[name]):
        if imported not in order:
            order = _in_order(imported, sources, order)
    return (*order, name)


def _enclosed(name: str, source: str, is_exported: bool) -> str:
    """Return a module as a function that is called once, so that it has its own scope."""
    source = _IMPORT.sub(lambda match: f"const {match[1]} = {_variable(match[2])};\n", source)
    names = ", ".join(match[1] for match in _EXPORT.findall(source))
    body = _EXPORT.sub(lambda match: match[1], source)
    call = f"const {_variable(name)} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();"
    return f"{call}\nexport const {{ {names} }} = {_variable(name)};\n" if is_exported else call


def _variable(name: str) -> str:
    return "module_" + re.sub(r"\W", "_", name)


def policy_hash(source: str) -> str:
    """Return the form in which a content security policy allows this script or style."""
    return f"'sha256-{base64_text(hashlib.sha256(source.encode()).digest())}'"


def base64_text(data: bytes) -> str:
    """Return bytes in base64."""
    return base64.b64encode(data).decode("ascii")
