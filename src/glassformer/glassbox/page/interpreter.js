/**
 * Recompute a step of a trace from its inputs: each op of the closed set (docs/trace-schema.md), and the axes of its
 * output.
 *
 * It is the counterpart of glassbox/interpreter.py; `model.js` computes with it too.
 */

import { erf } from 'glassbox/erf.js';
import { dot, meanOf, named, sizeOf } from 'glassbox/numbers.js';

/** @typedef {import('./numbers.js').Named} Named */

/**
 * @param {{op: string, attributes: Object<string, number>}} step
 * @param {Named[]} inputs
 * @returns {Named}
 */
export function recompute(step, inputs) {
  const operation = OPERATIONS[step.op];
  if (!operation) throw new Error(`unknown op ${step.op}`);
  return operation(inputs, step.attributes);
}

function checkAxes(one, other) {
  if (one.join() !== other.join()) throw new Error(`the axes do not match: ${one.join(', ')} and ${other.join(', ')}`);
}

/** Each number of x changed. */
const changed = (x, change) => named(x.axes, x.shape, x.numbers.map(change));

const elementwise =
  (combine) =>
  ([x, y]) => {
    if (y.axes.length) checkAxes(x.axes, y.axes); // a scalar is broadcast
    const step = y.axes.length ? 1 : 0;
    return changed(x, (number, i) => combine(number, y.numbers[i * step]));
  };

const unary =
  (change) =>
  ([x]) =>
    changed(x, change);

/** One number of each row of x [r d]. */
function byRow(x, reduce) {
  const [rows, width] = x.shape;
  const numbers = Float64Array.from({ length: rows }, (_, row) =>
    reduce(x.numbers.subarray(row * width, (row + 1) * width)),
  );
  return named(x.axes.slice(0, 1), [rows], numbers);
}

function embed([ids, table]) {
  const width = table.shape[1];
  const found = named([...ids.axes, table.axes[1]], [ids.shape[0], width]);
  ids.numbers.forEach((id, row) => {
    if (id < 0 || id >= table.shape[0]) throw new Error(`id ${id} is not in the table of ${table.shape[0]} rows`);
    found.numbers.set(table.numbers.subarray(id * width, (id + 1) * width), row * width);
  });
  return found;
}

export function sinusoid(position, column, base, width) {
  const angle = position * base ** ((-2 * Math.floor(column / 2)) / width);
  return column % 2 ? Math.cos(angle) : Math.sin(angle);
}

function sinusoids([numbers], { base, d_model: width }) {
  const found = named([...numbers.axes, 'd_model'], [numbers.shape[0], width]);
  found.numbers.forEach((_, i) => {
    found.numbers[i] = sinusoid(numbers.numbers[Math.floor(i / width)], i % width, base, width);
  });
  return found;
}

/** x [r i], W [o i], b [o] -> x Wᵀ + b [r o] */
function linear([x, weight, bias]) {
  checkAxes(x.axes.slice(-1), weight.axes.slice(1));
  const [rows, inner] = x.shape;
  const outer = weight.shape[0];
  const found = named([x.axes[0], weight.axes[0]], [rows, outer]);
  for (let row = 0; row < rows; row += 1) {
    for (let o = 0; o < outer; o += 1) {
      const sum = dot(x.numbers, row * inner, weight.numbers, o * inner, inner);
      found.numbers[row * outer + o] = sum + (bias ? bias.numbers[o] : 0);
    }
  }
  return found;
}

/** Head i consists of the columns i·d … (i+1)·d - 1 of x Wᵀ. */
function projectHeads(inputs, { n_heads: heads, as_keys: asKeys }) {
  const joined = linear(inputs);
  const [rows, all] = joined.shape;
  const width = all / heads;
  const positions = asKeys ? `${joined.axes[0]}_key` : joined.axes[0];
  const found = named(['head', positions, joined.axes[1].replace(/^heads_/, '')], [heads, rows, width]);
  for (let head = 0; head < heads; head += 1) {
    for (let row = 0; row < rows; row += 1) {
      const from = row * all + head * width;
      found.numbers.set(joined.numbers.subarray(from, from + width), (head * rows + row) * width);
    }
  }
  return found;
}

