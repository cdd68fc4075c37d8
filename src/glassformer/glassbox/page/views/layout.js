/** Where the parts of figure 1 are: the encoder on the left, the decoder on the right; on a narrow page the decoder above. */

import { cut, range, RIGHT_TO_LEFT } from 'glassbox/core/dom.js';
import { visible } from 'glassbox/model/trace.js';

const LETTER = 0.61; // of the size of a letter: its width
const [SIZES, SMALL, SMALLEST, LONGEST] = [[27, 25, 23, 21, 19, 17, 15, 13], [13, 12, 11, 10, 9], 13, 14];
const [WIDEST, TALLEST, NAMES] = [48, 110, 11]; // pixels of a column, of a stage, and of the names beside narrow stacks
const [MARK, LEAST_MARK] = [0.46, 9]; // the size of "<bos>" in that of the other tokens, and pixels
const NEIGHBORS = 2; // of the current column, in sight on each side

/**
 * @typedef {{columns: number[], from: number, to: number, isShown: (i: number) => boolean, isInside: (i: number) => boolean, x: (i: number) => number, width: (i: number) => number,
 *   y: (stage: number) => number, sizeOf: (i: number, which?: number) => number, texts: string[][], isRtl: boolean, left: number, right: number,
 *   top: number, bottom: number, stages: number}} Stack  the columns in sight; where a column and a stage are; the size of a token
 */

const isMark = ({ kind }) => kind !== 'ordinary';
const sizeOf = (isMark, size) => (isMark ? Math.max(LEAST_MARK, size * MARK) : size);

/** The texts of the columns of a stack, and how wide they are in a size. The answer shares the columns of the decoder input. */
function columnsOf(rows) {
  const texts = rows.map((tokens) => tokens.map(({ text }) => cut(visible(text), LONGEST)));
  const marks = rows.map((tokens) => tokens.map(isMark));
  const long = (which, i, size) => sizeOf(marks[which][i], size) * (texts[which][i].length * LETTER + 0.34);
  const wide = (i, size) => Math.max(size * 1.05, ...rows.map((_row, which) => long(which, i, size)));
  const isRtl = rows.flat().filter(({ text }) => RIGHT_TO_LEFT.test(text)).length > rows.flat().length / 3;
  return { texts, isRtl, marks, widths: (size, gap) => rows[0].map((_, i) => wide(i, size) + gap) };
}

const sum = (numbers) => numbers.reduce((all, one) => all + one, 0);

/** The columns in sight: from `first` on, moved by as little as shows the current one with its neighbors. */
function windowOf(widths, room, current, first) {
  const end = (from) => {
    let [i, used] = [from, 0];
    while (i < widths.length && used + widths[i] <= room) used += widths[i++];
    return Math.max(i, from + 1);
  };
  let from = Math.max(0, Math.min(first, current - NEIGHBORS));
  while (from < current && end(from) < widths.length && current >= end(from) - NEIGHBORS) from += 1;
  return [from, end(from)];
}

/** @returns {Stack} */
function stack({ texts, isRtl, marks }, widths, room, current, size, place) {
  const [from, to] = windowOf(widths, room, current, place.first ?? 0);
  const inside = sum(widths.slice(from, to));
  const stretch = Math.max(1, Math.min(room / inside, WIDEST / Math.max(...widths.slice(from, to)), 1.5));
  const starts = [0];
  for (const width of widths.slice(from, to)) starts.push(starts.at(-1) + width * stretch);
  const whole = starts.at(-1);
  const left = place.left(whole);
  const isShown = (i) => i >= from && i < to;
  const isInside = (i) => i >= from + (from && NEIGHBORS) && i < to - (to < widths.length && NEIGHBORS);
  const width = (i) => widths[i] * stretch;
  const along = (i) => (i < from ? -4 : i >= to ? whole + 4 : starts[i - from] + width(i) / 2);
  const x = (i) => left + (isRtl ? whole - along(i) : along(i));
  const y = (stage) => place.bottom - ((place.bottom - place.top) * stage) / place.stages;
  return { columns: range(to - from).map((i) => i + from), from, to, x, y, width, isShown, isInside, isRtl, sizeOf: (i, which = 0) => sizeOf(marks[which][i], size), texts, left, right: left + whole, top: place.top, bottom: place.bottom, stages: place.stages };
}

/**
 * @param {import('../model/trace.js').Trace} trace
 * @param {{width: number, height: number, row: number, column: number, isMap?: boolean, before?: object}} shown  pixels; a row and a source
 *   token in sight; whether it is the map, which has its own height, at most this one; the layout before, from which the columns move on
 */
