/** Layer norm and batch norm of the same numbers: one has a mean for each row, the other for each column. */

import { button, el, range, row, section, shown, table, wide } from 'glassbox/dom.js';
import { digits, meanOf } from 'glassbox/numbers.js';
import { fieldTable, finding, numbersOf, plain, Sheet, sheetOf } from 'glassbox/examples/sheet.js';

const X = [
  [1, 2, 3, 4],
  [0, 0, 10, 10],
  [5, 1, 5, 1],
];
const PADDING = [100, 0, 0, 0]; // the row that is added
const EPSILON = 1e-5;

const variance = (numbers) => meanOf(numbers.map((number) => (number - meanOf(numbers)) ** 2));
const normalized = (numbers) => {
  const deviation = Math.sqrt(variance(numbers) + EPSILON);
  return numbers.map((number) => (number - meanOf(numbers)) / deviation);
};
const transposed = (rows) => rows[0].map((_, column) => rows.map((row) => row[column]));

const layerNorm = (rows) => rows.map(normalized);
const batchNorm = (rows) => transposed(transposed(rows).map(normalized));

const start = () => new Sheet(numbersOf('x', [...X, PADDING]), [-1000, 1000], { hasPadding: false });

const title = (i) => (i < X.length ? `token ${i}` : 'padding');
const COLUMNS = ['', ...X[0].map((_, i) => `feature ${i}`)];

export function norms(app) {
  const sheet = sheetOf(app, 'norms', start);
  const { hasPadding } = sheet.options;
  const count = X.length + hasPadding;
  const toggle = () => {
    if (hasPadding) sheet.write(numbersOf(`x-${X.length}`, PADDING));
    sheet.choose(app, { hasPadding: !hasPadding });
  };
  const fields = (i) => X[0].map((_, c) => sheet.field(`x-${i}-${c}`, `${title(i)}, feature ${c}`));
  return [
    el(
      'p.lead',
      'Both subtract a mean and divide by √(σ² + ε). Layer norm computes μ and σ² for each row: one token, all its features. ' +
        'Batch norm computes them for each column: one feature, all tokens of the batch.',
    ),
    fieldTable(
      'x: a row for each token, a column for each feature; every number can be changed',
      COLUMNS,
      range(count).map((i) => row(title(i), ...fields(i))),
    ),
    el(
      'div.row',
      button('add a padding token to the batch', toggle, { 'aria-pressed': String(hasPadding), data: { key: 'norm-padding' } }),
      sheet.preset('numbers of lesson 4', sheet.start),
    ),
    sheet.result(() => computed(sheet, count)),
  ];
}

function computed(sheet, count) {
  const rows = range(count).map((i) => sheet.numbers(`x-${i}`, X[0].length));
  const [layer, batch] = [layerNorm(rows), batchNorm(rows)];
  const byRow = layer.map((numbers, i) => line('layer', numbers, i, [meanOf(rows[i]), variance(rows[i])]));
  const byColumn = batch.map((numbers, i) => line('batch', numbers, i));
  const fact = ([name, reduce]) => row(name, ...transposed(rows).map((column) => plain(reduce(column))));
  const facts = Object.entries({ μ: meanOf, 'σ²': variance }).map(fact);
  return [
    effect(rows, layer, batch),
    el(
      'div.columns.norms',
      normed('Layer norm: each row by itself', `${count} means, one for each row (axis 1)`, 'rows', ['μ', 'σ²'], byRow),
      normed(
        'Batch norm: each column by itself',
        `${X[0].length} means, one for each column (axis 0)`,
        'columns',
        [],
        byColumn,
        el('tfoot', facts),
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

function normed(name, words, axis, facts, rows, foot = null) {
  const found = table('', [...COLUMNS, ...facts], rows);
  found.className = `normed by-${axis}`;
  found.append(...shown([foot]));
  return section(name, name, el('p.size', words), wide(found));
}

const line = (kind, numbers, i, facts = []) =>
  row(
    title(i),
    ...numbers.map((number, column) =>
      el(
        'td',
        {
          class: number < 0 ? 'minus' : 'plus',
          style: { '--fraction': `${Math.round(Math.min(1, Math.abs(number) / 2) * 62)}%` },
          data: { [kind]: `${i},${column}`, number: String(number) },
        },
        digits(number),
      ),
    ),
    ...facts.map((fact) => el('td.fact', plain(fact))),
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