/** x [h r k], y [h k d] -> [h r d] */
function matmul([x, y]) {
  checkAxes([x.axes[0], x.axes[2]], y.axes.slice(0, 2));
  const [heads, rows, inner] = x.shape;
  const width = y.shape[2];
  const found = named([x.axes[0], x.axes[1], y.axes[2]], [heads, rows, width]);
  for (let line = 0; line < heads * rows; line += 1) {
    const head = Math.floor(line / rows);
    for (let k = 0; k < inner; k += 1) {
      const weight = x.numbers[line * inner + k];
      const from = (head * inner + k) * width;
      for (let d = 0; d < width; d += 1) found.numbers[line * width + d] += weight * y.numbers[from + d];
    }
  }
  return found;
}

/** x [h r d], y [h k d] -> [h r k] */
function matmulTransposed([x, y]) {
  checkAxes([x.axes[0], x.axes[2]], [y.axes[0], y.axes[2]]);
  const [heads, rows, width] = x.shape;
  const keys = y.shape[1];
  const found = named([x.axes[0], x.axes[1], y.axes[1]], [heads, rows, keys]);
  for (let line = 0; line < heads * rows; line += 1) {
    const head = Math.floor(line / rows);
    for (let key = 0; key < keys; key += 1) {
      found.numbers[line * keys + key] = dot(x.numbers, line * width, y.numbers, (head * keys + key) * width, width);
    }
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
  const found = named([x.axes[1], `heads_${x.axes[2]}`], [rows, heads * width]);
  for (let line = 0; line < heads * rows; line += 1) {
    const [head, row] = [Math.floor(line / rows), line % rows];
    found.numbers.set(x.numbers.subarray(line * width, (line + 1) * width), (row * heads + head) * width);
  }
  return found;
}

const mean = ([x]) => byRow(x, meanOf);

const variance = ([x]) =>
  byRow(x, (row) => {
    const average = meanOf(row);
    return row.reduce((sum, number) => sum + (number - average) ** 2, 0) / row.length;
  });

function layerNorm([x, means, variances, gain, bias], { eps }) {
  for (const row of [means, variances]) checkAxes(row.axes, x.axes.slice(0, 1));
  for (const feature of [gain, bias]) checkAxes(feature.axes, x.axes.slice(1));
  const width = x.shape[1];
  return changed(x, (number, i) => {
    const [row, column] = [Math.floor(i / width), i % width];
    const normalized = (number - means.numbers[row]) / Math.sqrt(variances.numbers[row] + eps);
    return normalized * gain.numbers[column] + bias.numbers[column];
  });
}

export function logSumExp(row) {
  const largest = row.reduce((best, number) => Math.max(best, number), -Infinity);
  return largest + Math.log(row.reduce((sum, number) => sum + Math.exp(number - largest), 0));
}

function logSoftmax([x]) {
  const totals = byRow(x, logSumExp).numbers;
  return changed(x, (number, i) => number - totals[Math.floor(i / x.shape[1])]);
}

function smoothTargets([ids, like], { label_smoothing: epsilon }) {
  checkAxes(ids.axes, like.axes.slice(0, 1));
  const width = like.shape[1];
  const found = named(like.axes, like.shape, new Float64Array(sizeOf(like.shape)).fill(epsilon / width));
  ids.numbers.forEach((id, row) => {
    found.numbers[row * width + id] += 1 - epsilon;
  });
  return found;
}

function crossEntropy([targets, logProbs]) {
  checkAxes(targets.axes, logProbs.axes);
  const [rows, width] = targets.shape;
  const numbers = Float64Array.from(
    { length: rows },
    (_, row) => -dot(targets.numbers, row * width, logProbs.numbers, row * width, width),
  );
  return named(targets.axes.slice(0, 1), [rows], numbers);
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
  log_softmax: logSoftmax,
  smooth_targets: smoothTargets,
  cross_entropy: crossEntropy,
  overwrite,
};
