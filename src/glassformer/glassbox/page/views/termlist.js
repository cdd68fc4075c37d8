/** The terms of a cell as a list with bars; each operand is a link to its own cell. */

import { ARROWS, button, choices, el, row, table } from 'glassbox/core/dom.js';
import { digits } from 'glassbox/core/numbers.js';
import { termsOf } from 'glassbox/views/terms.js';
import { place, tensorTitle } from 'glassbox/model/labels.js';

const MAX_TERMS = 400;

/** @param {(app: any, name: string, cell: number[]) => void} open  opens a cell of a tensor */
export function termList(app, step, cell, open) {
  const found = termsOf(app.trace, step, cell);
  if (!found) {
    const missing = step.inputs.filter((name) => !app.trace.has(name));
    return el(
      'p.missing',
      `The terms are not available: this page does not include ${missing.join(', ')}. ` +
        'In Python, “glassformer.explain(model, text, weights=True)” includes the weights.',
    );
  }
  const term = (row) => (typeof row.cells.at(-1) === 'number' ? row.cells.at(-1) : 0);
  const isSum = found.sum !== null && found.rows.length > 1;
  const bySize = isSum && app.state.terms === 'size';
  const rows = bySize ? found.rows.toSorted((one, other) => Math.abs(term(other)) - Math.abs(term(one))) : found.rows;
  const largest = Math.max(1e-12, ...rows.map((row) => Math.abs(term(row))));
  const orders = { order: 'in order', size: 'largest first' };
  const name = (column) => column || el('span.visually-hidden', 'name');
  const columns = [...found.columns.map(name), ...(isSum ? [el('span.visually-hidden', 'size')] : [])];
  const lines = rows.slice(0, MAX_TERMS).map((row) => line(app, row, isSum ? term(row) / largest : null, open));
  return [
    isSum ? choices('terms', orders, bySize ? 'size' : 'order', (terms) => app.set({ terms })) : null,
    el(
      'div.terms',
      { tabindex: 0, role: 'region', 'aria-label': 'terms', on: { keydown: walk } },
      table('', columns, lines),
    ),
    rows.length > MAX_TERMS
      ? el('p.size', `… and ${rows.length - MAX_TERMS} more terms, which are part of the sum`)
      : null,
    totals(found),
  ];
}

function line(app, { label, cells, from }, fraction, open) {
  const number = (part, i) => {
    const text = typeof part === 'number' ? digits(part) : part;
    if (!from[i] || !app.trace.has(from[i][0])) return text;
    const [name, index] = from[i];
    const title = [tensorTitle(app.trace, name), place(app.trace, app.trace.get(name).axes, index)].join(' · ');
    return button(text, () => open(app, name, index), { class: 'link', title, tabindex: -1, data: { to: name } });
  };
  const style = { '--fraction': `${Math.abs(fraction) * 100}%` };
  const bar = fraction === null ? [] : [el(`td.size-bar.${fraction < 0 ? 'below' : 'above'}`, { style })];
  return row({ data: { term: String(cells.at(-1)) } }, el('bdi', label), ...cells.map(number), ...bar);
}

function totals({ rows, sum, after }) {
  const one = (label, number, kind) => row({ class: kind, data: { [kind]: String(number) } }, label, digits(number));
  if (sum === null && !after.length) return null;
  return el(
    'table.plain.totals',
    el(
      'tbody',
      sum === null ? null : one(`sum of ${rows.length} terms`, sum, 'sum'),
      after.map(([label, number]) => one(label, number, 'after')),
    ),
  );
}

/** The arrow keys move through the links, which are one stop for Tab. */
function walk(event) {
  const links = [...event.currentTarget.querySelectorAll('button')];
  if (!ARROWS[event.key] || !links.length) return;
  event.preventDefault();
  const [down, right] = ARROWS[event.key];
  const at = links.indexOf(document.activeElement);
  links[at < 0 ? 0 : Math.max(0, Math.min(links.length - 1, at + down + right))].focus();
}
