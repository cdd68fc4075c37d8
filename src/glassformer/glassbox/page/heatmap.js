/** A matrix as a picture with axes and a legend. The pointer and the arrow keys read its numbers. */

import { ARROWS, cut, el, image, range, svg, wide } from 'glassbox/dom.js';
import { saveButtons } from 'glassbox/figure.js';
import { colors, heat, isThinned } from 'glassbox/heat.js';
import { at, digits, grouped, rowOf, scaleOf, statistics } from 'glassbox/numbers.js';

const [LEFT, TOP, RIGHT, BOTTOM] = [46, 8, 10, 38];
const [LETTER, MAX_LABEL] = [6.7, 24]; // pixels and number of the characters of a row label
const MAX_TICKS = 6;
const UNITS = [1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000];

/**
 * @param {string} title
 * @param {import('./numbers.js').Named} x  with two axes
 * @param {{down: string, across: string, width: number, height: number, rows?: string[]}} options  the names of the axes,
 *   the size in pixels, and the labels of the rows, by default their numbers
 */
export function heatmap(title, x, { down, across, width, height, rows: given = null }) {
  const scale = scaleOf(x);
  const rows = given?.map((label) => cut(label, MAX_LABEL));
  const left = rows ? Math.max(LEFT, (down ? 30 : 12) + Math.ceil(LETTER * Math.max(...rows.map((label) => label.length)))) : LEFT;
  const [plotWidth, plotHeight] = [width - left - RIGHT, height - TOP - BOTTOM];
  const step = [plotHeight / x.shape[0], plotWidth / x.shape[1]];
  const spot = svg('rect.spot', { width: Math.max(4, step[1]), height: Math.max(4, step[0]), visibility: 'hidden' });
  const { smallest, largest } = statistics(x.numbers);
  const picture = image(
    width,
    height,
    `${title}: ${grouped(x.shape[0])} × ${grouped(x.shape[1])}, ${down} downwards, ${across} to the right, ` +
      `from ${digits(smallest)} to ${digits(largest)}; the arrow keys read single numbers`,
    { class: 'heatmap', role: 'group', tabindex: 0, data: { key: `heatmap-${title}` } },
    svg('rect.ground', { x: left, y: TOP, width: plotWidth, height: plotHeight }),
    heat(x, scale, { x: left, y: TOP, width: plotWidth, height: plotHeight, 'aria-hidden': 'true' }),
    (rows ? [...rows.keys()] : ticks(x.shape[0])).map((row) =>
      svg('text', { x: left - 6, y: TOP + (row + 0.5) * step[0] + 4, 'text-anchor': 'end' }, rows ? rows[row] : String(row)),
    ),
    ticks(x.shape[1]).map((column) =>
      svg('text', { x: left + (column + 0.5) * step[1], y: TOP + plotHeight + 14, 'text-anchor': 'middle' }, String(column)),
    ),
    svg('text.axis-name', { x: left + plotWidth / 2, y: height - 6, 'text-anchor': 'middle' }, across),
    svg('text.axis-name', { x: 12, y: TOP + plotHeight / 2, 'text-anchor': 'middle', transform: `rotate(-90 12 ${TOP + plotHeight / 2})` }, down),
    spot,
  );
  const reading = el('output', ' ');
  const read = (row, column) => {
    spot.setAttribute('x', left + column * step[1] - (Math.max(4, step[1]) - step[1]) / 2);
    spot.setAttribute('y', TOP + row * step[0] - (Math.max(4, step[0]) - step[0]) / 2);
    spot.setAttribute('visibility', 'visible');
    reading.textContent = `${down ? `${down} ` : ''}${given ? given[row] : row}, ${across} ${column}: ${digits(at(x, [row, column]))}`;
    picture.dataset.at = `${row},${column}`;
  };
  follow(picture, x.shape, step, left, read);
  return el(
    'figure.heatmap-box',
    { style: { '--left': `${left}px` } },
    el('figcaption', el('b', title), saveButtons(title, picture, () => numbersOf(x, down, across, given))),
    wide(picture),
    colors(x, Number(scale.toPrecision(6)), null, isThinned(x) ? el('small', ' · a square is the largest of several numbers') : null),
    reading,
  );
}

/** Round numbers from 0 on, at most six. */
function ticks(length) {
  const unit = UNITS.find((step) => (length - 1) / step < MAX_TICKS) ?? 2000;
  return range(Math.floor((length - 1) / unit) + 1).map((i) => i * unit);
}

/** The pointer reads the cell below it, the arrow keys go from cell to cell. */
function follow(image, [rows, columns], step, left, read) {
  const inside = (index, length) => Math.max(0, Math.min(length - 1, index));
  image.addEventListener('pointermove', (event) => {
    const box = image.getBoundingClientRect();
    const zoom = box.width / image.viewBox.baseVal.width;
    const [y, x] = [(event.clientY - box.top) / zoom - TOP, (event.clientX - box.left) / zoom - left];
    const [row, column] = [Math.floor(y / step[0]), Math.floor(x / step[1])];
    if (row >= 0 && row < rows && column >= 0 && column < columns) read(row, column);
  });
  image.addEventListener('keydown', (event) => {
    if (!ARROWS[event.key]) return;
    event.preventDefault();
    const here = image.dataset.at?.split(',').map(Number);
    const [down, right] = here ? ARROWS[event.key] : [0, 0];
    const [row, column] = here ?? [0, 0];
    read(inside(row + down, rows), inside(column + right, columns));
  });
}

function numbersOf(x, down, across, rows) {
  const [height, width] = x.shape;
  const lines = range(height).map((row) => [rows ? rows[row] : row, ...rowOf(x, row)]);
  return [[`${down} \\ ${across}`, ...range(width)], ...lines];
}
