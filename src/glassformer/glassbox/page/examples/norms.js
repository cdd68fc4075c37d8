/** Layer norm and batch norm of the same numbers: one has a mean for each row, the other for each column. */

import { button, el } from 'glassbox/dom.js';
import { digits } from 'glassbox/numbers.js';
import { finding, plain, Sheet, sheetOf } from 'glassbox/examples/sheet.js';

const X = [
  [1, 2, 3, 4],
  [0, 0, 10, 10],
  [5, 1, 5, 1],
];
const PADDING = [100, 0, 0, 0]; // the row that is added
const EPSILON = 1e-5;

const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
const variance = (numbers) => mean(numbers.map((number) => (number - mean(numbers)) ** 2));
const normalized = (numbers) => numbers.map((number) => (number - mean(numbers)) / Math.sqrt(variance(numbers) + EPSILON));
const transposed = (rows) => rows[0].map((_, column) => rows.map((row) => row[column]));

/** @param {number[][]} rows */
export const layerNorm = (rows) => rows.map(normalized);

/** @param {number[][]} rows */
export const batchNorm = (rows) => transposed(transposed(rows).map(normalized));

function start() {
  const all = [...X, PADDING];
  const sheet = new Sheet(
    Object.fromEntries(all.flatMap((row, r) => row.map((number, c) => [`x-${r}-${c}`, number]))),
    [-1000, 1000],
  );
  sheet.options = { hasPadding: false };
  return sheet;
}

const title = (row) => (row < X.length ? `token ${row}` : 'padding');

export function norms(app) {
  const sheet = sheetOf(app, 'norms', start);
  const { hasPadding } = sheet.options;
  const count = X.length + (hasPadding ? 1 : 0);
  const toggle = () => {
    if (hasPadding) sheet.write(Object.fromEntries(PADDING.map((number, c) => [`x-${X.length}-${c}`, number])));
    sheet.options.hasPadding = !hasPadding;
    app.notify(false, null);
  };
  return [
    el(
      'p.lead',
      'Both subtract a mean and divide by √(σ² + ε). Layer norm computes μ and σ² for each row: one token, all its features. ' +
        'Batch norm computes them for each column: one feature, all tokens of the batch.',
    ),
    el(
      'div.scroller',
      el(
        'table.sheet',
        el('caption', 'x: a row for each token, a column for each feature; every number can be changed'),
        heading(['']),
        el(
          'tbody',
          Array.from({ length: count }, (_, r) =>
            el(
              'tr',
              el('th', { scope: 'row' }, title(r)),
              X[0].map((_, c) => el('td', sheet.field(`x-${r}-${c}`, `${title(r)}, feature ${c}`))),
            ),
          ),
        ),
      ),
    ),
    el(
      'div.row',
      button('add a padding token to the batch', toggle, { 'aria-pressed': String(hasPadding), data: { key: 'norm-padding' } }),
      sheet.preset('numbers of lesson 4', { ...sheet.start }),
    ),
    sheet.result(() => computed(sheet, count)),
  ];
}

const heading = (last = []) =>
  el(
    'thead',
    el(
      'tr',
      el('td'),
      X[0].map((_, c) => el('th', { scope: 'col' }, `feature ${c}`)),
      last.filter(Boolean).map((name) => el('th', { scope: 'col' }, name)),
    ),
  );

function computed(sheet, count) {
  const rows = Array.from({ length: count }, (_, r) => X[0].map((_, c) => sheet.number(`x-${r}-${c}`)));
  const [layer, batch] = [layerNorm(rows), batchNorm(rows)];
  return [
    effect(rows, layer, batch),
    el(
      'div.columns.norms',
      part(
        'Layer norm: each row by itself',
        `${count} means, one for each row (axis 1)`,
        [heading(['μ', 'σ²']), el('tbody', layer.map((row, r) => line('layer', title(r), row, r, [mean(rows[r]), variance(rows[r])])))],
        'rows',
      ),
      part(
        'Batch norm: each column by itself',
        `${X[0].length} means, one for each column (axis 0)`,
        [
          heading(),
          el('tbody', batch.map((row, r) => line('batch', title(r), row, r))),
          el(
            'tfoot',
            [
              ['μ', mean],
              ['σ²', variance],
            ].map(([name, reduce]) =>
              el('tr', el('th', { scope: 'row' }, name), transposed(rows).map((column) => el('td', plain(reduce(column))))),
            ),
          ),
        ],
        'columns',
      ),
    ),
    el(
      'p.hint',
      `γ is 1 and β is 0 here, and ε is ${EPSILON}. σ² is divided by the number of values, not by one less. A Transformer uses layer ` +
        'norm: the numbers of a token do not depend on the other tokens of the batch, nor on padding. The panel “Add & norm, ' +
        'feed-forward” has the norms of this model. Lesson 4 of the course computes the same numbers in Python.',
    ),
  ];
}

const part = (name, words, inside, axis) =>
  el('section', { 'aria-label': name }, el('h2', name), el('p.size', words), el('div.scroller', el(`table.normed.by-${axis}`, inside)));

const line = (kind, name, numbers, row, facts = []) =>
  el(
    'tr',
    el('th', { scope: 'row' }, name),
    numbers.map((number, column) =>
      el(
        'td',
        {
          class: number < 0 ? 'minus' : 'plus',
          style: { '--fraction': `${Math.round(Math.min(1, Math.abs(number) / 2) * 62)}%` },
          data: { [kind]: `${row},${column}`, number: String(number) },
        },
        digits(number),
      ),
    ),
    facts.map((fact) => el('td.fact', plain(fact))),
  );

/** What the padding token changes in the first token, by both. */
function effect(rows, layer, batch) {
  if (rows.length === X.length)
    return finding(
      'Token 0 becomes ',
      `${layer[0].map(digits).join(', ')} with layer norm, and ${batch[0].map(digits).join(', ')} with batch norm.`,
    );
  const without = rows.slice(0, X.length);
  const change = (after, before) => Math.max(...after[0].map((number, i) => Math.abs(number - before[0][i])));
  const [byLayer, byBatch] = [change(layer, layerNorm(without)), change(batch, batchNorm(without))];
  return finding(
    `The padding token changes token 0 by ${digits(byLayer)} with layer norm, and by up to ${digits(byBatch)} with batch norm.`,
  );
}
