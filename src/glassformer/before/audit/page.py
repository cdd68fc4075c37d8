"""The audit as one HTML page: no scripts, no network, all text escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from glassformer.before.audit.characters import split_controls, visible
from glassformer.before.audit.findings import Audit, Example, Finding, Lengths, severities_text
from glassformer.glassbox.report import policy_hash, style_sheet
from glassformer.ship.storage.files import write_text

STYLE = """
main { width: 100%; max-width: 980px; margin: 0 auto; padding: 18px 20px 60px; }
.finding { background: var(--panel); border: 1px solid var(--line); border-left-width: 4px; border-radius: 8px; }
.finding { padding: 10px 14px; margin: 12px 0; }
.finding.error { border-left-color: var(--bad); }
.finding.warning { border-left-color: var(--minus); }
.finding h3 { display: flex; flex-wrap: wrap; gap: 4px 10px; align-items: baseline; }
h1, .finding p, .finding small, .plain td { overflow-wrap: anywhere; }
.plain td:first-child, .plain .figure { white-space: nowrap; }
.control { background: var(--bad-fill); color: var(--bad); border-radius: 3px; font-size: 0.85em; }
.bars li { grid-template-columns: 110px minmax(60px, 320px) 72px; }
.bars i { background: var(--fill); }
.bars b { display: block; height: 12px; border-radius: 2px; background: var(--plus); }
"""
BADGES = {"error": "badge red", "warning": "badge", "info": "badge"}
N_WIDTHS = 100


def write_page(audit: Audit, path: str | Path) -> None:
    """Write the page. Raises RunError when it cannot be written."""
    write_text(Path(path), page_html(audit))


def page_html(audit: Audit) -> str:
    """Return the page as one HTML document, which opens without a network."""
    widths = "".join(f".w{percent} {{ width: {percent}%; }}\n" for percent in range(N_WIDTHS + 1))
    style = style_sheet() + STYLE + widths
    policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src {policy_hash(style)}"
    title = f"Audit of {audit.tables[0].path}"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(title)}</title><style>{style}</style></head><body><main>",
            f"<h1>{_text(title)}</h1>",
            f'<p class="lead">{_summary(audit)}</p>',
            "<h2>Tables</h2>",
            _table(("", "table", "columns", "rows read", "rows kept"), _tables(audit)),
            f"<h2>Findings ({len(audit.findings):,})</h2>",
            *(_finding(finding) for finding in audit.findings),
            *(f'<p class="hint">{_text(note)}</p>' for note in audit.notes),
            "<h2>Lengths of the table to train on</h2>",
            _table(("", "mean", "min", "5 %", "50 %", "95 %", "99 %", "max", "limit"), map(_length_row, audit.lengths)),
            *map(_histogram, audit.lengths),
            "<h2>Settings of the tokens</h2>",
            _table(("setting", "value"), ((name, str(value)) for name, value in audit.recipe.items())),
            "</main></body></html>\n",
        ]
    )


def _summary(audit: Audit) -> str:
    return (
        f"{severities_text(audit)}. With one right answer a row, the best exact match on the table to train on is "
        f"{100 * audit.best_exact_match:.2f}\u00a0%."
    )


def _tables(audit: Audit) -> Iterator[tuple[str, ...]]:
    for table in audit.tables:
        yield table.role, table.path, " → ".join(table.columns), f"{table.rows_read:,}", f"{table.rows_kept:,}"


def _finding(finding: Finding) -> str:
    option = "" if finding.option is None else f"<p>Option: <code>{_text(finding.option)}</code></p>"
    where = finding.table if finding.side is None else f"{finding.table}, {finding.side}"
    rows = [_example(example, finding.table) for example in finding.examples]
    examples = _table(("row", "source", "target", ""), rows) if rows else ""
    return (
        f'<section class="finding {finding.severity}"><h3>{_text(finding.kind)}'
        f'<span class="{BADGES[finding.severity]}">{finding.severity}</span><small>{_text(where)}</small></h3>'
        f"<p>{_text(finding.text)}.</p>{examples}<p>To do: {_text(finding.advice)}.</p>{option}</section>"
    )


def _example(example: Example, table: str) -> tuple[str, ...]:
    row = str(example.row) if example.table == table else f"{example.row} of {example.table}"
    return row, example.source, example.target, example.note


def _length_row(lengths: Lengths) -> tuple[str, ...]:
    limit = "" if lengths.limit is None else f"{lengths.limit:,}"
    percentiles = (f"{value:,}" for value in lengths.percentiles.values())
    return (_name(lengths), f"{lengths.mean:.1f}", *percentiles, limit)


def _name(lengths: Lengths) -> str:
    return f"{lengths.side}, {lengths.unit if lengths.limit is None else f'tokens ({lengths.unit})'}"


def _histogram(lengths: Lengths) -> str:
    longest = max(rows for _, _, rows in lengths.histogram)
    items = [
        f"<li><span>{first:,}{'' if first == last else f' to {last:,}'}</span>"
        f'<i><b class="w{round(N_WIDTHS * rows / longest)}"></b></i><span>{rows:,}</span></li>'
        for first, last, rows in lengths.histogram
    ]
    return f'<h3>{_text(_name(lengths))}</h3><ul class="bars">{"".join(items)}</ul>'


def _table(columns: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    head = "".join(f'<th scope="col">{_text(column)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        f'<div class="scroller"><table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _cell(text: str) -> str:
    kind = ' class="figure"' if re.fullmatch(r"[\d,.]+", text) else ""
    return f"<td{kind}><bdi>{_text(text)}</bdi></td>"


def _text(text: str) -> str:
    """Return text escaped for HTML, with the escapes of control and invisible characters marked."""
    return "".join(
        f'<span class="control">{escape(visible(part))}</span>' if is_control else escape(part)
        for part, is_control in split_controls(text)
    )
