/** A product of matrices as a picture, Q × Kᵀ = scores, with the row and the column of the selected number. */

import { el, svg } from 'glassbox/core/dom.js';
import { heat } from 'glassbox/views/heat.js';
import { axisName, headTitle, tensorTitle } from 'glassbox/model/labels.js';
import { at, filled, headOf, scaleOf } from 'glassbox/core/numbers.js';

const [MAX_SIDE, MIN_SIDE, GAPS] = [9, 1.2, 64]; // pixels of a square, and of what is between the matrices

const NAMES = { queries: 'Q', keys: 'K', values: 'V', scores: 'scores', weights: 'weights', heads: 'output' };
function shortName(name) {
  const last = name.split('.').at(-1);
  return NAMES[last.replace(/_(before_)?edit$/, '')] ?? last;
}

/**
 * The picture of a step of attention whose operation is a product; null for other steps.
 *
 * @param {import('./app.js').App} app
 * @param step  of the trace
 * @param {number} head
 * @param {number} width  pixels
 */
export function product(app, step, head, width) {
  if (!['matmul', 'matmul_transposed'].includes(step.op) || !step.inputs.every((name) => app.trace.has(name)))
    return null;
  const [left, given, result] = [...step.inputs, step.output].map((name) => headOf(app.trace.get(name), head));
  const isTransposed = step.op === 'matmul_transposed';
  const right = isTransposed ? transposed(given) : given;
  const side = Math.max(
    MIN_SIDE,
    Math.min(MAX_SIDE, (width - GAPS) / (left.shape[1] + right.shape[1] + result.shape[1])),
  );
  const [one, other, out] = [step.inputs[0], step.inputs[1], step.output];
  const { row, column } = selected(app, out, head);
  const ofColumn = column === null ? null : [column, 0, 1, right.shape[0]];
  return el(
    'figure.product',
    { data: { product: out, head, width, row, column: column ?? '' } },
    factor(shortName(one), left, side, 'left', [0, row, left.shape[1], 1]),
    el('span', '×'),
    factor(`${shortName(other)}${isTransposed ? 'ᵀ' : ''}`, right, side, 'right', ofColumn),
    el('span', '='),
    factor(shortName(out), result, side, 'result', [column ?? 0, row, ofColumn ? 1 : result.shape[1], 1], {
      role: 'img',
      'aria-label': `${tensorTitle(app.trace, out)} of ${headTitle(head)} as a product`,
      on: { click: (event) => pick(app, out, head, result, event) },
    }),
  );
}

/** A matrix, with a frame around some cells: `spot` is the first column and row, and how many there are. */
function factor(name, x, side, kind, spot, attributes = { 'aria-hidden': 'true' }) {
  const [rows, columns] = x.shape;
  const picture = heat(x, scaleOf(x), { width: columns * side, height: rows * side, ...attributes });
  const box = picture.viewBox.baseVal;
  const [wide, high] = [box.width / columns, box.height / rows];
  const [left, top, width, height] = spot ?? [0, 0, 0, 0];
  picture.append(svg(`rect.spot.${kind}`, { x: left * wide, y: top * high, width: width * wide, height: height * high }));
  return el(
    `div.factor`,
    picture,
    el('small', el('b', { class: `name ${name[0].toLowerCase()}` }, name), ` ${rows} × ${columns}`),
    el('small', `${axisName(x.axes[0])} × ${axisName(x.axes[1])}`),
  );
}

const transposed = (x) => filled(x.axes.toReversed(), x.shape.toReversed(), (row, column) => at(x, [column, row]));

function pick(app, name, head, { shape: [rows, columns] }, event) {
  const box = event.currentTarget.getBoundingClientRect();
  const at = (offset, length, count) => Math.max(0, Math.min(count - 1, Math.floor((offset / length) * count)));
  const row = at(event.clientY - box.top, box.height, rows);
  const cell = [head, row, at(event.clientX - box.left, box.width, columns)];
  app.opener = null;
  app.set({ tensor: name, cell, [app.trace.get(name).axes[1] === 'source' ? 'column' : 'row']: row });
}

/** The row and the column of the selected number, or else the row of the selected decoding step. */
function selected(app, name, head) {
  const { tensor, cell } = app.state;
  const x = app.trace.get(name);
  const part = (text) => text.replace(/\.(scores|scaled|weights)$/, '.scores'); // whose cells are at the same places
  const isHere = cell?.length === 3 && cell[0] === head && part(name) === part(tensor) && app.trace.get(tensor)?.shape.join() === x.shape.join();
  if (isHere) return { row: cell[1], column: cell[2] };
  return { row: x.axes[1] === 'source' ? app.state.column : app.row, column: null };
}

/** Draw the products of the panel again, with the number that is selected now. */
export function drawProducts(app) {
  for (const figure of document.querySelectorAll('#panel .product')) {
    const { product: name, head, width } = figure.dataset;
    figure.replaceWith(product(app, app.trace.stepOf.get(name), Number(head), Number(width)));
  }
}
