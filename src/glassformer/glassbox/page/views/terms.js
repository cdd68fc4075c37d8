/**
 * One cell and its terms: the operands, and how they give the number.
 *
 * @typedef {import('./numbers.js').Named} Named
 * @typedef {{
 *   columns: string[], rows: {label: string, cells: (number|string)[], from?: ([string, number[]]|null)[]}[],
 *   sum: number|null, after: [string, number][]}} Terms
 * The last cell of each row is its term; the terms add up to `sum`; the lines of `after` lead from there to the number.
 * `from` has the tensor and the index of each number that is a cell of an input.
 */

import { range } from 'glassbox/core/dom.js';
import { erf } from 'glassbox/model/erf.js';
import { logSumExp, sinusoid } from 'glassbox/model/interpreter.js';
import { at, headOf, meanOf, rowOf, sumOf } from 'glassbox/core/numbers.js';
import { headTitle } from 'glassbox/model/labels.js';

/**
 * @param {import('./trace.js').Trace} trace
 * @param {{op: string, inputs: string[], attributes: Object<string, number>}} step
 * @param {number[]} index  of the cell in the output
 * @returns {Terms|null}  null where an input is not in the trace
 */
export function termsOf(trace, step, index) {
  if (step.inputs.some((name) => !trace.has(name))) return null;
  const inputs = step.inputs.map((name) => trace.get(name));
  const label = (axis, i) => [i, trace.label(axis, i)].filter((part) => part !== '').join(' ');
  const found = MAKERS[step.op]({ inputs, index, attributes: step.attributes, label, reasons: trace.mask_reasons });
  const cellOf = (from) => from && [step.inputs[from[0]], from[1]];
  return { sum: null, after: [], ...found, rows: found.rows.map((row) => ({ ...row, from: (row.from ?? []).map(cellOf) })) };
}

const termsAdded = (rows) => sumOf(rows.map((row) => row.cells.at(-1)));

function summed(columns, rows, after = []) {
  return { columns, rows, sum: termsAdded(rows), after };
}

/** The mean of the terms. */
function averaged(columns, rows) {
  return summed(columns, rows, [[`÷ ${rows.length}`, termsAdded(rows) / rows.length]]);
}

/** No sum: one row of operands and their result. */
const single = (columns, label, cells, from) => ({ columns, rows: [{ label, cells, from }] });

/** No sum: operands by name, and what is computed from them one after the other. */
const named = (operands, after) => ({
  columns: ['', ''],
  rows: operands.map(([label, number, from = null]) => ({ label, cells: [number], from: [from] })),
  after,
});

/** A term for each index of an axis; `from(i)` has the index of each cell in inputs 0, 1, … */
const terms = (axis, label, numbers, cells, from) =>
  Array.from(numbers, (number, i) => ({
    label: label(axis, i),
    cells: cells(number, i),
    from: from(i).map((index, input) => [input, index]),
  }));

/** x[i] · w[i] for all indices of an axis. */
const products = (axis, x, w, label, from) => terms(axis, label, x, (number, i) => [number, w[i], number * w[i]], from);

/** Row `o` of x Wᵀ + b. */
function linearCell({ inputs: [x, weight, bias], label }, row, o) {
  const from = (i) => [[row, i], [o, i]];
  const rows = products(x.axes[1], rowOf(x, row), rowOf(weight, o), label, from);
  const after = bias ? [[`+ bias ${bias.numbers[o].toFixed(4)}`, termsAdded(rows) + bias.numbers[o]]] : [];
  return summed(['feature', 'x', 'W', 'x · W'], rows, after);
}

function softmaxCell({ inputs: [scores, mask], index: [head, row, key], label, reasons }) {
  const line = rowOf(headOf(scores, head), row);
  const codes = rowOf(mask, row);
  const largest = Math.max(...line.filter((_, k) => codes[k] === 0));
  const power = (k) => (codes[k] ? 0 : Math.exp(line[k] - largest));
  const cells = (score, k) => [codes[k] ? reasons[codes[k]] : score, power(k)];
  const rows = terms(scores.axes[2], label, line, cells, (k) => [[head, row, k]]);
  const sum = termsAdded(rows);
  return summed(['key', 'score', `e^(score − ${largest.toFixed(4)})`], rows, [
    [`÷ sum: weight of ${label(scores.axes[2], key)}`, sum > 0 ? power(key) / sum : 0],
  ]);
}

