/** A product of matrices as a picture, Q × Kᵀ = scores, with the row and the column of the selected number. */

import { el, svg } from 'glassbox/dom.js';
import { heat } from 'glassbox/heat.js';
import { axisName, tensorTitle } from 'glassbox/labels.js';
import { at, filled, headOf, scaleOf } from 'glassbox/numbers.js';

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
  return el(
    'figure.product',
    { data: { product: out, head } },
    factor(shortName(one), left, side, 'left'),
    el('span', '×'),
    factor(`${shortName(other)}${isTransposed ? 'ᵀ' : ''}`, right, side, 'right'),
    el('span', '='),
    factor(shortName(out), result, side, 'result', {
      role: 'img',
      'aria-label': `${tensorTitle(app.trace, out)} of head ${head} as a product`,
      on: { click: (event) => pick(app, out, head, result, event) },
    }),
  );
}

function factor(name, x, side, kind, attributes = { 'aria-hidden': 'true' }) {
  const [rows, columns] = x.shape;
  const picture = heat(x, scaleOf(x), { width: columns * side, height: rows * side, ...attributes });
  picture.append(svg(`rect.spot.${kind}`, { x: 0, y: 0, width: 0, height: 0 }));
  return el(
    `div.factor`,
    picture,
    el('small', el('b', name), ` ${rows} × ${columns}`),
    el('small', `${axisName(x.axes[0])} × ${axisName(x.axes[1])}`),
  );
}

const transposed = (x) => filled(x.axes.toReversed(), x.shape.toReversed(), (row, column) => at(x, [column, row]));

function pick(app, name, head, { shape: [rows, columns] }, event) {
  const box = event.currentTarget.getBoundingClientRect();
  const at = (offset, length, count) => Math.max(0, Math.min(count - 1, Math.floor((offset / length) * count)));
  const row = at(event.clientY - box.top, box.height, rows);
  app.pick(name, [head, row, at(event.clientX - box.left, box.width, columns)]);
}

/** Mark the row and the column of the selected number, or else the row of the selected decoding step. */
export function markProducts(app) {
  const { tensor, cell } = app.state;
  for (const figure of document.querySelectorAll('.product')) {
    const name = figure.dataset.product;
    const x = app.trace.get(name);
    const isHere = cell?.length === 3 && String(cell[0]) === figure.dataset.head && isSame(name, tensor, x, app);
    const row = isHere ? cell[1] : x?.axes[1] === 'source' ? app.state.column : app.row;
    mark(figure, x?.shape ?? [0, 0, 0], row, isHere ? cell[2] : null);
  }
}

/** A scaled score and a weight are cells at the same place as their score. */
function isSame(name, tensor, x, app) {
  const part = (text) => text.replace(/\.(scores|scaled|weights)$/, '.scores');
  return part(name) === part(tensor) && app.trace.get(tensor)?.shape.join() === x?.shape.join();
}

function mark(figure, [, rows, columns], row, column) {
  const put = (kind, x, y, width, height) => {
    const rect = figure.querySelector(`.spot.${kind}`);
    for (const [name, number] of Object.entries({ x, y, width, height })) rect.setAttribute(name, number);
  };
  const box = (kind) => figure.querySelector(`.spot.${kind}`).parentNode.viewBox.baseVal;
  const [left, right, result] = ['left', 'right', 'result'].map(box);
  const [high, wide] = [result.height / rows, result.width / columns];
  put('left', 0, row * (left.height / rows), left.width, left.height / rows);
  if (column === null) put('right', 0, 0, 0, 0);
  else put('right', column * (right.width / columns), 0, right.width / columns, right.height);
  put('result', column === null ? 0 : column * wide, row * high, column === null ? result.width : wide, high);
  figure.dataset.row = row;
  figure.dataset.column = column ?? '';
}
