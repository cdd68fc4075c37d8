/** A matrix as a picture with labels and a legend. The pointer and the arrow keys read its numbers. */

import { ARROWS, cut, el, image, isolated, range, sentence, svg, wide } from 'glassbox/core/dom.js';
import { saveButtons } from 'glassbox/views/figure.js';
import { colors, heat, isThinned } from 'glassbox/views/heat.js';
import { lightOf } from 'glassbox/views/hover.js';
import { at, digits, grouped, scaleOf, statistics, ticks } from 'glassbox/core/numbers.js';

const [LEFT, TOP, RIGHT, BOTTOM] = [46, 8, 10, 38];
const [LETTER, MAX_LABEL, MIN_HATCH] = [6.7, 24, 5]; // pixels and number of the characters of a label, and pixels of a hatched square
const [NUMBER, MAX_NUMBERS] = [[20, 40], 60]; // pixels of a cell that has its number in it, and how many there are on a side
const [LARGE_WIDTH, LARGE_HEIGHT] = [720, 480]; // pixels of a matrix that has more

/**
 * @typedef {object} Options
 * @property {string} [down] [across]  the names of the axes
 * @property {number} [width] [height]  of the picture, in pixels
 * @property {[number, number]} [cell]  instead, height and width of a cell; without both, each cell has its number in it
 * @property {string[]} [rows] [columns]  their labels, by default their numbers
 * @property {number} [scale]  the absolute value with the full color
 * @property {number} [row]  which has a frame
 * @property {boolean} [isCausal]  whether the cells right of the diagonal are masked: they are hatched
 * @property {number[]} [cellAt]  the cell that is read first
 * @property {(row: number, column: number) => void} [onPick]  what a click or Enter does
 */

/** @param {string} title  @param {import('./numbers.js').Named} x  with two axes  @param {Options} options */
export function heatmap(title, x, options) {
  const { down = '', across = '', onPick = null, row: framed = -1 } = options;
  const scale = options.scale ?? scaleOf(x);
  const { labels, left, top, step, plot, width, height, isSlanted, isNumbered } = placed(x.shape, options);
  const power = isNumbered && scale < 0.1 ? Math.ceil(-Math.log10(scale)) : 0; // small numbers are shown times a power of ten
  const spot = svg('rect.spot', { width: Math.max(4, step[1]), height: Math.max(4, step[0]), visibility: 'hidden' });
  const { smallest, largest } = statistics(x.numbers);
  const label = (axis, i, attributes) => {
    const light = lightOf(x.axes[axis], i);
    return svg('text.label', { ...attributes, data: light ? { at: light } : {} }, labels[axis]?.[i] ?? String(i));
  };
  const shown = [0, 1].map((axis) => (labels[axis] ? [...labels[axis].keys()] : ticks(0, x.shape[axis] - 1, 5).filter(Number.isInteger)));
  const above = (x, y) => (isSlanted ? { x, y, transform: `rotate(-45 ${x} ${y})` } : { x, y, 'text-anchor': 'middle' });
  const block = Math.ceil(MIN_HATCH / Math.min(...step)); // cells down and across that one stroke hatches
  const blocks = (axis) => range(Math.floor(x.shape[axis] / block)).map((i) => i * block);
  const stroke = (row, column) => `M${left + column * step[1]} ${top + (row + block) * step[0]}l${block * step[1]} ${-block * step[0]}`;
  const picture = image(
    width,
    height,
    `${title}: ${grouped(x.shape[0])} × ${grouped(x.shape[1])}, ${down || 'rows'} downwards, ${across || 'columns'} to the right, ` +
      `from ${digits(smallest)} to ${digits(largest)}; the arrow keys read single numbers${onPick ? ', Enter selects one' : ''}`,
    { class: onPick ? 'heatmap picks' : 'heatmap', role: 'group', tabindex: 0, data: { key: `heatmap-${title}` } },
    svg('rect.ground', { x: left, y: top, width: plot[1], height: plot[0] }),
    heat(x, scale, { x: left, y: top, width: plot[1], height: plot[0], 'aria-hidden': 'true' }),
    options.isCausal ? svg('path.masked', { d: blocks(0).flatMap((row) => blocks(1).filter((column) => column > row).map((column) => stroke(row, column))).join('') }) : null,
    shown[0].map((row) => label(0, row, { x: left - 6, y: top + (row + 0.5) * step[0] + 4, 'text-anchor': 'end' })),
    shown[1].map((column) => {
      const middle = left + (column + 0.5) * step[1];
      return label(1, column, labels[1] ? above(middle, top - 6) : { x: middle, y: top + plot[0] + 14, 'text-anchor': 'middle' });
    }),
    svg('text.axis-name', { x: left + plot[1] / 2, y: height - 6, 'text-anchor': 'middle' }, across),
    svg('text.axis-name', { x: 12, y: top + plot[0] / 2, 'text-anchor': 'middle', transform: `rotate(-90 12 ${top + plot[0] / 2})` }, down),
    isNumbered
      ? [...x.numbers].map((number, i) => {
          const [row, column] = [Math.floor(i / x.shape[1]), i % x.shape[1]];
          const place = { x: left + (column + 0.5) * step[1], y: top + row * step[0] + 14, 'text-anchor': 'middle' };
          return svg('text.number', place, short(number * 10 ** power));
        })
      : null,
    framed < 0 ? null : svg('rect.row', { x: left, y: top + framed * step[0], width: plot[1], height: step[0] }),
    spot,
  );
  const reading = el('output', ' ');
  const read = (row, column) => {
    spot.setAttribute('x', left + column * step[1] - (Math.max(4, step[1]) - step[1]) / 2);
    spot.setAttribute('y', top + row * step[0] - (Math.max(4, step[0]) - step[0]) / 2);
    spot.setAttribute('visibility', 'visible');
    const [ofRow, ofColumn] = [options.rows?.[row] ?? row, options.columns?.[column] ?? column].map(isolated);
    reading.textContent = `${`${down} ${ofRow}, ${across} ${ofColumn}`.trim()}: ${digits(at(x, [row, column]))}`;
    picture.dataset.at = `${row},${column}`;
  };
  follow(picture, x.shape, { left, top, step }, read, onPick);
  if (options.cellAt) read(...options.cellAt);
  return el(
    'figure.heatmap-box',
    { class: isNumbered ? 'numbered' : null, style: { '--left': `${left}px` } },
    el('figcaption', el('b', sentence(title)), power ? ` Numbers × 10^${power}.` : '', saveButtons(title, picture)),
    wide(picture),
    colors(x, Number(scale.toPrecision(6)), null, isThinned(x) ? el('small', ' · a square is the largest of several numbers') : null, options.isCausal ? el('small', 'hatched: masked') : null),
    reading,
  );
}

