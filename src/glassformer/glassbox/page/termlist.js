/** The terms of a cell as a list with bars; each operand is a link to its own cell. */

import { button, choices, el } from 'glassbox/dom.js';
import { digits } from 'glassbox/numbers.js';
import { termsOf } from 'glassbox/terms.js';
import { place, tensorTitle } from 'glassbox/labels.js';

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
  const largest = rows.reduce((best, row) => Math.max(best, Math.abs(term(row))), 1e-12);
  const shown = rows.slice(0, MAX_TERMS);
  return [
    isSum
      ? choices(
          'terms',
          [
            ['order', 'in order'],
            ['size', 'largest first'],
          ],
          bySize ? 'size' : 'order',
          (terms) => app.set({ terms }),
        )
      : null,
    el(
      'div.terms',
      { tabindex: 0, role: 'region', 'aria-label': 'terms', on: { keydown: walk } },
      el(
        'table.plain',
        el(
          'thead',
          el(
            'tr',
            found.columns.map((column) => el('th', { scope: 'col' }, column || el('span.visually-hidden', 'name'))),
            isSum ? el('th', { scope: 'col' }, el('span.visually-hidden', 'size')) : null,
          ),
        ),
        el(
          'tbody',
          shown.map((row) => line(app, row, isSum ? term(row) / largest : null, open)),
        ),
      ),
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
  return el(
    'tr',
    { data: { term: String(cells.at(-1)) } },
    el('th', { scope: 'row' }, el('bdi', label)),
    cells.map((part, i) => el('td', number(part, i))),
    fraction === null
      ? null
      : el('td.size-bar', {
          class: fraction < 0 ? 'below' : 'above',
          style: { '--fraction': `${Math.abs(fraction) * 100}%` },
        }),
  );
}

function totals(found) {
  const one = (label, number, kind) =>
    el(
      'tr',
      { class: kind, data: { [kind]: String(number) } },
      el('th', { scope: 'row' }, label),
      el('td', digits(number)),
    );
  if (found.sum === null && !found.after.length) return null;
  return el(
    'table.plain.totals',
    el(
      'tbody',
      found.sum === null ? null : one(`sum of ${found.rows.length} terms`, found.sum, 'sum'),
      found.after.map(([label, number]) => one(label, number, 'after')),
    ),
  );
}

const STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

/** The arrow keys move through the links, which are one stop for Tab. */
function walk(event) {
  const by = STEPS[event.key];
  const links = [...event.currentTarget.querySelectorAll('button')];
  if (!by || !links.length) return;
  event.preventDefault();
  const at = links.indexOf(document.activeElement);
  links[at < 0 ? 0 : Math.max(0, Math.min(links.length - 1, at + by))].focus();
}
