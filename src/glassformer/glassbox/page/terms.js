/**
 * One cell and its terms: the operands, and how they give the number.
 *
 * @typedef {import('./numbers.js').Named} Named
 * @typedef {{
 *   columns: string[], rows: {label: string, cells: (number|string)[], from?: ([string, number[]]|null)[]}[],
 *   sum: number|null, after: [string, number][], value: number}} Terms
 * The last cell of each row is its term; the terms add up to `sum`; the lines of `after` lead from there to `value`.
 * `from` has the tensor and the index of each number that is a cell of an input.
 */

import { erf } from 'glassbox/erf.js';
import { logSumExp, sinusoid } from 'glassbox/interpreter.js';
import { at, headOf, rowOf } from 'glassbox/numbers.js';

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
  const named = (from) => from && [step.inputs[from[0]], from[1]];
  return { ...found, rows: found.rows.map((row) => ({ ...row, from: (row.from ?? []).map(named) })) };
}

const total = (rows) => rows.reduce((sum, row) => sum + row.cells.at(-1), 0);

function summed(columns, rows, after = []) {
  const sum = total(rows);
  return { columns, rows, sum, after, value: after.length ? after.at(-1)[1] : sum };
}

/** No sum: one row of operands and their result. */
const single = (columns, label, cells, from) => ({
  columns,
  rows: [{ label, cells, from }],
  sum: null,
  after: [],
  value: cells.at(-1),
});

/** x[i] · w[i] for all indices of an axis; `indices(i)` are those of the two cells in inputs 0 and 1. */
function products(axis, x, w, label, indices) {
  return Array.from(x, (number, i) => ({
    label: label(axis, i),
    cells: [number, w[i], number * w[i]],
    from: indices(i).map((index, input) => [input, index]),
  }));
}

/** Row `o` of x Wᵀ + b. */
function linearCell({ inputs: [x, weight, bias], label }, row, o) {
  const rows = products(x.axes[1], rowOf(x, row), rowOf(weight, o), label, (i) => [
    [row, i],
    [o, i],
  ]);
  const plain = total(rows);
  return summed(
    ['feature', 'x', 'W', 'x · W'],
    rows,
    bias ? [[`+ bias ${bias.numbers[o].toFixed(4)}`, plain + bias.numbers[o]]] : [],
  );
}

function softmaxCell({ inputs: [scores, mask], index: [head, row, key], label, reasons }) {
  const line = rowOf(headOf(scores, head), row);
  const codes = rowOf(mask, row);
  const largest = Math.max(...line.filter((_, k) => codes[k] === 0));
  const power = (k) => (codes[k] ? 0 : Math.exp(line[k] - largest));
  const rows = Array.from(line, (score, k) => ({
    label: label(scores.axes[2], k),
    cells: [codes[k] ? reasons[codes[k]] : score, power(k)],
    from: [[0, [head, row, k]]],
  }));
  const sum = total(rows);
  const value = sum > 0 ? power(key) / sum : 0;
  return summed(['key', 'score', `e^(score − ${largest.toFixed(4)})`], rows, [
    [`÷ sum: weight of ${label(scores.axes[2], key)}`, value],
  ]);
}

function layerNormCell({ inputs: [x, mean, variance, gain, bias], index, attributes: { eps } }) {
  const [row, column] = index;
  const centered = at(x, index) - mean.numbers[row];
  const normalized = centered / Math.sqrt(variance.numbers[row] + eps);
  const scaled = normalized * gain.numbers[column];
  return {
    columns: ['', ''],
    rows: [
      ['x', at(x, index), [0, index]],
      ['μ of the row', mean.numbers[row], [1, [row]]],
      ['σ² of the row', variance.numbers[row], [2, [row]]],
      ['ε', eps, null],
      ['γ', gain.numbers[column], [3, [column]]],
      ['β', bias.numbers[column], [4, [column]]],
    ].map(([label, number, from]) => ({ label, cells: [number], from: [from] })),
    sum: null,
    after: [
      ['x − μ', centered],
      ['÷ √(σ² + ε)', normalized],
      ['· γ', scaled],
      ['+ β', scaled + bias.numbers[column]],
    ],
    value: scaled + bias.numbers[column],
  };
}

const pair =
  (sign, combine) =>
  ({ inputs: [x, y], index }) => {
    const [left, right] = [at(x, index), y.axes.length ? at(y, index) : y.numbers[0]];
    const from = [
      [0, index],
      [1, y.axes.length ? index : []],
    ];
    return single(['', 'x', `${sign} y`, `x ${sign} y`], '', [left, right, combine(left, right)], from);
  };

