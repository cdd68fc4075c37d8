/** The table of the position encoding as a picture, and the dot products of its rows; a learned table next to sinusoids. */

import { el, range, section } from 'glassbox/core/dom.js';
import { heatmap } from 'glassbox/views/heatmap.js';
import { sinusoid } from 'glassbox/model/interpreter.js';
import { at, digits, dot, filled, grouped, meanOf, named } from 'glassbox/core/numbers.js';

const MAX_POSITIONS = 100; // rows of the pictures
const [NARROW, WIDE, GAP] = [560, 460, 32]; // pixels: below NARROW one picture a line, and the width of the largest

/** PE: the first rows of the table of sinusoids. */
export const sinusoids = (rows, width, base) =>
  filled(['position', 'd_model'], [rows, width], (position, column) => sinusoid(position, column, base, width));

/** PE · PEᵀ: the dot product of each row with each row. */
export function similarities(table) {
  const { shape: [rows, width], numbers } = table;
  return filled(['position', 'position'], [rows, rows], (one, other) =>
    dot(numbers, one * width, numbers, other * width, width),
  );
}

const firstRows = (x, count) => named(['position', 'd_model'], [count, x.shape[1]], x.numbers.subarray(0, count * x.shape[1]));

/** @param {import('../app.js').App} app  @param {string} name  of the positions of a side, "source.positions" */
export function positionTable(app, name) {
  const step = app.trace.stepOf.get(`${name}_before_edit`) ?? app.trace.stepOf.get(name);
  if (!step) return null;
  const { position_base: base } = app.trace.provenance.settings.model;
  const width = app.trace.axes.d_model.length;
  const isLearned = step.op !== 'sinusoids';
  const learned = isLearned ? (app.trace.get(step.inputs[1]) ?? app.trace.get(step.output)) : null;
  const count = Math.min(MAX_POSITIONS, learned?.shape[0] ?? MAX_POSITIONS);
  const encoded = sinusoids(count, width, isLearned ? base : step.attributes.base);
  return section(
    'position table',
    'The position table',
    el('p.words', isLearned ? aboutLearned(app, step, learned) : aboutSinusoids(width)),
    isLearned ? pair(app, 'learned', firstRows(learned, count)) : null,
    pair(app, 'sinusoidal', encoded),
  );
}

const aboutSinusoids = (width) =>
  'Each row is the encoding of a position, the same for every text. The features on the left change fast from row to row, those ' +
  'on the right slowly. In PE · PEᵀ each cell is the dot product of two rows: it depends on the distance of the two positions ' +
  `only, and is ${digits(width / 2)}, half of d_model, on the diagonal.`;

function aboutLearned(app, step, learned) {
  const isWhole = app.trace.has(step.inputs[1]);
  return (
    'This model learned a row for each position. The table of sinusoids, which the paper chose, is below it for comparison. ' +
    (isWhole
      ? `The model has ${grouped(learned.shape[0])} rows; those of positions that no text of the training data reaches are not learned.`
      : 'This page does not include the weights of the model, so it has only the rows of this text.')
  );
}

/** A table and its dot products, next to each other where there is room. */
function pair(app, kind, table) {
  const isNarrow = app.width < NARROW;
  const width = Math.round(isNarrow ? app.width : Math.min(WIDE, (app.width - GAP) / 2));
  const size = { width, height: Math.round(Math.min(width, 380)) };
  const products = similarities(table);
  const mean = meanOf(range(table.shape[0]).map((i) => at(products, [i, i])));
  const last = table.shape[0] - 1;
  return el(
    'div.heatmaps',
    { data: { table: kind } },
    heatmap(`${kind} table, positions 0 to ${last}`, table, { down: 'position', across: 'feature', ...size }),
    el(
      'div',
      heatmap(`${kind}: PE · PEᵀ`, products, { down: 'position', across: 'position', ...size }),
      el('p.size', `mean of the diagonal: ${digits(mean)}`),
    ),
  );
}