function layerNormCell({ inputs: [x, mean, variance, gain, bias], index, attributes: { eps } }) {
  const [row, column] = index;
  const centered = at(x, index) - mean.numbers[row];
  const normalized = centered / Math.sqrt(variance.numbers[row] + eps);
  const scaled = normalized * gain.numbers[column];
  const operands = [
    ['x', at(x, index), [0, index]],
    ['μ of the row', mean.numbers[row], [1, [row]]],
    ['σ² of the row', variance.numbers[row], [2, [row]]],
    ['ε', eps],
    ['γ', gain.numbers[column], [3, [column]]],
    ['β', bias.numbers[column], [4, [column]]],
  ];
  return named(operands, [
    ['x − μ', centered],
    ['÷ √(σ² + ε)', normalized],
    ['· γ', scaled],
    ['+ β', scaled + bias.numbers[column]],
  ]);
}

const pair =
  (sign, combine) =>
  ({ inputs: [x, y], index }) => {
    const own = y.axes.length ? index : [];
    const [left, right] = [at(x, index), at(y, own)];
    const cells = [left, right, combine(left, right)];
    return single(['', 'x', `${sign} y`, `x ${sign} y`], '', cells, [[0, index], [1, own]]);
  };

/** An activation: h, what it is multiplied with, and the product. */
const gate =
  (sign, factor) =>
  ({ inputs: [x], index }) => {
    const h = at(x, index);
    return single(['', 'h', `${sign}(h)`, `h · ${sign}(h)`], '', [h, factor(h), h * factor(h)], [[0, index]]);
  };

