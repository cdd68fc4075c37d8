/**
 * Recompute a step of a trace from its inputs: each op of the closed set (docs/trace-schema.md), and the axes of its
 * output.
 *
 * `model.js` computes with it too.
 */

import { range } from 'glassbox/core/dom.js';
import { erf } from 'glassbox/model/erf.js';
import { dot, filled, meanOf, named, rowOf } from 'glassbox/core/numbers.js';

/** @typedef {import('./numbers.js').Named} Named */

/**
 * @param {{op: string, attributes: Object<string, number>}} step
 * @param {Named[]} inputs
 * @param {{x: Named, output: Named, isLast: boolean}|null} before  the first input and the output of another run with the
 *   same weights, and whether only the last row is needed
 * @returns {Named}
 */
export function recompute(step, inputs, before = null) {
  const operation = OPERATIONS[step.op];
  if (!operation) throw new Error(`unknown op ${step.op}`);
  return operation(inputs, step.attributes, before);
}

function checkAxes(one, other) {
  if (one.join() !== other.join()) throw new Error(`the axes do not match: ${one.join(', ')} and ${other.join(', ')}`);
}

/** Each number of x changed; a loop takes half the time of `map`. */
function changed(x, change) {
  const found = named(x.axes, x.shape);
  for (let i = 0; i < x.numbers.length; i += 1) found.numbers[i] = change(x.numbers[i], i);
  return found;
}

const elementwise =
  (combine) =>
  ([x, y]) => {
    if (y.axes.length) checkAxes(x.axes, y.axes); // a scalar is broadcast
    const step = y.axes.length ? 1 : 0;
    const found = named(x.axes, x.shape);
    for (let i = 0; i < x.numbers.length; i += 1) found.numbers[i] = combine(x.numbers[i], y.numbers[i * step]);
    return found;
  };

const unary =
  (change) =>
  ([x]) =>
    changed(x, change);

/** One number of each row of x [r d]. */
const byRow = (x, reduce) => filled(x.axes.slice(0, 1), x.shape.slice(0, 1), (_, row) => reduce(rowOf(x, row)));

function embed([ids, table]) {
  const [rows, width = 1] = table.shape;
  const unknown = ids.numbers.find((id) => id < 0 || id >= rows);
  if (unknown !== undefined) throw new Error(`id ${unknown} is not in the table of ${rows} rows`);
  const [axes, shape] = [[...ids.axes, ...table.axes.slice(1)], [...ids.shape, ...table.shape.slice(1)]];
  return filled(axes, shape, (_, __, i) => table.numbers[ids.numbers[Math.floor(i / width)] * width + (i % width)]);
}

export function sinusoid(position, column, base, width) {
  const angle = position * base ** ((-2 * Math.floor(column / 2)) / width);
  return column % 2 ? Math.cos(angle) : Math.sin(angle);
}

const sinusoids = ([numbers], { base, d_model: width }) =>
  filled([...numbers.axes, 'd_model'], [numbers.shape[0], width], (row, column) =>
    sinusoid(numbers.numbers[row], column, base, width),
  );

/** x [r i], W [o i], b [o] -> x Wᵀ + b [r o]; rows that are as in `before`, or that nothing needs, are taken from it. */
function linear([x, weight, bias], _, before) {
  checkAxes(x.axes.slice(-1), weight.axes.slice(1));
  const [[rows, inner], [outer]] = [x.shape, weight.shape];
  const isOther = (row) => !before || rowOf(x, row).some((number, i) => number !== before.x.numbers[row * inner + i]);
  const others = range(rows).slice(before?.isLast ? -1 : 0).filter(isOther);
  const kept = others.length < rows ? before.output.numbers.slice() : undefined;
  const found = named([x.axes[0], weight.axes[0]], [rows, outer], kept);
  multiply(x.numbers, others, weight.numbers, outer, inner, found.numbers);
  if (bias) for (const row of others) for (let o = 0; o < outer; o += 1) found.numbers[row * outer + o] += bias.numbers[o];
  return found;
}

