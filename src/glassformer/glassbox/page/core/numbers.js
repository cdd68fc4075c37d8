/**
 * Numbers with named axes: how they are read from a trace and formatted.
 *
 * @typedef {{axes: string[], shape: number[], numbers: Float64Array}} Named  row by row, the last axis innermost
 */

const ARRAYS = { float32: Float32Array, int32: Int32Array, uint8: Uint8Array }; // browsers are little-endian

export const sizeOf = (shape) => shape.reduce((size, length) => size * length, 1);

/** @returns {Named} */
export const named = (axes, shape, numbers = new Float64Array(sizeOf(shape))) => ({ axes, shape, numbers });

/**
 * A tensor from the number of each cell.
 * @param {(line: number, column: number, i: number) => number} numberOf  `line` counts the rows of all heads
 * @returns {Named}
 */
export function filled(axes, shape, numberOf) {
  const columns = shape.at(-1);
  const numbers = new Float64Array(sizeOf(shape)).map((_, i) => numberOf(Math.floor(i / columns), i % columns, i));
  return named(axes, shape, numbers);
}

/**
 * A tensor of the contract: base64 of little-endian numbers.
 * @returns {Named}
 */
export function readTensor({ axes: names, data, dtype }, axes) {
  const shape = names.map((name) => axes[name].length);
  const numbers = new Float64Array(new ARRAYS[dtype](bytesOf(data).buffer));
  if (numbers.length !== sizeOf(shape)) throw new Error(`${numbers.length} numbers for ${shape.join(' × ')}`);
  return named(names, shape, numbers);
}

/** The bytes of a text in base64. */
export function bytesOf(base64) {
  const letters = atob(base64);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = letters.charCodeAt(i); // ten times as fast as Uint8Array.from
  return bytes;
}

/** The offset of the cell with these indices. */
export const offset = (shape, index) => index.reduce((at, i, axis) => at * shape[axis] + i, 0);

export const at = (x, index) => x.numbers[offset(x.shape, index)];

/**
 * after − before, NaN where an index has no counterpart, 0 where it is at most 1e-5 of the largest number (rounding); null where the lengths differ otherwise.
 * @param {(axis: string) => number[]|null} counterparts  the index of `after` for each of `before`; null: the same
 */
export function changeBetween(before, after, counterparts) {
  const found = before.axes.map(counterparts);
  if (before.shape.some((length, i) => !found[i] && length !== after.shape[i])) return null;
  const inAfter = (i) => {
    const index = before.shape.map((length, axis) => Math.floor(i / sizeOf(before.shape.slice(axis + 1))) % length);
    return offset(after.shape, index.map((one, axis) => (found[axis] ? (found[axis][one] ?? NaN) : one)));
  };
  const [isSame, least] = [before.shape.join() === after.shape.join(), 1e-5 * scaleOf(before)];
  const rounded = (change) => (Math.abs(change) <= least ? 0 : change);
  return { ...before, numbers: before.numbers.map((number, i) => rounded(after.numbers[isSame ? i : inAfter(i)] - number)) };
}

/** One head `[rows, columns]` of `[head, rows, columns]`; a tensor without heads is returned unchanged. */
export function headOf(x, head) {
  if (x.axes[0] !== 'head') return x;
  const size = sizeOf(x.shape.slice(1));
  return named(x.axes.slice(1), x.shape.slice(1), x.numbers.subarray(head * size, (head + 1) * size));
}

export const rowOf = (x, row) => x.numbers.subarray(row * x.shape.at(-1), (row + 1) * x.shape.at(-1));

export function dot(a, aFrom, b, bFrom, length) {
  let sum = 0;
  for (let i = 0; i < length; i += 1) sum += a[aFrom + i] * b[bFrom + i];
  return sum;
}

export const sumOf = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

export const meanOf = (numbers) => sumOf(numbers) / numbers.length;

/** The largest absolute value, for the scale of a picture. */
export const scaleOf = (x) => x.numbers.reduce((best, number) => Math.max(best, Math.abs(number) || 0), 1e-12);

/** With a real minus sign, and without one before zeros. */
const fixed = (number, decimals) => {
  const text = number.toFixed(decimals);
  return Number(text) === 0 ? text.replace('-', '') : text.replace('-', '−');
};

/** As many digits as fit into a narrow cell: 3 after the point for small numbers, fewer for large ones. */
export function shortDigits(number, most = 3) {
  if (Number.isNaN(number)) return '–';
  const size = Math.abs(number);
  return fixed(number, Number.isInteger(number) ? 0 : most - [10, 100, 1000].filter((limit) => size >= limit).length);
}

/** The same with one digit more, and with a power of ten where all of them would be 0. */
export function digits(number) {
  const size = Math.abs(number);
  return size > 0 && size < 0.0001 ? number.toExponential(2).replaceAll('-', '−') : shortDigits(number, 4);
}

/** A probability or fraction in percent, which is not split at the end of a line. */
export function percent(p) {
  if (p > 0.999 && p < 1) return '>\u00a099.9\u00a0%';
  if (p > 0 && p < 1e-5) return '<\u00a00.001\u00a0%';
  return `${p > 0 && p < 0.001 ? Number((p * 100).toPrecision(2)) : (p * 100).toFixed(1)}\u00a0%`;
}

const RAISED = { '-': '⁻', ...Object.fromEntries([...'⁰¹²³⁴⁵⁶⁷⁸⁹'].map((digit, i) => [i, digit])) };

/** "10⁻⁷" */
export const powerOfTen = (exponent) => `10${[...String(exponent)].map((letter) => RAISED[letter]).join('')}`;

/** A probability in percent, such as "8.5 × 10⁻⁵ %" where it would have too many zeros. */
export function probability(p) {
  if (p === 0 || p >= 1e-5) return percent(p);
  const [digits, exponent] = (p * 100).toExponential(1).split('e');
  return `${digits}\u00a0×\u00a0${powerOfTen(Number(exponent))}\u00a0%`;
}

/** Round numbers from one to another, at most `most` of them and one more. */
export function ticks(low, high, most) {
  const least = (high - low || 1) / most;
  const unit = 10 ** Math.floor(Math.log10(least));
  const step = unit * [1, 2, 2.5, 5, 10].find((factor) => factor * unit >= least);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

export const grouped = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ',');

export const shapeText = (x) => x.axes.map((name, i) => `${name} ${grouped(x.shape[i])}`).join(' × ') || 'one number';

/** The largest number. A spread into Math.max fails from about 120,000 numbers on. */
export const largest = (numbers) => numbers.reduce((best, number) => Math.max(best, number), -Infinity);
export const indexOfLargest = (numbers) => numbers.indexOf(largest(numbers));

/** @returns {{smallest: number, largest: number, mean: number, deviation: number, zeros: number}} */
export function statistics(numbers) {
  const mean = meanOf(numbers);
  return {
    smallest: numbers.reduce((best, number) => Math.min(best, number), Infinity),
    largest: largest(numbers),
    mean,
    deviation: Math.sqrt(meanOf(numbers.map((number) => (number - mean) ** 2))),
    zeros: meanOf(numbers.map((number) => Number(number === 0))),
  };
}

/** −Σ p ln p of each row, in nats. */
export function entropies(weights) {
  const surprise = (sum, p) => (p > 0 ? sum - p * Math.log(p) : sum);
  return Array.from({ length: weights.shape[0] }, (_, row) => rowOf(weights, row).reduce(surprise, 0));
}
