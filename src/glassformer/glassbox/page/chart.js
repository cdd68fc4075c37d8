/** Line charts in SVG, with real text; series differ by dash and name, not by color alone. */

import { el, svg } from 'glassbox/dom.js';
import { digits } from 'glassbox/numbers.js';

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [640, 170, 56, 24, 8];
const DASHES = ['none', '6 3', '2 3'];

/**
 * @param {string} title
 * @param {{name: string, numbers: number[], xs?: number[]}[]} series  `xs` are 0, 1, … by default
 * @param {{axis?: string, mark?: number}} options  the name of the x axis, and a value of x to mark
 */
export function lines(title, series, { axis = '', mark = null } = {}) {
  const xs = series.flatMap(({ numbers, xs: given }) => given ?? [...numbers.keys()]);
  const ys = series.flatMap(({ numbers }) => numbers);
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const x = (value) => LEFT + ((value - left) / (right - left || 1)) * (WIDTH - LEFT - 8);
  const y = (number) => HEIGHT - BOTTOM - ((number - low) / (high - low || 1)) * (HEIGHT - BOTTOM - TOP);
  const text = (label, at, down, anchor) => svg('text', { x: at, y: down, 'text-anchor': anchor }, label);
  return el(
    'figure.chart',
    svg(
      'svg',
      {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        role: 'img',
        'aria-label': `${title}: from ${digits(low)} to ${digits(high)}`,
      },
      svg('line.axis', { x1: LEFT, x2: WIDTH - 8, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }),
      low < 0 && high > 0 ? svg('line.axis', { x1: LEFT, x2: WIDTH - 8, y1: y(0), y2: y(0) }) : null,
      mark === null ? null : svg('line.mark', { x1: x(mark), x2: x(mark), y1: TOP, y2: HEIGHT - BOTTOM }),
      text(digits(high), LEFT - 6, TOP + 8, 'end'),
      text(digits(low), LEFT - 6, HEIGHT - BOTTOM, 'end'),
      text(String(left), LEFT, HEIGHT - 6, 'start'),
      text(`${axis} ${right}`, WIDTH - 8, HEIGHT - 6, 'end'),
      series.map(({ numbers, xs: given }, i) =>
        svg(`polyline.series-${i}`, {
          'stroke-dasharray': DASHES[i % DASHES.length],
          points: numbers.map((number, at) => `${x(given?.[at] ?? at).toFixed(1)},${y(number).toFixed(1)}`).join(' '),
        }),
      ),
    ),
    el('figcaption', title, series.length > 1 ? series.map(({ name }, i) => el(`span.key.key-${i}`, name)) : null),
  );
}