/** These rows of x [r i] Wᵀ [i o], eight columns at a time: a processor does eight sums at once. It must make no lists. */
function multiply(x, rows, w, outer, inner, found) {
  const last = (outer - 1) * inner;
  for (let o = 0; o < outer; o += 8) {
    const w0 = o * inner;
    const w1 = Math.min(w0 + inner, last);
    const w2 = Math.min(w1 + inner, last);
    const w3 = Math.min(w2 + inner, last);
    const w4 = Math.min(w3 + inner, last);
    const w5 = Math.min(w4 + inner, last);
    const w6 = Math.min(w5 + inner, last);
    const w7 = Math.min(w6 + inner, last);
    for (const row of rows) {
      const start = row * inner;
      let s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0; // prettier-ignore
      for (let i = 0; i < inner; i += 1) {
        const number = x[start + i];
        s0 += number * w[w0 + i];
        s1 += number * w[w1 + i];
        s2 += number * w[w2 + i];
        s3 += number * w[w3 + i];
        s4 += number * w[w4 + i];
        s5 += number * w[w5 + i];
        s6 += number * w[w6 + i];
        s7 += number * w[w7 + i];
      }
      const sums = [s0, s1, s2, s3, s4, s5, s6, s7];
      for (let column = o; column < Math.min(o + 8, outer); column += 1) found[row * outer + column] = sums[column - o];
    }
  }
}

/** Head i consists of the columns i·d … (i+1)·d - 1 of x Wᵀ. */
function projectHeads(inputs, { n_heads: heads, as_keys: asKeys }, before) {
  const joined = linear(inputs, null, before && { ...before, output: concatenateHeads([before.output]) });
  const [rows, all] = joined.shape;
  const width = all / heads;
  const positions = asKeys ? `${joined.axes[0]}_key` : joined.axes[0];
  const axes = ['head', positions, joined.axes[1].replace(/^heads_/, '')];
  return named(axes, [heads, rows, width], swapped(joined.numbers, [rows, heads, width]));
}

/** The numbers of x [a b d] as [b a d]. */
function swapped(numbers, [first, second, width]) {
  const found = new Float64Array(numbers.length);
  for (let i = 0, to = 0; i < second; i += 1)
    for (let j = 0; j < first; j += 1)
      for (let d = 0, from = (j * second + i) * width; d < width; d += 1, from += 1, to += 1) found[to] = numbers[from];
  return found;
}

/** x [h r k], y [h k d] -> [h r d] */
function matmul([x, y]) {
  checkAxes([x.axes[0], x.axes[2]], y.axes.slice(0, 2));
  const [heads, rows, inner] = x.shape;
  const width = y.shape[2];
  const sums = new Float64Array(heads * rows * width);
  for (let line = 0; line < heads * rows; line += 1)
    for (let k = 0; k < inner; k += 1) {
      const weight = x.numbers[line * inner + k];
      if (weight === 0) continue; // of a key that is not seen
      const from = (Math.floor(line / rows) * inner + k) * width;
      for (let d = 0; d < width; d += 1) sums[line * width + d] += weight * y.numbers[from + d];
    }
  return named([x.axes[0], x.axes[1], y.axes[2]], [heads, rows, width], sums);
}

/** x [h r d], y [h k d] -> [h r k] */
function matmulTransposed([x, y]) {
  checkAxes([x.axes[0], x.axes[2]], [y.axes[0], y.axes[2]]);
  const [heads, rows, width] = x.shape;
  const keys = y.shape[1];
  const found = named([x.axes[0], x.axes[1], y.axes[1]], [heads, rows, keys]);
  for (let line = 0; line < heads * rows; line += 1)
    for (let key = 0; key < keys; key += 1) {
      const from = (Math.floor(line / rows) * keys + key) * width;
      found.numbers[line * keys + key] = dot(x.numbers, line * width, y.numbers, from, width);
    }
  return found;
}

/** Over the last axis, where the mask is 0; a row that is fully masked is all zeros. */
function softmax([scores, mask]) {
  checkAxes(scores.axes.slice(1), mask.axes);
  const [heads, rows, keys] = scores.shape;
  const found = named(scores.axes, scores.shape);
  for (let line = 0; line < heads * rows; line += 1) {
    const visible = (key) => mask.numbers[(line % rows) * keys + key] === 0;
    let [largest, total] = [-Infinity, 0];
    for (let key = 0; key < keys; key += 1) {
      if (visible(key)) largest = Math.max(largest, scores.numbers[line * keys + key]);
    }
    for (let key = 0; key < keys; key += 1) {
      if (!visible(key)) continue;
      const power = Math.exp(scores.numbers[line * keys + key] - largest);
      found.numbers[line * keys + key] = power;
      total += power;
    }
    if (total > 0) for (let key = 0; key < keys; key += 1) found.numbers[line * keys + key] /= total;
  }
  return found;
}

