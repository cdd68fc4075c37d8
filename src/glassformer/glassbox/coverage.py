"""Coverage against accuracy, as a picture: answers above a minimum probability, and how many of them are right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from xml.etree.ElementTree import Element

from glassformer.glassbox.elements import element
from glassformer.inference.metrics import Share
from glassformer.inference.reliability import LEVELS

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 280, 54, 14, 22, 44
MIN_ANSWERS = 10  # from which a fraction is drawn
TEXT = (
    "The answers from the most probable one on: how many of them are right (solid, with the 95 % interval), and "
    "how many should be by their probabilities (dashed). A dot is the last answer above a minimum probability."
)


def coverage_plot(judged: Iterable[tuple[float, bool]]) -> list[Element]:
    """Return the plot of answers with their probabilities, and whether each is right."""
    ordered = sorted(judged, reverse=True)
    n, counts = len(ordered), list(accumulate(right for _, right in ordered))
    # Answers of equal probability have no order, so that a point is after the last of them.
    ends = [i for i in range(min(n, MIN_ANSWERS), n) if ordered[i - 1][0] > ordered[i][0]] + [n]
    shares = {i: Share(counts[i - 1], i) for i in ends}
    promised = {i: p / i for i, p in enumerate(accumulate(p for p, _ in ordered), 1) if i in shares}
    lowest = min(0.99, *promised.values(), *(share.low for share in shares.values()))

    def at(answers: float, share: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - RIGHT) * answers / n
        return round(x, 1), round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - share) / (1 - lowest), 1)

    def points(values: Iterable[tuple[int, float]]) -> str:
        return " ".join(f"{x},{y}" for x, y in (at(i, value) for i, value in values))

    band = [(i, share.low) for i, share in shares.items()] + [(i, shares[i].high) for i in reversed(ends)]
    dots = {sum(p >= level for p, _ in ordered): level for level in LEVELS}  # of equal ones the last level
    marks = (
        part
        for i, level in dots.items()
        if i in shares and level > 0
        for x, y in [at(i, shares[i].value)]
        for part in (
            element("circle", cx=str(x), cy=str(y), r="4"),
            element("text", f"{level:g}", {"text-anchor": "end"}, x=str(x - 2), y=str(y - 8)),
        )
    )
    plot = element(
        "svg",
        *_axes(lowest, at, n),
        element("polygon", {"class": "band"}, points=points(band)),
        element("polyline", {"class": "promised"}, points=points(promised.items())),
        element("polyline", {"class": "curve"}, points=points((i, share.value) for i, share in shares.items())),
        *marks,
        {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "class": "coverage", "role": "img", "aria-label": "coverage, accuracy"},
    )
    return [element("p", TEXT), plot]


def _axes(lowest: float, at: Callable[[float, float], tuple[float, float]], n: int) -> Iterator[Element]:
    """Yield the lines and labels of both axes: parts of the answers, and parts that are right."""
    for part in (0, 0.25, 0.5, 0.75, 1):
        x, bottom = at(part * n, lowest)
        yield element("text", f"{100 * part:.0f} %", {"text-anchor": "middle"}, x=str(x), y=str(bottom + 18))
    for share in (lowest, (1 + lowest) / 2, 1.0):
        x, y = at(0, share)
        yield element("line", {"class": "grid"}, x1=str(x), x2=str(WIDTH - RIGHT), y1=str(y), y2=str(y))
        yield element("text", f"{100 * share:.1f} %", {"text-anchor": "end"}, x=str(x - 6), y=str(y + 4))
    middle = {"text-anchor": "middle"}
    yield element("text", "answers that are given, of all", middle, x=str(at(n / 2, 1)[0]), y=str(HEIGHT - 8))
    yield element("text", "right of these", x="0", y="12")
