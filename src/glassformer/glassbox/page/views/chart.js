/** Line charts in SVG, with real text; series differ by dash and name, not by color alone. */

import { el, sentence, svg } from 'glassbox/core/dom.js';
import { saveButtons } from 'glassbox/views/figure.js';
import { digits, grouped, ticks } from 'glassbox/core/numbers.js';

const [HEIGHT, LEFT, RIGHT, BOTTOM, TOP] = [190, 60, 20, 38, 10];
const DASHES = ['none', '6 3', '2 3'];

/**
 * @param {string} title
 * @param {{name: string, numbers: number[], xs?: number[]}[]} given  `xs` are 0, 1, … by default
 * @param {{axis?: string, log?: boolean, width?: number, onPick?: (x: number) => void}} options  the name of the x axis;
 *   whether the y axis is logarithmic (where all numbers are above 0); what a click does
 * @returns {HTMLElement & {mark: (x: number|null) => void}}  `mark` moves the mark; null hides it
 */
export function lines(title, given, { axis = '', log = false, width = 640, onPick = null } = {}) {
  const series = given.filter(({ numbers }) => numbers.length);
  if (!series.length) return el('p.hint', `${title}: no numbers.`);
  const xs = series.flatMap(({ numbers, xs: own }) => own ?? [...numbers.keys()]);
  const ys = series.flatMap(({ numbers }) => numbers);
  const isLog = log && ys.every((number) => number > 0);
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const [low, high] = [isLog ? Math.min(...ys) : Math.min(0, ...ys), Math.max(...ys)];
  const level = isLog ? Math.log : (number) => number;
  const x = (value) => LEFT + ((value - left) / (right - left || 1)) * (width - LEFT - RIGHT);
  const y = (number) =>
    HEIGHT - BOTTOM - ((level(number) - level(low)) / (level(high) - level(low) || 1)) * (HEIGHT - BOTTOM - TOP);
  const text = (label, at, down, anchor) => svg('text', { x: at, y: down, 'text-anchor': anchor }, label);
  const round = isLog ? ticks(Math.log10(low), Math.log10(high), 3).map((power) => Number((10 ** power).toPrecision(1))) : ticks(low, high, 5);
  const inside = [...new Set(round)].filter((number) => number >= low && number <= high);
  const marks = inside.length ? inside : [low];
  const point = series.map((_, i) => svg(`circle.dot.series-${i}`, { r: 3.5, visibility: 'hidden' }));
  const axisAt = (height) => svg('line.axis', { x1: LEFT, x2: width - RIGHT, y1: height, y2: height });
  const markLine = svg('line.mark', { y1: TOP, y2: HEIGHT - BOTTOM });
  const plot = svg(
    'svg',
    {
      viewBox: `0 0 ${width} ${HEIGHT}`,
      role: 'img',
      class: onPick ? 'picks' : null,
      'aria-label': `${title}${isLog ? ', log scale' : ''}: from ${digits(Math.min(...ys))} to ${digits(high)}`,
    },
    axisAt(HEIGHT - BOTTOM),
    marks.map((number) => [axisAt(y(number)), text(String(number).replace('-', '−'), LEFT - 6, y(number) + 4, 'end')]),
    ticks(left, right, 5).map((at) => text(grouped(at), x(at), HEIGHT - 22, 'middle')),
    text(axis, width - RIGHT, HEIGHT - 6, 'end'),
    series.map(({ numbers, xs: own }, i) =>
      svg(`polyline.series-${i}`, {
        'stroke-dasharray': DASHES[i % DASHES.length],
        points: numbers.map((number, at) => `${x(own?.[at] ?? at).toFixed(1)},${y(number).toFixed(1)}`).join(' '),
      }),
    ),
    point,
    markLine,
  );
  const value = el('span.at');
  const figure = el(
    'figure.chart',
    plot,
    el(
      'figcaption',
      sentence(title),
      series.length > 1 ? series.map(({ name }, i) => el(`span.key.key-${i}`, name)) : null,
      value,
      saveButtons(title, plot),
    ),
  );
  figure.mark = (at) => {
    markLine.setAttribute('visibility', at === null ? 'hidden' : 'visible');
    if (at === null) return;
    for (const end of ['x1', 'x2']) markLine.setAttribute(end, x(at));
    figure.dataset.mark = at;
  };
  figure.mark(null);
  const valueAt = (event) => {
    const box = plot.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * width;
    return left + ((at - LEFT) / (width - LEFT - RIGHT)) * (right - left);
  };
  plot.addEventListener('pointermove', (event) => {
    const near = series.map((each) => nearest(each, valueAt(event)));
    value.textContent = ` · ${axis} ${grouped(near[0][0])}: ${near.map(([, number]) => digits(number)).join(', ')}`;
    near.forEach(([at, number], i) => {
      for (const [name, to] of Object.entries({ cx: x(at), cy: y(number), visibility: 'visible' }))
        point[i].setAttribute(name, to);
    });
  });
  plot.addEventListener('pointerleave', () => {
    value.textContent = '';
    for (const dot of point) dot.setAttribute('visibility', 'hidden');
  });
  if (onPick) plot.addEventListener('click', (event) => onPick(valueAt(event)));
  return figure;
}

/** The point of a series whose x is nearest. */
function nearest({ numbers, xs }, value) {
  const at = numbers.reduce((best, _, i) => {
    const distance = (k) => Math.abs((xs?.[k] ?? k) - value);
    return distance(i) < distance(best) ? i : best;
  }, 0);
  return [xs?.[at] ?? at, numbers[at]];
}
