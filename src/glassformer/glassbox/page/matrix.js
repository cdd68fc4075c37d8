/**
 * A matrix: a window of numbers as a table, and an overview of the whole matrix where it is larger than the window.
 *
 * A cell has a number and a color (blue above 0, orange below). The depth Words draws a square instead of the number:
 * its area is the absolute value, and it is hollow below 0.
 */

import { button, el } from 'glassbox/dom.js';
import { at, digits, grouped, headOf, shapeText, shortDigits } from 'glassbox/numbers.js';
import { overview } from 'glassbox/overview.js';

const MAX_ROWS = 20;
const CELL = 50; // pixels, as in style/matrix.css

/**
 * @param {import('./app.js').App} app
 * @param {string} name  of a tensor with at most three axes
 * @param {{head?: number, mask?: string, onRow?: Function, onColumn?: Function, row?: number, column?: number}} options
 */
export function matrix(app, name, options = {}) {
  const whole = app.trace.get(name);
  if (!whole) return el('p.missing', `${name} is not in this page.`);
  if (!whole.axes.length) return el('p.scalar', { data: { tensor: name, cell: '' } }, digits(whole.numbers[0]));
  const view = { app, name, whole, options, ...plane(whole, options.head ?? 0) };
  const box = el('div.matrix', { data: { tensor: name } });
  view.draw = (focus) => {
    const shown = windowOf(view);
    const key = focus ? null : document.activeElement?.dataset.key;
    box.replaceChildren(...(shown.isPart ? [overview(view, shown)] : []), grid(view, shown));
    box.querySelector(focus ? `td[data-cell="${focus.join()}"]` : `[data-key="${key}"]`)?.focus();
  };
  view.draw();
  return box;
}

/** The two axes that are shown, and the index of a cell in the tensor. */
function plane(whole, head) {
  const x = headOf(whole, head);
  const hasHeads = whole.axes[0] === 'head';
  if (x.axes.length === 1) {
    return { x: { ...x, axes: ['', x.axes[0]], shape: [1, x.shape[0]] }, index: (row, column) => [column] };
  }
  return { x, index: (row, column) => (hasHeads ? [head, row, column] : [row, column]) };
}

/** The part that is shown: as many columns as fit next to the labels. */
function windowOf({ app, name, x }) {
  const [rows, columns] = x.shape;
  const fit = Math.max(4, Math.min(26, Math.floor((app.width - (app.width < 420 ? 96 : 132)) / CELL)));
  const [height, width] = [Math.min(rows, MAX_ROWS), Math.min(columns, fit)];
  const [top, left] = app.windows.get(name) ?? [0, 0];
  return {
    top: Math.max(0, Math.min(top, rows - height)),
    left: Math.max(0, Math.min(left, columns - width)),
    height,
    width,
    isPart: height < rows || width < columns,
  };
}

function grid(view, shown) {
  const { app, name, x, options } = view;
  const range = (from, count) => Array.from({ length: count }, (_, i) => from + i);
  const [rows, columns] = [range(shown.top, shown.height), range(shown.left, shown.width)];
  const scale = scaleOf(view);
  const head = el(
    'tr',
    el('td.corner', corner(view)),
    columns.map((column) =>
      el(
        'th',
        { scope: 'col', class: column === options.column ? 'lit' : null },
        heading(view, 1, column, options.onColumn),
      ),
    ),
  );
  const body = rows.map((row) =>
    el(
      'tr',
      { class: row === options.row ? 'lit' : null },
      el('th', { scope: 'row' }, x.axes[0] ? heading(view, 0, row, options.onRow) : ''),
      columns.map((column) => cell(view, row, column, scale)),
    ),
  );
  const label =
    `${name}: ${shapeText(view.whole)}, rows ${shown.top} to ${shown.top + shown.height - 1}, ` +
    `columns ${shown.left} to ${shown.left + shown.width - 1}`;
  return el(
    'div.scroller',
    el(
      'table.grid',
      {
        role: 'grid',
        'aria-label': label,
        'aria-rowcount': x.shape[0],
        'aria-colcount': x.shape[1],
        class: app.state.depth === 'words' ? 'squares' : null,
        on: {
          click: (event) => pick(view, event.target.closest('td[data-cell]')),
          keydown: (event) => move(view, shown, event),
        },
      },
      el('thead', head),
      el('tbody', body),
    ),
  );
}

