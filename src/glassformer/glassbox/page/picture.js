/** A small matrix as SVG with its labels and numbers, which can be saved to a file. */

import { ARROWS, cut, el, svg } from 'glassbox/dom.js';
import { saveButtons } from 'glassbox/figure.js';

const [CELL, HIGH, MAX_CELLS] = [40, 20, 60];
const [LETTER, SHORT, LONG] = [6.7, 5, 18]; // of a label: pixels of a letter, letters that fit above a cell, letters that are shown

/**
 * @param {string} title
 * @param {number[][]} rows  numbers; positive cells are blue, negative ones orange with a dashed border
 * @param {string[]} down  labels of the rows
 * @param {string[]} across  labels of the columns
 * @param {{scale?: number, row?: number, lights?: [string, string], onPick?: (row: number, column: number) => void}} options
 *   `lights` are the kinds of its rows and columns, see hover.js; `onPick` makes each cell a button
 */
export function picture(title, rows, down, across, { scale, row: selected, lights = ['', ''], onPick = null } = {}) {
  const largest = scale ?? Math.max(1e-12, ...rows.flatMap((row) => [...row].map(Math.abs)));
  const power = largest < 0.1 ? Math.ceil(-Math.log10(largest)) : 0; // small numbers are shown times a power of ten
  const [height, width] = [Math.min(rows.length, MAX_CELLS), Math.min(across.length, MAX_CELLS)];
  const [downwards, upwards] = [down.slice(0, height), across.slice(0, width)].map((labels) =>
    Math.min(LONG, Math.max(0, ...labels.map((label) => label.length))),
  );
  const isSlanted = upwards > SHORT;
  const rise = isSlanted ? Math.ceil(upwards * LETTER * Math.SQRT1_2) : 0;
  const [left, top] = [Math.max(78, Math.ceil(downwards * LETTER) + 12), isSlanted ? rise + 20 : 46];
  const cells = rows.slice(0, height).flatMap((row, r) =>
    [...row].slice(0, width).map((number, c) => {
      const strength = Math.min(1, Math.abs(number) / largest);
      return svg(
        'g',
        onPick ? { ...cellButton(r, c, onPick), 'aria-label': `${down[r]}, ${across[c]}: ${number.toFixed(4)}` } : {},
        svg('title', `${down[r]} × ${across[c]}: ${number.toFixed(4)}`),
        svg('rect', {
          x: left + c * CELL,
          y: top + r * HIGH,
          width: CELL - 1,
          height: HIGH - 1,
          class: number < 0 && strength > 0.02 ? 'minus' : 'plus',
          'fill-opacity': (strength * 0.62).toFixed(3),
        }),
        svg(
          'text',
          { x: left + c * CELL + CELL / 2, y: top + r * HIGH + 14, 'text-anchor': 'middle' },
          short(number * 10 ** power),
        ),
      );
    }),
  );
  const image = svg(
    'svg',
    {
      viewBox: `0 0 ${left + width * CELL + rise} ${top + height * HIGH}`,
      width: left + width * CELL + rise,
      height: top + height * HIGH,
      role: onPick ? 'group' : 'img',
      'aria-label': `${title}: ${rows.length} × ${across.length}`,
      on: onPick ? { keydown: walk } : {},
      xmlns: 'http://www.w3.org/2000/svg',
    },
    across
      .slice(0, width)
      .map((label, c) =>
        svg(
          'text.label',
          { ...above(left + c * CELL + CELL / 2, top - 6, isSlanted), data: light(lights[1], c) },
          cut(label, LONG),
        ),
      ),
    down.slice(0, height).map((label, r) =>
      svg(
        'text.label',
        {
          x: left - 6,
          y: top + r * HIGH + 14,
          'text-anchor': 'end',
          'font-weight': r === selected ? 700 : 400,
          data: light(lights[0], r),
        },
        cut(label, LONG),
      ),
    ),
    cells,
  );
  const part =
    rows.length > height || across.length > width
      ? ` (the first ${height} × ${width} of ${rows.length} × ${across.length})`
      : '';
  return el(
    'figure.picture-box',
    el(
      'figcaption',
      title + part,
      power ? ` · numbers × 10^${power}` : '',
      saveButtons(title, image, () => [['', ...across], ...rows.map((row, i) => [down[i], ...row])]),
    ),
    el('div.scroller', image),
  );
}

/** The place of a label above a column; long labels rise to the right, so that none meets the next. */
const above = (x, y, isSlanted) =>
  isSlanted ? { x, y, transform: `rotate(-45 ${x} ${y})` } : { x, y, 'text-anchor': 'middle' };

const light = (kind, index) => (kind ? { at: `${kind}${index}` } : {});

const cellButton = (row, column, onPick) => ({
  class: 'cell',
  role: 'button',
  tabindex: row === 0 && column === 0 ? 0 : -1,
  data: { row, column },
  on: {
    click: () => onPick(row, column),
    keydown: (event) => (event.key === 'Enter' || event.key === ' ' ? onPick(row, column) : null),
  },
});

/** The arrow keys move from cell to cell. */
function walk(event) {
  const { row, column } = event.target.closest('.cell')?.dataset ?? {};
  if (row === undefined || !(ARROWS[event.key] || event.key === ' ')) return;
  event.preventDefault();
  const [down, right] = ARROWS[event.key] ?? [0, 0];
  const to = `.cell[data-row="${Number(row) + down}"][data-column="${Number(column) + right}"]`;
  event.currentTarget.querySelector(to)?.focus();
}

/** Two digits: ".05", "−.31", "8.74". */
function short(number) {
  const text = number.toFixed(2);
  return Number(text) === 0 ? '·' : text.replace('-', '−').replace(/^(−?)0\./, '$1.');
}
