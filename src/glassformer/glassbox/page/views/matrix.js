/**
 * A matrix: a window of numbers as a table, and an overview of the whole matrix where it is larger than the window.
 *
 * A cell has a number and a color (blue above 0, orange below); a number that is 0 in the digits shown is "·". The depth
 * Words draws a square instead of the number: its area is the absolute value, and it is hollow below 0.
 */

import { ARROWS, button, el, range } from 'glassbox/core/dom.js';
import { colors } from 'glassbox/views/heat.js';
import { lightOf } from 'glassbox/views/hover.js';
import { axisTitle, place, tensorTitle } from 'glassbox/model/labels.js';
import { at, digits, grouped, headOf, scaleOf, shortDigits } from 'glassbox/core/numbers.js';
import { overview } from 'glassbox/views/overview.js';

const MAX_ROWS = 20;
const CELL = 50; // pixels, as in style/matrix.css

/**
 * @param {import('./app.js').App} app
 * @param {string} name  of a tensor with at most three axes
 * @param {{head?: number, mask?: string, onRow?: Function, onColumn?: Function, row?: number, column?: number,
 *   isOneRow?: boolean, width?: number}} options  `row` and `column` are lit; `isOneRow`: no other row is shown; `width` in pixels, by default
 *   that of the panel
 */
export function matrix(app, name, options = {}) {
  const whole = options.whole ?? app.trace.get(name);
  if (!whole) return el('p.missing', `${name} is not in this page.`);
  if (!whole.axes.length) return el('p.scalar', { data: { tensor: name, cell: '' } }, digits(whole.numbers[0]));
  const view = { app, name, whole, options, width: options.width ?? app.width, ...plane(whole, options.head ?? 0) };
  const box = el('div.matrix', { data: { tensor: name } });
  const table = el('div');
  const go = (top, left) => {
    app.windows.set(name, [top, left]);
    view.draw();
  };
  const first = windowOf(view);
  const map = first.isPart ? overview(view, first, go) : null;
  view.draw = (focus) => {
    const shown = windowOf(view);
    const key = focus ? null : table.contains(document.activeElement) && document.activeElement.dataset.key;
    map?.show(shown);
    table.replaceChildren(grid(view, shown));
    table.querySelector(focus ? `td[data-cell="${focus.join()}"]` : `[data-key="${CSS.escape(key)}"]`)?.focus();
  };
  view.draw();
  box.append(...[map?.element, table, legend(view)].filter(Boolean));
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
function windowOf({ app, name, x, width: available, options: { isOneRow, row } }) {
  const [rows, columns] = x.shape;
  const fit = Math.max(4, Math.min(26, Math.floor((available - (available < 420 ? 96 : 132)) / CELL)));
  const [height, width] = [isOneRow ? 1 : Math.min(rows, MAX_ROWS), Math.min(columns, fit)];
  const [first, left] = app.windows.get(name) ?? [0, 0];
  const top = isOneRow ? row : first;
  return {
    top: Math.max(0, Math.min(top, rows - height)),
    left: Math.max(0, Math.min(left, columns - width)),
    height,
    width,
    isPart: (height < rows && !isOneRow) || width < columns,
  };
}

function grid(view, shown) {
  const { app, name, x, options } = view;
  const rows = range(shown.height).map((i) => shown.top + i);
  const columns = range(shown.width).map((i) => shown.left + i);
  const scale = fullColor(view);
  const partner = partnerOf(view);
  const top = columns.map((column) => {
    const attributes = { scope: 'col', class: column === options.column ? 'lit' : null, data: lights(x.axes[1], column) };
    return el('th', attributes, heading(view, 1, column, options.onColumn));
  });
  const body = rows.map((row) => {
    const kind = `${row === options.row ? 'lit' : ''} ${row === partner ? 'partner' : ''}`;
    const left = x.axes[0] ? el('th', { scope: 'row' }, heading(view, 0, row, options.onRow)) : el('td');
    const cells = columns.map((column) => cell(view, row, column, scale));
    return el('tr', { class: kind, data: lights(x.axes[0], row) }, left, cells);
  });
  const label =
    `${tensorTitle(app.trace, name)}: ${grouped(x.shape[0])} rows, ${grouped(x.shape[1])} columns; rows ` +
    `${shown.top} to ${shown.top + shown.height - 1}, columns ${shown.left} to ${shown.left + shown.width - 1}`;
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
      el('thead', el('tr', el('td.corner', corner(view)), top)),
      el('tbody', body),
    ),
  );
}

const corner = ({ x }) =>
  x.axes[0] ? `${axisTitle(x.axes[0])} ↓\n${axisTitle(x.axes[1])} →` : `${axisTitle(x.axes[1])} →`;

const lights = (axis, index) => (lightOf(axis, index) ? { at: lightOf(axis, index) } : {});

/** The row of queries, keys or values that is an operand of the score or weight that is selected. */
function partnerOf({ app: { state }, name, options }) {
  const [part, kind] = [name.slice(0, name.lastIndexOf('.')), name.slice(name.lastIndexOf('.') + 1)];
  const isScore = state.cell?.length === 3 && new RegExp(`^${part}\\.(scores|scaled|weights)$`).test(state.tensor);
  if (!isScore || state.cell[0] !== options.head) return -1;
  return { queries: state.cell[1], keys: state.cell[2], values: state.cell[2] }[kind] ?? -1;
}