export function layOut(trace, { width, height: most, row, column, isMap = false, before = null }) {
  const { source, target_in: inputs, target_out: outputs } = trace.tokens;
  const layers = ['encoder', 'decoder'].map((side) => trace.layers(side));
  const isNarrow = isTall(width, most);
  const stages = [2 * layers[0], 3 * layers[1]];
  const strand = Math.min(isMap ? 4 : isNarrow ? 7 : 13, (isMap ? 12 : isNarrow ? 24 : 60) / layers[1]); // the width of the weight of 100 %
  const lanes = layers[1] * (strand + 3);
  const [left, right] = [columnsOf([source]), columnsOf([inputs, outputs])];
  const gapOf = (size) => (isMap ? 0 : isNarrow ? 2 : size < 16 ? 3 : 5);
  const margin = isMap ? 5 : isNarrow ? 6 : width < 1000 ? 16 : 158;
  const bus = isNarrow ? lanes + 5 : lanes + 50;
  const room = width - 2 * margin - bus - (isNarrow && !isMap ? NAMES : 0);
  const fits = (size) => {
    const [one, other] = [left, right].map((each) => sum(each.widths(size, gapOf(size))));
    return isNarrow ? Math.max(one, other) <= room : one + other <= room;
  };
  const size = (isMap ? SMALL : SIZES).find(fits) ?? (isMap ? SMALL.at(-1) : isNarrow ? SMALLEST : 19);
  const [one, other] = [left, right].map((each) => each.widths(size, gapOf(size)));
  const line = size + (isNarrow ? 7 : 9); // the height of a token
  const odds = isMap ? 15 : isNarrow ? 30 : 54;
  const around = odds + 4 * line + lanes + 74;
  const height = isMap ? around + Math.max(17, Math.min(30, (most - around) / (stages[0] + stages[1]))) * (stages[0] + stages[1]) : most;
  const [highest, lowest] = [odds + line + (isNarrow ? 24 : 34), height - line - (isNarrow ? 20 : 24)];
  const spare = Math.max(0, (lowest - highest - TALLEST * (isNarrow ? stages[0] + stages[1] : Math.max(...stages))) / 2); // of a small model
  const [top, bottom] = [highest + spare, lowest - spare];
  if (isNarrow) {
    const middle = top + (bottom - top - lanes - line - 30) * (stages[1] / (stages[0] + stages[1]));
    const centered = (whole) => margin + bus + (room - whole) / 2;
    const below = middle + line + lanes + 26;
    return {
      width, height, isNarrow, isMap, strand, size, line, odds,
      encoder: stack(left, one, room, column, size, { first: before?.encoder.from, left: centered, top: below, bottom, stages: stages[0] }),
      decoder: stack(right, other, room, row, size, { first: before?.decoder.from, left: centered, top, bottom: middle, stages: stages[1] }),
      lane: (layer) => below - 17 - lanes + (layer + 0.5) * (strand + 3),
      bus: (layer) => margin + lanes - (layer + 0.5) * (strand + 3),
    }; // prettier-ignore
  }
  const isTight = sum(one) + sum(other) > room;
  const first = isTight ? Math.min(sum(one), Math.max(room * 0.4, room - sum(other))) : (room * sum(one)) / (sum(one) + sum(other));
  const encoder = stack(left, one, first, column, size, { first: before?.encoder.from, left: () => 0, top: top + 12, bottom, stages: stages[0] });
  const decoder = stack(right, other, room - (encoder.right - encoder.left), row, size, { first: before?.decoder.from, left: () => 0, top, bottom, stages: stages[1] });
  const begin = (width - encoder.right - bus - decoder.right) / 2 - (width < 1000 ? 0 : 22); // the names on the right are longer
  const shift = (each, by) => ({ ...each, x: (i) => each.x(i) + by, left: each.left + by, right: each.right + by });
  const edge = begin + encoder.right;
  return {
    width, height, isNarrow, strand, size, line, odds,
    encoder: shift(encoder, begin),
    decoder: shift(decoder, edge + bus),
    lane: (layer) => top - 24 - (layer + 0.5) * (strand + 3),
    bus: (layer) => edge + 22 + (layer + 0.5) * (strand + 3),
  }; // prettier-ignore
}

/** Whether the decoder is above the encoder. */
export const isTall = (width, height) => width < 700 || (width < 1000 && height > width * 0.8);

/** A path through points, with round corners of these radii. */
export function rounded(points, radii) {
  const toward = ([x, y], [toX, toY], most) => {
    const length = Math.hypot(toX - x, toY - y) || 1;
    const r = Math.max(0, Math.min(most, length / 2));
    return fixed([x + ((toX - x) * r) / length, y + ((toY - y) * r) / length]);
  };
  const corner = (point, i) => `L${toward(point, points[i], radii[i])}Q${fixed(point)} ${toward(point, points[i + 2], radii[i])}`;
  return `M${fixed(points[0])}${points.slice(1, -1).map(corner).join('')}L${fixed(points.at(-1))}`;
}

const fixed = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;

/** The strands of a cable: how far each is from its middle, in the order of the weights given. */
export function strands(weights, width) {
  let at = (sum(weights) * width) / 2;
  return weights.map((weight) => (at -= weight * width) + (weight * width) / 2);
}
