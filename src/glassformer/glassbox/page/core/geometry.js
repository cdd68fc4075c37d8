/** The geometry of the rows of an embedding: cosines, and the first two principal components. */

import { dot } from 'glassbox/core/numbers.js';

/** @param {Float64Array} one @param {Float64Array} other */
export function cosine(one, other) {
  const width = one.length;
  const size = Math.sqrt(dot(one, 0, one, 0, width) * dot(other, 0, other, 0, width));
  return size > 0 ? dot(one, 0, other, 0, width) / size : 0;
}

const ROUNDS = 200;

/**
 * Two coordinates of each row: the components of largest variance, by power iteration from a fixed start. The sign is
 * chosen so that the largest coordinate is positive: the same rows always give the same picture. `fractions` are the
 * fractions of the variance that the two components explain.
 * @param {Float64Array[]} rows
 */
export function principal(rows) {
  const width = rows[0].length;
  const mean = Float64Array.from({ length: width }, (_, i) => rows.reduce((sum, row) => sum + row[i], 0) / rows.length);
  let left = rows.map((row) => row.map((number, i) => number - mean[i]));
  const total = left.reduce((sum, row) => sum + dot(row, 0, row, 0, width), 0);
  const found = [0, 1].map((which) => {
    const direction = mainDirection(left, width, which);
    let along = left.map((row) => dot(row, 0, direction, 0, width));
    left = left.map((row, at) => row.map((number, i) => number - along[at] * direction[i]));
    const largest = along.reduce((best, number) => (Math.abs(number) > Math.abs(best) ? number : best), 0);
    if (largest < 0) along = along.map((number) => -number);
    return { along, fraction: along.reduce((sum, number) => sum + number * number, 0) / (total || 1) };
  });
  return {
    points: rows.map((_, at) => [found[0].along[at], found[1].along[at]]),
    fractions: found.map(({ fraction }) => fraction),
  };
}

function mainDirection(rows, width, which) {
  let direction = Float64Array.from({ length: width }, (_, i) => Math.cos(i * (which + 1) + which));
  for (let round = 0; round < ROUNDS; round += 1) {
    const next = new Float64Array(width);
    for (const row of rows) {
      const projection = dot(row, 0, direction, 0, width);
      for (let i = 0; i < width; i += 1) next[i] += projection * row[i];
    }
    const size = Math.sqrt(dot(next, 0, next, 0, width));
    if (size < 1e-12) break;
    direction = next.map((number) => number / size);
  }
  return direction;
}