function heading(view, axis, index, onChoose) {
  const name = view.x.axes[axis];
  const token = view.app.trace.label(name, index);
  const parts = [el('small', String(index)), token ? el('bdi', { title: token }, token) : null];
  if (!onChoose) return el('span.heading', parts);
  return button(parts, () => onChoose(index), {
    class: 'heading',
    title: place(view.app.trace, [name], [index]),
    tabindex: -1, // the arrow keys lead to it from the cells
    data: { key: `${view.name}-${axis}-${index}` },
  });
}

function cell(view, row, column, scale) {
  const { app, name, x } = view;
  const index = view.index(row, column);
  const number = at(x, [row, column]);
  const reason = reasonOf(view, row, column);
  const text = shortDigits(number);
  const isPicked = app.state.tensor === name && app.state.cell?.join() === index.join();
  const inside =
    app.state.depth === 'words' && !reason
      ? el('i', { style: { '--side': `${Math.sqrt(Math.min(1, Math.abs(number) / scale)) * 100}%` } })
      : isZero(text)
        ? '·'
        : text;
  return el(
    `td.${number < 0 ? 'minus' : 'plus'}`,
    {
      role: 'gridcell',
      tabindex: isPicked || ((row === 0 || view.options.isOneRow) && column === 0) ? 0 : -1,
      'aria-selected': isPicked ? 'true' : null,
      'aria-label':
        app.state.depth === 'words' || isZero(text) ? `${digits(number)}${reason && `, masked: ${reason}`}` : null,
      class: reason ? 'masked' : null,
      title: `${place(app.trace, view.whole.axes, index)} · ${digits(number)}${reason && `; masked: ${reason}`}`,
      data: { cell: index.join() },
      style: { '--fraction': `${Math.round(Math.min(1, Math.abs(number) / scale) * 62)}%` },
    },
    inside,
  );
}

const isZero = (text) => Number(text.replace('−', '-')) === 0;

/** What the colors mean; in the depth Words, what the squares mean. */
const legend = (view) =>
  view.x.numbers.some(Boolean) && colors(
    view.x,
    fullColor(view),
    view.app.state.depth === 'words' ? 'area: absolute value; hollow: below 0' : null,
    view.options.mask && hasMasked(view) ? el('small', el('i.hatch'), ' masked') : null,
  );

const hasMasked = ({ app, options }) => app.trace.get(options.mask)?.numbers.some((code) => code > 0);

/** The absolute value with the full color: 1 for attention weights, otherwise the largest of the matrix. */
function fullColor({ x, name, options }) {
  const isWeights = /\.weights(_edit|_before_edit)?$|^evidence\.attention$/.test(name);
  return isWeights && !options.whole ? 1 : scaleOf(x);
}

function reasonOf({ app, options }, row, column) {
  if (!options.mask) return '';
  const code = at(app.trace.get(options.mask), [row, column]);
  return code ? app.trace.mask_reasons[code] : '';
}

function pick({ app, name }, target) {
  if (target) app.pick(name, target.dataset.cell.split(',').map(Number));
}

/** The arrow keys move from cell to cell, and from the edge to the headings; the window follows. */
function move(view, shown, event) {
  const target = event.target.closest('td[data-cell]');
  if (!target) {
    moveFrom(event.target.closest('th'), event);
    return;
  }
  if (event.key === 'Enter' || event.key === ' ') {
    event.preventDefault();
    pick(view, target);
  }
  if (!ARROWS[event.key]) return;
  event.preventDefault();
  const index = target.dataset.cell.split(',').map(Number);
  const [row, column] = index.length === 1 ? [0, index[0]] : index.slice(-2);
  const [down, right] = ARROWS[event.key];
  const [rows, columns] = view.x.shape;
  const [toRow, toColumn] = [view.options.isOneRow ? row : clamp(row + down, rows), clamp(column + right, columns)];
  if (toRow === row && toColumn === column) {
    neighbor(target, ARROWS[event.key])?.querySelector('button')?.focus();
    return;
  }
  const slide = (from, length, index) => Math.max(Math.min(from, index), index - length + 1);
  view.app.windows.set(view.name, [slide(shown.top, shown.height, toRow), slide(shown.left, shown.width, toColumn)]);
  view.draw(view.index(toRow, toColumn));
  view.app.pick(view.name, view.index(toRow, toColumn));
}

/** From a heading to the next one, or to its cells. */
function moveFrom(heading, event) {
  const found = heading && ARROWS[event.key] && neighbor(heading, ARROWS[event.key]);
  if (!found) return;
  event.preventDefault();
  (found.querySelector('button') ?? found).focus();
}

const neighbor = (box, [down, right]) =>
  box.closest('table').rows[box.parentElement.rowIndex + down]?.cells[box.cellIndex + right];

const clamp = (index, length) => Math.max(0, Math.min(length - 1, index));

/** The shape as text, such as "14 × 10,000". */
export const size = (x) => x.shape.map(grouped).join(' × ') || '1';