function concatenateHeads([x]) {
  const [heads, rows, width] = x.shape;
  return named([x.axes[1], `heads_${x.axes[2]}`], [rows, heads * width], swapped(x.numbers, x.shape));
}

const mean = ([x]) => byRow(x, meanOf);

const variance = ([x]) =>
  byRow(x, (row) => {
    const average = meanOf(row);
    let sum = 0;
    for (let i = 0; i < row.length; i += 1) sum += (row[i] - average) ** 2;
    return sum / row.length;
  });

function layerNorm([x, means, variances, gain, bias], { eps }) {
  for (const row of [means, variances]) checkAxes(row.axes, x.axes.slice(0, 1));
  for (const feature of [gain, bias]) checkAxes(feature.axes, x.axes.slice(1));
  const found = named(x.axes, x.shape);
  const [rows, width] = x.shape;
  for (let row = 0, i = 0; row < rows; row += 1) {
    const deviation = Math.sqrt(variances.numbers[row] + eps);
    for (let column = 0; column < width; column += 1, i += 1) {
      const normalized = (x.numbers[i] - means.numbers[row]) / deviation;
      found.numbers[i] = normalized * gain.numbers[column] + bias.numbers[column];
    }
  }
  return found;
}

export function logSumExp(row) {
  const largest = row.reduce((best, number) => Math.max(best, number), -Infinity);
  return largest + Math.log(row.reduce((sum, number) => sum + Math.exp(number - largest), 0));
}

function logSoftmax([x]) {
  const totals = byRow(x, logSumExp).numbers;
  return filled(x.axes, x.shape, (row, _, i) => x.numbers[i] - totals[row]);
}

/** log(e^z + Σ e^u) of each token, over the source positions whose token it is. */
function addCopies([logits, scores, copied]) {
  checkAxes(scores.axes, [logits.axes[0], copied.axes[0]]);
  const [[rows, width], [length]] = [logits.shape, copied.shape];
  const found = changed(logits, (number) => number);
  for (let row = 0; row < rows; row += 1)
    for (let s = 0; s < length; s += 1) {
      if (copied.numbers[s] < 0) continue;
      const at = row * width + copied.numbers[s];
      found.numbers[at] = logSumExp([found.numbers[at], scores.numbers[row * length + s]]);
    }
  return found;
}

function smoothTargets([ids, like], { label_smoothing: epsilon }) {
  checkAxes(ids.axes, like.axes.slice(0, 1));
  const even = epsilon / like.shape[1];
  return filled(like.axes, like.shape, (row, id) => (id === ids.numbers[row] ? even + (1 - epsilon) : even));
}

function crossEntropy([targets, logProbs]) {
  checkAxes(targets.axes, logProbs.axes);
  const [rows, width] = targets.shape;
  const loss = (_, row) => -dot(targets.numbers, row * width, logProbs.numbers, row * width, width);
  return filled(targets.axes.slice(0, 1), [rows], loss);
}

function overwrite([x, other, where]) {
  for (const input of [other, where]) checkAxes(x.axes, input.axes);
  return changed(x, (number, i) => (where.numbers[i] ? other.numbers[i] : number));
}

const OPERATIONS = {
  embed,
  sinusoids,
  multiply: elementwise((x, y) => x * y),
  add: elementwise((x, y) => x + y),
  divide: elementwise((x, y) => x / y),
  project_heads: projectHeads,
  linear,
  matmul,
  matmul_transposed: matmulTransposed,
  softmax,
  concatenate_heads: concatenateHeads,
  mean,
  variance,
  layer_norm: layerNorm,
  relu: unary((number) => Math.max(number, 0)),
  swish: unary((number) => number / (1 + Math.exp(-number))),
  gelu: unary((number) => (number * (1 + erf(number / Math.SQRT2))) / 2),
  add_copies: addCopies,
  log_softmax: logSoftmax,
  smooth_targets: smoothTargets,
  cross_entropy: crossEntropy,
  overwrite,
};
