"""The page: as one HTML file with a trace in it, or as it is served.

Its modules import each other by bare names ("glassbox/trace.js"), which an import map resolves to paths on a server
and to data: URLs in a file. In both, a content security policy forbids any other source, and HTML that is made from
text (`require-trusted-types-for`).
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from glassformer.errors import RunError
from glassformer.files import atomic
from glassformer.glassbox.schema import Trace

PAGE = Path(__file__).parent / "page"
MAX_BYTES = 20_000_000
ENTRY = "import 'glassbox/main.js';"
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; img-src data:"


@dataclass(frozen=True)
class Report:
    """A written file. `has_weights`: whether the page can apply edits."""

    path: Path
    n_bytes: int
    has_weights: bool


def write_report(trace: Trace, path: str | Path) -> Report:
    """Write the page with this trace in it as one file, which opens without a network or a server.

    The weights are left out of a file of more than 20 MB. Raises RunError if it is still larger.
    """
    path = Path(path)
    html = report_html(trace)
    has_weights = any(tensor.origin == "weight" for tensor in trace.tensors.values())
    if has_weights and len(html) > MAX_BYTES:
        html, has_weights = report_html(without_weights(trace)), False
    if len(html) > MAX_BYTES:
        raise RunError(
            "the report would be too large for a browser",
            where=str(path),
            got=f"{len(html) / 1e6:.0f} MB without the weights",
            expected=f"at most {MAX_BYTES / 1e6:.0f} MB",
            hint="explain a shorter text, leave out --target, or use a smaller beam",
        )
    with atomic(path) as temporary:
        temporary.write_bytes(html)
    return Report(path, len(html), has_weights)


def without_weights(trace: Trace) -> Trace:
    """The trace without the weights of the model."""
    return replace(trace, tensors={name: tensor for name, tensor in trace.tensors.items() if tensor.origin != "weight"})


def report_html(trace: Trace) -> bytes:
    """The whole page as one HTML document."""
    urls = {name: data_url(name, source) for name, source in modules().items()}
    imports = json.dumps({"imports": urls})
    style = _read("style.css")
    policy = f"{NOTHING}; script-src data: {policy_hash(imports)} {policy_hash(ENTRY)}; style-src {policy_hash(style)}"
    document = trace.dumps().replace("<", "\\u003c")  # so that no token ends the script or begins a comment
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
        f'<script type="importmap">{imports}</script>'
    )
    body = f'<script type="application/json" id="trace">{document}</script>\n<script type="module">{ENTRY}</script>'
    return _filled(head, body).encode()


def live_html() -> tuple[str, str]:
    """The page as it is served, and its content security policy, which goes into a header."""
    imports = json.dumps({"imports": {name: f"./page/{name.removeprefix('glassbox/')}" for name in modules()}})
    allowed = f"script-src 'self' {policy_hash(imports)} {policy_hash(ENTRY)}; style-src 'self'; connect-src 'self'"
    policy = f"{NOTHING}; {allowed}; frame-ancestors 'none'"  # which works in a header only
    head = f'<link rel="stylesheet" href="page/style.css">\n<script type="importmap">{imports}</script>'
    return _filled(head, f'<script type="module">{ENTRY}</script>'), policy


@cache
def modules() -> dict[str, str]:
    """The modules of the page: bare name -> source."""
    return {
        f"glassbox/{path.relative_to(PAGE).as_posix()}": path.read_text("utf-8") for path in sorted(PAGE.rglob("*.js"))
    }


def _filled(head: str, body: str) -> str:
    return _read("index.html").replace("<!-- head -->", head).replace("<!-- body -->", body)


def _read(name: str) -> str:
    return (PAGE / name).read_text("utf-8")


def data_url(name: str, source: str) -> str:
    """Return a module as a data: URL."""
    named = f"{source}//# sourceURL={name}\n"  # for error messages
    return f"data:text/javascript;base64,{base64_text(named.encode())}"


def policy_hash(source: str) -> str:
    """Return the form in which a content security policy allows this script or style."""
    return f"'sha256-{base64_text(hashlib.sha256(source.encode()).digest())}'"


def base64_text(data: bytes) -> str:
    """Return bytes in base64."""
    return base64.b64encode(data).decode("ascii")