const MAKERS = {
  embed: ({ inputs: [ids, table], index: [row, ...column], label }) => {
    const cell = [ids.numbers[row], ...column];
    const columns = ['row of the table', column.length ? `feature ${column}` : 'number'];
    return single(columns, label(table.axes[0], cell[0]), [at(table, cell)], [[1, cell]]);
  },
  sinusoids: ({ inputs: [numbers], index: [row, column], attributes: { base, d_model: width } }) => {
    const exponent = (2 * Math.floor(column / 2)) / width;
    const position = numbers.numbers[row];
    const operands = [
      ['position p', position],
      [`${base}^${exponent.toFixed(4)}`, base ** exponent],
    ];
    return named(operands, [
      ['angle: p divided by this power', position / base ** exponent],
      [column % 2 ? 'cosine of the angle' : 'sine of the angle', sinusoid(position, column, base, width)],
    ]);
  },
  multiply: pair('×', (x, y) => x * y),
  add: pair('+', (x, y) => x + y),
  divide: pair('÷', (x, y) => x / y),
  linear: (cell) => linearCell(cell, ...cell.index),
  project_heads: (cell) => {
    const [head, row, column] = cell.index;
    return linearCell(cell, row, head * (cell.inputs[1].shape[0] / cell.attributes.n_heads) + column);
  },
  matmul: ({ inputs: [x, y], index: [head, row, column], label }) => {
    const values = headOf(y, head);
    const picked = range(values.shape[0]).map((k) => at(values, [k, column]));
    const from = (k) => [[head, row, k], [head, k, column]];
    const rows = products(y.axes[1], rowOf(headOf(x, head), row), picked, label, from);
    return summed(['key', 'weight', 'value', 'product'], rows);
  },
  matmul_transposed: ({ inputs: [x, y], index: [head, row, key], label }) => {
    const [query, other] = [rowOf(headOf(x, head), row), rowOf(headOf(y, head), key)];
    const from = (i) => [[head, row, i], [head, key, i]];
    return summed(['feature', 'q', 'k', 'q · k'], products(x.axes[2], query, other, label, from));
  },
  softmax: softmaxCell,
  concatenate_heads: ({ inputs: [x], index: [row, column] }) => {
    const [head, feature] = [Math.floor(column / x.shape[2]), column % x.shape[2]];
    const cell = [head, row, feature];
    return single(['from', 'number'], `${headTitle(head)}, feature ${feature}`, [at(x, cell)], [[0, cell]]);
  },
  mean: ({ inputs: [x], index: [row], label }) => {
    return averaged(['feature', 'x'], terms(x.axes[1], label, rowOf(x, row), (number) => [number], (i) => [[row, i]]));
  },
  variance: ({ inputs: [x], index: [row], label }) => {
    const line = rowOf(x, row);
    const mean = meanOf(line);
    const cells = (number) => [number - mean, (number - mean) ** 2];
    return averaged(['feature', 'x − μ', '(x − μ)²'], terms(x.axes[1], label, line, cells, (i) => [[row, i]]));
  },
  layer_norm: layerNormCell,
  relu: ({ inputs: [x], index }) =>
    single(['', 'h', 'max(0, h)'], '', [at(x, index), Math.max(0, at(x, index))], [[0, index]]),
  gelu: gate('Φ', (h) => (1 + erf(h / Math.SQRT2)) / 2),
  swish: gate('σ', (h) => 1 / (1 + Math.exp(-h))),
  log_softmax: ({ inputs: [x], index: [row, column], label }) => {
    const line = rowOf(x, row);
    const largest = line.reduce((best, number) => Math.max(best, number), -Infinity);
    const rows = terms(x.axes[1], label, line, (z) => [z, Math.exp(z - largest)], (i) => [[row, i]]);
    const log = logSumExp(line);
    return summed(['token', 'z', `e^(z − ${largest.toFixed(4)})`], rows, [
      ['log of Σ e^z', log],
      [`z of ${label(x.axes[1], column)} − log Σ e^z`, line[column] - log],
    ]);
  },
  add_copies: ({ inputs: [logits, scores, copied], index: [row, token], label }) => {
    const rivals = [
      { label: 'of the vocabulary', score: at(logits, [row, token]), from: [[0, [row, token]]] },
      ...range(scores.shape[1])
        .filter((s) => copied.numbers[s] === token)
        .map((s) => ({ label: label(scores.axes[1], s), score: at(scores, [row, s]), from: [[1, [row, s]]] })),
    ];
    const all = rivals.map(({ score }) => score);
    const largest = Math.max(...all);
    const rows = rivals.map(({ score, ...rest }) => ({ ...rest, cells: [score, Math.exp(score - largest)] }));
    const after = [[`log of the sum, + ${largest.toFixed(4)}`, logSumExp(all)]];
    return summed(['from', 'score', `e^(score − ${largest.toFixed(4)})`], rows, after);
  },
  smooth_targets: ({ inputs: [ids, like], index: [row, column], attributes: { label_smoothing: epsilon } }) => {
    const id = ids.numbers[row];
    const width = like.shape[1];
    const rows = [
      { label: `1 − ε if this is the target, id ${id}`, cells: [id === column ? 1 - epsilon : 0] },
      { label: `ε ÷ ${width} tokens`, cells: [epsilon / width] },
    ];
    return summed(['', ''], rows);
  },
  cross_entropy: ({ inputs: [targets, logProbs], index: [row], label }) => {
    const logs = rowOf(logProbs, row);
    const cells = (q, i) => [q, logs[i], -q * logs[i]];
    const rows = terms(targets.axes[1], label, rowOf(targets, row), cells, (i) => [[row, i], [row, i]]);
    return summed(['token', 'target q', 'log p', '−q · log p'], rows);
  },
  overwrite: ({ inputs: [x, other, where], index }) => {
    const [computed, edited] = [at(x, index), at(other, index)];
    const cells = [computed, edited, at(where, index) ? edited : computed];
    return single(['', 'computed', 'edited', 'result'], '', cells, [[0, index], [1, index]]);
  },
};