const corner = ({ x }) => (x.axes[0] ? `${x.axes[0]} ↓\n${x.axes[1]} →` : `${x.axes[1]} →`);

function heading(view, axis, index, onChoose) {
  const name = view.x.axes[axis];
  const token = view.app.trace.label(name, index);
  const parts = [el('small', String(index)), token ? el('bdi', { title: token }, token) : null];
  if (!onChoose) return el('span.heading', parts);
  return button(parts, () => onChoose(index), {
    class: 'heading',
    title: `${name} ${index} ${token}`,
    data: { key: `${view.name}-${axis}-${index}` },
  });
}

function cell(view, row, column, scale) {
  const { app, name, x } = view;
  const index = view.index(row, column);
  const number = at(x, [row, column]);
  const reason = reasonOf(view, row, column);
  const isPicked = app.state.tensor === name && app.state.cell?.join() === index.join();
  const inside =
    app.state.depth === 'words' && !reason
      ? el('i', { style: { '--side': `${Math.sqrt(Math.min(1, Math.abs(number) / scale)) * 100}%` } })
      : shortDigits(number);
  return el(
    `td.${number < 0 ? 'minus' : 'plus'}`,
    {
      role: 'gridcell',
      tabindex: isPicked || (row === 0 && column === 0) ? 0 : -1,
      'aria-selected': isPicked ? 'true' : null,
      'aria-label': app.state.depth === 'words' ? `${digits(number)}${reason && `, masked: ${reason}`}` : null,
      class: reason ? 'masked' : null,
      title: reason ? `${digits(number)}; masked: ${reason}` : digits(number),
      data: { cell: index.join() },
      style: { '--fraction': `${Math.round(Math.min(1, Math.abs(number) / scale) * 62)}%` },
    },
    inside,
  );
}

/** The absolute value with the full color: 1 for attention weights, otherwise the largest of the matrix. */
function scaleOf({ x, name }) {
  if (/\.weights(_edit|_before_edit)?$|^evidence\.attention$/.test(name)) return 1;
  return x.numbers.reduce((best, number) => Math.max(best, Math.abs(number)), 1e-12);
}

function reasonOf({ app, options }, row, column) {
  if (!options.mask) return '';
  const code = at(app.trace.get(options.mask), [row, column]);
  return code ? app.trace.mask_reasons[code] : '';
}

function pick({ app, name }, target) {
  if (target) app.pick(name, target.dataset.cell.split(',').map(Number));
}

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** The arrow keys move from cell to cell; the window follows. */
function move(view, shown, event) {
  const target = event.target.closest('td[data-cell]');
  if (!target) return;
  if (event.key === 'Enter' || event.key === ' ') {
    event.preventDefault();
    pick(view, target);
  }
  if (!MOVES[event.key]) return;
  event.preventDefault();
  const index = target.dataset.cell.split(',').map(Number);
  const [row, column] = index.length === 1 ? [0, index[0]] : index.slice(-2);
  const [down, right] = MOVES[event.key];
  const [rows, columns] = view.x.shape;
  const [toRow, toColumn] = [clamp(row + down, rows), clamp(column + right, columns)];
  const slide = (from, length, index) => Math.max(Math.min(from, index), index - length + 1);
  view.app.windows.set(view.name, [slide(shown.top, shown.height, toRow), slide(shown.left, shown.width, toColumn)]);
  view.app.pick(view.name, view.index(toRow, toColumn));
  view.draw(view.index(toRow, toColumn));
}

const clamp = (index, length) => Math.max(0, Math.min(length - 1, index));

/** The shape as text, such as "14 × 10,000". */
export const size = (x) => x.shape.map(grouped).join(' × ') || '1';
