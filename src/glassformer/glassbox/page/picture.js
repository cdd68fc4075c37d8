/** A small matrix as SVG with its labels and numbers, which can be saved to a file. */

import { ARROWS, cut, el, image, pressed, svg, wide } from 'glassbox/dom.js';
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
  const largest = scale ?? Math.max(1e-12, ...rows.flatMap((row) => [...row].map((number) => Math.abs(number) || 0)));
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
      const strength = Math.min(1, (Math.abs(number) || 0) / largest);
      const [x, y] = [left + c * CELL, top + r * HIGH];
      const kind = number < 0 && strength > 0.02 ? 'minus' : 'plus';
      return svg(
        'g',
        onPick ? { ...cellButton(r, c, onPick), 'aria-label': `${down[r]}, ${across[c]}: ${number.toFixed(4)}` } : {},
        svg('title', `${down[r]} × ${across[c]}: ${number.toFixed(4)}`),
        svg(`rect.${kind}`, { x, y, width: CELL - 1, height: HIGH - 1, 'fill-opacity': (strength * 0.62).toFixed(3) }),
        svg('text', { x: x + CELL / 2, y: y + 14, 'text-anchor': 'middle' }, short(number * 10 ** power)),
      );
    }),
  );
  const label = (text, kind, i, attributes) =>
    svg('text.label', { ...attributes, data: kind ? { at: `${kind}${i}` } : {} }, cut(text, LONG));
  const weight = (r) => ({ 'font-weight': r === selected ? 700 : 400 });
  const ofRow = (r) => ({ x: left - 6, y: top + r * HIGH + 14, 'text-anchor': 'end', ...weight(r) });
  const ofColumn = (c) => above(left + (c + 0.5) * CELL, top - 6, isSlanted);
  const drawn = image(
    left + width * CELL + rise,
    top + height * HIGH,
    `${title}: ${rows.length} × ${across.length}`,
    onPick ? { role: 'group', on: { keydown: walk } } : {},
    across.slice(0, width).map((text, c) => label(text, lights[1], c, ofColumn(c))),
    down.slice(0, height).map((text, r) => label(text, lights[0], r, ofRow(r))),
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
      saveButtons(title, drawn, () => [['', ...across], ...rows.map((row, i) => [down[i], ...row])]),
    ),
    wide(drawn),
  );
}

/** The place of a label above a column; long labels rise to the right, so that none meets the next. */
const above = (x, y, isSlanted) =>
  isSlanted ? { x, y, transform: `rotate(-45 ${x} ${y})` } : { x, y, 'text-anchor': 'middle' };

const cellButton = (row, column, onPick) => ({
  class: 'cell',
  role: 'button',
  tabindex: row === 0 && column === 0 ? 0 : -1,
  data: { row, column },
  on: pressed(() => onPick(row, column)),
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
  if (Number.isNaN(number)) return '–';
  const text = number.toFixed(2);
  return Number(text) === 0 ? '·' : text.replace('-', '−').replace(/^(−?)0\./, '$1.');
}
