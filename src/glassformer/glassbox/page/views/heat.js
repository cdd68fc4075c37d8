/** A matrix as a small picture: squares of a few shades, blue above 0, orange below. */

import { el, range, svg } from 'glassbox/core/dom.js';
import { digits } from 'glassbox/core/numbers.js';

const SHADES = 16;
const MAX_CELLS = 160; // along one side; of a larger matrix each square is the largest of several numbers

/**
 * @param {import('./numbers.js').Named} x  with two axes
 * @param {number} scale  the absolute value with the full color
 * @param {object} attributes  of the svg element
 */
export function heat(x, scale, attributes = {}) {
  const [down, across] = x.shape.map((length) => Math.min(length, MAX_CELLS));
  const paths = new Map();
  for (const row of range(down)) {
    for (const column of range(across)) {
      const number = largestOf(x, span(row, down, x.shape[0]), span(column, across, x.shape[1]));
      const shade = Math.ceil(Math.min(1, Math.abs(number) / scale) * SHADES) / SHADES;
      if (!(Math.abs(number) >= scale * 0.015)) continue;
      const key = `${number < 0 ? 'minus' : 'plus'} ${shade}`;
      paths.set(key, `${paths.get(key) ?? ''}M${column} ${row}h1v1h-1z`);
    }
  }
  const shapes = [...paths].map(([key, d]) => svg('path', { class: key.split(' ')[0], d, 'fill-opacity': key.split(' ')[1] }));
  return svg('svg.heat', { viewBox: `0 0 ${across} ${down}`, preserveAspectRatio: 'none', ...attributes }, shapes);
}

/** The scale of colors. @param {string|null} words  instead of what the colors mean */
export function colors(x, scale, words = null, ...parts) {
  const isSigned = x.numbers.some((number) => number < 0);
  return el(
    'p.legend',
    el('span', isSigned ? digits(-scale) : '0'),
    el(isSigned ? 'i.scale.signed' : 'i.scale'),
    el('span', digits(scale)),
    el('small', words ?? (isSigned ? 'orange: below 0 · blue: above 0' : '')),
    parts,
  );
}

/** From which index to which one a square covers, at least one. */
function span(at, squares, length) {
  const from = Math.floor((at * length) / squares);
  return [from, Math.max(from + 1, Math.floor(((at + 1) * length) / squares))];
}

/** The number with the largest absolute value in a block. */
function largestOf(x, [top, bottom], [left, right]) {
  let found = 0;
  for (let row = top; row < bottom; row += 1)
    for (let column = left; column < right; column += 1) {
      const number = x.numbers[row * x.shape[1] + column];
      if (Math.abs(number) > Math.abs(found)) found = number;
    }
  return found;
}

/** Whether a square stands for several numbers. */
export const isThinned = (x) => x.shape.some((length) => length > MAX_CELLS);