/** The labels, and where everything is; of labels that are wider than their column all rise to the right. */
function placed(shape, { down = '', across = '', rows, columns, cell: given, width, height }) {
  const isNumbered = !given && !width && Math.max(...shape) <= MAX_NUMBERS;
  const isLarge = !given && !width && !isNumbered; // its labels do not fit
  const cell = isNumbered ? NUMBER : given;
  const labels = [rows, columns].map((texts) => (isLarge ? undefined : texts?.map((text) => cut(text, MAX_LABEL))));
  const [before, above] = labels.map((texts) => Math.ceil(LETTER * Math.max(0, ...(texts ?? []).map((text) => text.length))));
  const isSlanted = Boolean(cell) && above > cell[1];
  const rise = isSlanted ? Math.ceil(above * Math.SQRT1_2) : 0;
  const [left, top] = [labels[0] ? Math.max(LEFT, (down ? 30 : 12) + before) : LEFT, labels[1] ? rise + 26 : TOP];
  const [right, bottom] = [Math.max(RIGHT, rise), labels[1] ? (across ? 24 : 4) : BOTTOM];
  const plot = cell
    ? [cell[0] * shape[0], cell[1] * shape[1]]
    : [(height ?? LARGE_HEIGHT) - top - bottom, (width ?? LARGE_WIDTH) - left - right];
  const step = plot.map((length, axis) => length / shape[axis]);
  return { labels, left, top, step, plot, width: left + plot[1] + right, height: top + plot[0] + bottom, isSlanted, isNumbered };
}

/** The pointer reads the cell below it, the arrow keys go from cell to cell. */
function follow(image, [rows, columns], { left, top, step }, read, onPick) {
  const inside = (index, length) => Math.max(0, Math.min(length - 1, index));
  const here = () => image.dataset.at?.split(',').map(Number);
  const point = (event) => {
    const box = image.getBoundingClientRect();
    const zoom = box.width / image.viewBox.baseVal.width;
    const [y, x] = [(event.clientY - box.top) / zoom - top, (event.clientX - box.left) / zoom - left];
    const [row, column] = [Math.floor(y / step[0]), Math.floor(x / step[1])];
    const isIn = row >= 0 && row < rows && column >= 0 && column < columns;
    if (isIn) read(row, column);
    return isIn;
  };
  image.addEventListener('pointermove', point);
  if (onPick) image.addEventListener('click', (event) => point(event) && onPick(...here()));
  image.addEventListener('keydown', (event) => {
    if (onPick && here() && ['Enter', ' '].includes(event.key)) onPick(...here());
    else if (ARROWS[event.key]) {
      const [row, column] = here() ?? [0, 0];
      const [down, right] = here() ? ARROWS[event.key] : [0, 0];
      read(inside(row + down, rows), inside(column + right, columns));
      image.querySelector('.spot').scrollIntoView({ block: 'nearest', inline: 'nearest' });
    } else return;
    event.preventDefault();
  });
}

/** Two digits: ".05", "−.31", "8.74". */
function short(number) {
  if (Number.isNaN(number)) return '–';
  const text = number.toFixed(2);
  return Number(text) === 0 ? '·' : text.replace('-', '−').replace(/^(−?)0\./, '$1.');
}
