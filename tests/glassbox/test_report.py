"""The report: one file, with nothing from outside, that no token can break out of."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.errors import RunError
from glassformer.glassbox import report
from glassformer.glassbox.report import (
    PAGE,
    live_html,
    modules,
    report_html,
    style_sheet,
    without_derived,
    without_logits,
    without_single_use,
    without_weights,
    write_report,
)
from glassformer.glassbox.schema import Trace
from tests.glassbox.conftest import wrong_steps


def inlined(html: str) -> str:
    found = re.search(r'<script type="application/json" id="trace">(.*?)</script>', html, flags=re.DOTALL)
    assert found
    return found[1]


def test_the_report_holds_the_whole_trace(trace: Trace, tmp_path: Path) -> None:
    written = write_report(trace, tmp_path / "report.html")
    html = written.path.read_text("utf-8")
    assert json.loads(inlined(html)) == json.loads(trace.dumps())
    assert written.n_bytes == written.path.stat().st_size
    assert written.has_weights
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_nothing_in_the_page_comes_from_outside(trace: Trace) -> None:
    for html in (report_html(trace).decode(), live_html()[0]):
        assert re.findall(r'(?:src|href)="(?!#|data:|page/(?:style\.css|main\.js)")[^"]*"', html) == []
    namespaces = r"http://www\.w3\.org/\S+"
    for name, source in modules().items():
        assert re.sub(namespaces, "", source).count("://") == 0, name
        assert not re.search("</?script|<!--", source), f"{name} would end the script that holds it"


def test_no_text_can_end_the_script_that_holds_it(trace: Trace) -> None:
    hostile = "</script><script>alert(1)</script><!--<script>"
    html = report_html(replace(trace, text=hostile)).decode()
    assert hostile not in html
    assert json.loads(inlined(html))["text"] == hostile
    assert html.count("<script") == html.count("</script") == 2


def test_the_policy_knows_every_script_and_style_by_its_hash(trace: Trace) -> None:
    html = report_html(trace).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    inline = re.findall(r'<(?:style|script type="module")>(.*?)</(?:style|script)>', html, flags=re.DOTALL)
    assert len(inline) == 2
    for source in inline:
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]


def test_every_module_is_found_by_the_name_that_others_import_and_the_style_begins_with_its_colors() -> None:
    assert style_sheet().startswith("/* Colors")
    assert all(path.read_text("utf-8") in style_sheet() for path in PAGE.rglob("*.css"))
    for name, source in modules().items():
        for imported in re.findall(r"from '([^']+)'", source):
            assert imported in modules(), f"{name} imports {imported}"


@pytest.mark.medium
def test_too_large_a_report_leaves_out_weights_then_what_the_page_computes_itself_and_the_logits_last(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "SMALL", 0)
    monkeypatch.setattr(report, "without_single_use", lambda trace: trace)
    derived = without_derived(without_weights(trace))
    smallest = without_logits(derived)
    given = {name for name, tensor in trace.tensors.items() if tensor.origin == "given"}
    with_weights = {
        step.output for step in trace.steps if step.op in ("linear", "project_heads", "layer_norm", "embed")
    }
    assert derived.tensors.keys() == given | with_weights
    logits = {f"{side}{name}" for side in ("", "gold.") for name in ("logits", "decoder.0.lens.logits")}
    assert derived.tensors.keys() - smallest.tensors.keys() == logits
    for kept, left_out in (
        (without_weights(trace), ("the weights",)),
        (derived, ("the weights", "what the page computes itself")),
        (smallest, tuple(report._REDUCTIONS)),
    ):
        monkeypatch.setattr(report, "MAX_BYTES", len(report_html(kept)))
        written = write_report(trace, tmp_path / "report.html")
        assert (written.left_out, written.has_weights) == (left_out, False)
        assert written.n_bytes == report.MAX_BYTES
        assert Trace.loads(inlined(written.path.read_text("utf-8"))) == kept


def test_what_one_step_alone_uses_is_computed_by_the_page_and_checked_by_that_step(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "SMALL", 0)
    written = Trace.loads(inlined(write_report(trace, tmp_path / "report.html").path.read_text("utf-8")))
    assert written == without_single_use(trace)
    gone = trace.tensors.keys() - written.tensors.keys()
    assert {"decoder.1.feed_forward.hidden", "decoder.1.cross.queries", "encoder.0.self.heads"} <= gone
    for name in gone:
        assert sum(step.inputs.count(name) for step in trace.steps) == 1, name
    assert set(wrong_steps(written)) == gone  # every other step follows from its inputs
    monkeypatch.setattr(report, "MAX_BYTES", (tmp_path / "report.html").stat().st_size - 1)
    smaller = Trace.loads(inlined(write_report(trace, tmp_path / "report.html").path.read_text("utf-8")))
    assert "decoder.1.cross.queries" in smaller.tensors  # without the weights the page cannot compute them


def test_a_report_that_is_still_too_large_is_refused_with_a_hint(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "MAX_BYTES", 1000)
    with pytest.raises(RunError, match="too large for a browser") as caught:
        write_report(trace, tmp_path / "report.html")
    assert "shorter text" in str(caught.value)
    assert list(tmp_path.iterdir()) == []
