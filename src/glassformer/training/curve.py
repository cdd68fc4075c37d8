"""The learning curve of a run as an SVG picture: the losses above, the metric below, over the steps."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from html import escape

from glassformer.errors import RunError
from glassformer.ship.storage.files import write_text
from glassformer.ship.storage.rundirectory import RunDirectory
from glassformer.training.history import HistoryEvent, read_history

WIDTH, LEFT, RIGHT = 720, 64, 16
PANELS = ((28, 220), (276, 400))  # top and bottom of the losses and of the metric
MAX_POINTS = 400

STYLE = """
svg { background: #fff; color: #222; font: 12px system-ui, sans-serif }
text { fill: currentColor }
.axis { stroke: currentColor; stroke-opacity: .2 }
polyline { stroke-width: 1.6 }
polyline.train { stroke: #888 } polyline.valid { stroke: #0a66c2 } polyline.metric { stroke: #b35900 }
.train { fill: #777 } .valid { fill: #0a66c2 } .metric { fill: #b35900 } polyline { fill: none !important }
@media (prefers-color-scheme: dark) {
  svg { background: #16181c; color: #ddd }
  polyline.valid { stroke: #6cb2ff } polyline.metric { stroke: #ffb066 }
  .train { fill: #999 } .valid { fill: #6cb2ff } .metric { fill: #ffb066 }
}"""

Points = list[tuple[int, float]]


def write_curve(run: RunDirectory) -> None:
    """Write the learning curve of a run; a history that is damaged, or a full disk, does not end the training."""
    with contextlib.suppress(RunError, ArithmeticError, ValueError):  # numbers that no run has
        write_text(run.curve, learning_curve(read_history(run.history)))


def learning_curve(events: Sequence[HistoryEvent]) -> str:
    """Return the picture of a history; points that are not finite are left out.

    After a resume, the steps that are trained again replace those before.
    """
    train, valid, metric, name = _read(events)
    last = max((step for step, _ in (*train, *valid)), default=1) or 1
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 440" role="img" aria-label="learning curve">',
        f"<style>{STYLE}</style>",
        f'<text x="{LEFT}" y="18">loss (nats per token, logarithmic): '
        '<tspan class="train">● training, label-smoothed</tspan>  <tspan class="valid">● held-out rows</tspan></text>',
        *_panel(PANELS[0], last, {"train": train, "valid": valid}, logarithmic=True),
        f'<text x="{LEFT}" y="266">{escape(name)} in validation</text>',
        *_panel(PANELS[1], last, {"metric": metric}, logarithmic=False),
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="434" text-anchor="middle">steps</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _read(events: Sequence[HistoryEvent]) -> tuple[Points, Points, Points, str]:
    series: dict[str, Points] = {"progress": [], "validated": [], "value": []}
    name = "metric"
    for event in events:
        step = event.fields.get("step")
        if not isinstance(step, int):
            continue
        if event.kind in ("started", "restored"):
            series = {key: [point for point in points if point[0] <= step] for key, points in series.items()}
        if event.kind in ("progress", "validated"):
            _add(series[str(event.kind)], step, event.fields.get("loss"))
        if event.kind == "validated":
            _add(series["value"], step, event.fields.get("value"))
            name = str(event.fields.get("metric", name))
    return series["progress"], series["validated"], series["value"], name


def _add(points: Points, step: int, value: object) -> None:
    if isinstance(value, int | float) and math.isfinite(value):
        points.append((step, float(value)))


def _panel(span: tuple[int, int], last: int, series: dict[str, Points], *, logarithmic: bool) -> list[str]:
    """Return the axes and the lines of one panel, from y = `span[0]` to `span[1]`; `last` is the last step."""
    top, bottom = span
    values = [value for points in series.values() for _, value in points if value > 0 or not logarithmic]
    low, high = (min(values), max(values)) if values else (0.1, 1.0)
    if high - low < 1e-9 * max(1.0, abs(high)):
        low, high = (low / 2, high * 2) if logarithmic else (low - 0.5, high + 0.5)

    def x(step: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / last

    def y(value: float) -> float:
        part = math.log(value / low) / math.log(high / low) if logarithmic else (value - low) / (high - low)
        return bottom - (bottom - top) * part

    lines = []
    for k in range(5):
        value = low * (high / low) ** (k / 4) if logarithmic else low + (high - low) * k / 4
        step = round(last * k / 4)
        lines.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>')
        lines.append(f'<text x="{x(step):.1f}" y="{bottom + 16}" text-anchor="middle">{step:,}</text>')
    for name, points in series.items():
        drawn = [(x(step), y(value)) for step, value in _thin(points) if value > 0 or not logarithmic]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in drawn)
        lines.append(f'<polyline class="{name}" points="{path}"/>')
        if name != "train":
            lines += [f'<circle class="{name}" cx="{a:.1f}" cy="{b:.1f}" r="2.2"/>' for a, b in drawn]
    return lines


def _thin(points: Points) -> Points:
    """At most MAX_POINTS of the points, evenly spaced, with the last."""
    every = math.ceil(len(points) / MAX_POINTS)
    return points[::-every][::-1] if every > 1 else points