const MAKERS = {
  embed: ({ inputs: [ids, table], index: [row, column], label }) => {
    const id = ids.numbers[row];
    return single(
      ['row of the table', `feature ${column}`],
      label(table.axes[0], id),
      [at(table, [id, column])],
      [[1, [id, column]]],
    );
  },
  sinusoids: ({ inputs: [numbers], index: [row, column], attributes: { base, d_model: width } }) => {
    const exponent = (2 * Math.floor(column / 2)) / width;
    const angle = numbers.numbers[row] / base ** exponent;
    const wave = sinusoid(numbers.numbers[row], column, base, width);
    const given = [
      ['position p', numbers.numbers[row]],
      [`${base}^${exponent.toFixed(4)}`, base ** exponent],
    ];
    return {
      columns: ['', ''],
      rows: given.map(([label, number]) => ({ label, cells: [number] })),
      sum: null,
      after: [
        ['angle: p divided by this power', angle],
        [column % 2 ? 'cosine of the angle' : 'sine of the angle', wave],
      ],
      value: wave,
    };
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
    const picked = Float64Array.from({ length: values.shape[0] }, (_, k) => at(values, [k, column]));
    return summed(
      ['key', 'weight', 'value', 'product'],
      products(y.axes[1], rowOf(headOf(x, head), row), picked, label, (k) => [
        [head, row, k],
        [head, k, column],
      ]),
    );
  },
  matmul_transposed: ({ inputs: [x, y], index: [head, row, key], label }) =>
    summed(
      ['feature', 'q', 'k', 'q · k'],
      products(x.axes[2], rowOf(headOf(x, head), row), rowOf(headOf(y, head), key), label, (i) => [
        [head, row, i],
        [head, key, i],
      ]),
    ),
  softmax: softmaxCell,
  concatenate_heads: ({ inputs: [x], index: [row, column] }) => {
    const [head, feature] = [Math.floor(column / x.shape[2]), column % x.shape[2]];
    return single(
      ['from', 'number'],
      `head ${head}, feature ${feature}`,
      [at(x, [head, row, feature])],
      [[0, [head, row, feature]]],
    );
  },
  mean: ({ inputs: [x], index: [row], label }) => {
    const rows = Array.from(rowOf(x, row), (number, i) => ({
      label: label(x.axes[1], i),
      cells: [number],
      from: [[0, [row, i]]],
    }));
    return summed(['feature', 'x'], rows, [[`÷ ${rows.length}`, total(rows) / rows.length]]);
  },
  variance: ({ inputs: [x], index: [row], label }) => {
    const line = rowOf(x, row);
    const mean = line.reduce((sum, number) => sum + number, 0) / line.length;
    const rows = Array.from(line, (number, i) => ({
      label: label(x.axes[1], i),
      cells: [number - mean, (number - mean) ** 2],
      from: [[0, [row, i]]],
    }));
    return summed(['feature', 'x − μ', '(x − μ)²'], rows, [[`÷ ${rows.length}`, total(rows) / rows.length]]);
  },
  layer_norm: layerNormCell,
  relu: ({ inputs: [x], index }) =>
    single(['', 'h', 'max(0, h)'], '', [at(x, index), Math.max(0, at(x, index))], [[0, index]]),
  gelu: ({ inputs: [x], index }) => {
    const h = at(x, index);
    const phi = (1 + erf(h / Math.SQRT2)) / 2;
    return single(['', 'h', 'Φ(h)', 'h · Φ(h)'], '', [h, phi, h * phi], [[0, index]]);
  },
  swish: ({ inputs: [x], index }) => {
    const h = at(x, index);
    const sigma = 1 / (1 + Math.exp(-h));
    return single(['', 'h', 'σ(h)', 'h · σ(h)'], '', [h, sigma, h * sigma], [[0, index]]);
  },
  log_softmax: ({ inputs: [x], index: [row, column], label }) => {
    const line = rowOf(x, row);
    const largest = line.reduce((best, number) => Math.max(best, number), -Infinity);
    const rows = Array.from(line, (z, i) => ({
      label: label(x.axes[1], i),
      cells: [z, Math.exp(z - largest)],
      from: [[0, [row, i]]],
    }));
    const log = logSumExp(line);
    return summed(['token', 'z', `e^(z − ${largest.toFixed(4)})`], rows, [
      ['log of Σ e^z', log],
      [`z of ${label(x.axes[1], column)} − log Σ e^z`, line[column] - log],
    ]);
  },
  smooth_targets: ({ inputs: [ids, like], index: [row, column], attributes: { label_smoothing: epsilon } }) =>
    summed(
      ['', ''],
      [
        {
          label: `1 − ε if this is the target, id ${ids.numbers[row]}`,
          cells: [ids.numbers[row] === column ? 1 - epsilon : 0],
        },
        { label: `ε ÷ ${like.shape[1]} tokens`, cells: [epsilon / like.shape[1]] },
      ],
    ),
  cross_entropy: ({ inputs: [targets, logProbs], index: [row], label }) => {
    const [probabilities, logs] = [rowOf(targets, row), rowOf(logProbs, row)];
    const rows = Array.from(probabilities, (q, i) => ({
      label: label(targets.axes[1], i),
      cells: [q, logs[i], -q * logs[i]],
      from: [
        [0, [row, i]],
        [1, [row, i]],
      ],
    }));
    return summed(['token', 'target q', 'log p', '−q · log p'], rows);
  },
  overwrite: ({ inputs: [x, other, where], index }) => {
    const value = at(where, index) ? at(other, index) : at(x, index);
    return single(
      ['', 'computed', 'edited', 'result'],
      '',
      [at(x, index), at(other, index), value],
      [
        [0, index],
        [1, index],
      ],
    );
  },
};
