/** A sublayer, opened in the figure: what it does with one row, in numbers that move from step to step. */

import { button, choices, cut, el, image, range, svg } from 'glassbox/core/dom.js';
import { headOf, indexOfLargest, percent, rowOf, scaleOf, shortDigits } from 'glassbox/core/numbers.js';
import { layerTitle, SUBLAYERS } from 'glassbox/model/labels.js';
import { cellsOf } from 'glassbox/model/stream.js';
import { visible } from 'glassbox/model/trace.js';

const [LINE, TOP, MOST, CELL] = [27, 66, 14, 18]; // pixels of a key and above the first; keys and cells that are drawn
const WIDE = { wide: 190, K: 128, SCORE: 382, WEIGHT: 410, BAR: 90, V: 584, END: 784 };
const NARROW = { wide: 84, K: 48, SCORE: 178, WEIGHT: 182, BAR: 0, V: 246, END: 334 };
const placesOf = (app) => (app.width < 700 ? NARROW : WIDE);
const [ENTERS, MEETS, WEIGHS, FLOWS, LEAVES] = [100, 700, 1900, 2600, 3400]; // milliseconds

/** @param {{part: string, row: number, close: () => void}} opened  a sublayer, and a row of it */
export function openedBand(app, { part, row, close }) {
  const [side, layer, kind] = part.split('.');
  const isAttention = kind !== 'feed_forward';
  const heads = range(app.trace.axes.head.length).map((head) => [head, `head ${head}`]);
  const panel = isAttention ? { panel: 'attention', part } : { panel: 'norm', part };
  return el(
    'section.opened',
    { 'aria-label': `${SUBLAYERS[kind]}, opened`, tabindex: -1, data: { opened: part } },
    el(
      'header.row',
      el('strong', `${side} › ${layerTitle(app.trace, side, layer)} › ${SUBLAYERS[kind]}`),
      isAttention ? choices('head', heads, app.state.head, (head) => app.set({ head })) : null,
      el('a.link', { href: app.link({ ...panel, band: null }), data: { key: 'opened-all' } }, isAttention ? 'the matrix, every number →' : 'every number →'),
      button('✕', close, { class: 'close', 'aria-label': 'close', data: { key: 'close-band' } }),
    ),
    el('div.sideways', { tabindex: 0, role: 'group', 'aria-label': 'its numbers' }, isAttention ? attentionOf(app, part, app.state.head, row) : workOf(app, part, row)),
  );
}

const later = (time, more = {}) => ({ '--at': time, ...more });
const label = (x, y, text, anchor = 'start') => svg('text.label', { x, y, 'text-anchor': anchor }, text);

/** A row of numbers as cells, in a frame with the color of what it is. */
function strip(numbers, x, y, { kind = '', width, scale = scaleOf({ numbers }), ...more } = {}) {
  const cells = cellsOf(numbers, CELL);
  const wide = width / cells.length;
  return svg(
    'g',
    { class: `strip-row ${kind}`, ...more },
    cells.map((number, i) => svg('rect', { class: number < 0 ? 'minus' : 'plus', x: x + i * wide, y, width: wide, height: 16, 'fill-opacity': Math.min(1, Math.abs(number) / scale).toFixed(2) })),
    svg('rect.border', { x, y, width, height: 16 }),
  );
}

/** One head in one row: the query meets each key, softmax makes weights of the scores, and the values flow into their sum. */
function attentionOf(app, part, head, row) {
  const { trace } = app;
  const of = (name) => headOf(trace.get(`${part}.${name}`), head);
  const [queries, keys, scaled, weights, values, sums] = ['queries', 'keys', 'scaled', 'weights', 'values', 'heads'].map(of);
  const [tokens, rows] = [trace.axes[weights.axes[1]].labels, trace.axes[weights.axes[0]].labels];
  const numbers = rowOf(weights, row);
  const seen = range(numbers.length).filter((key) => numbers[key] > 0 || part.endsWith('cross') || part.startsWith('encoder') || key <= row);
  const from = Math.max(0, Math.min(indexOfLargest(numbers) - MOST / 2, seen.length - MOST));
  const shown = seen.slice(from, from + MOST);
  const scores = rowOf(scaled, row);
  const { wide: width, K, SCORE, WEIGHT, BAR, V, END } = placesOf(app);
  const bottom = TOP + shown.length * LINE + 16;
  const [scaleK, scaleV] = [scaleOf(keys), scaleOf(values)];
  const press = (name, cell) => ({ on: { click: () => app.goTo(`${part}.${name}`, cell) } });
  const words = shown.map((key) => `“${visible(tokens[key])}” score ${shortDigits(scores[key])}, weight ${percent(numbers[key])}`);
  return image(
    END,
    bottom + 62,
    `head ${head} in the row of “${visible(rows[row])}”: ${words.join('; ')}`,
    { class: 'opening-band' },
    label(K - 12, 22, `“${cut(visible(rows[row]), 7)}”${BAR ? ' asks' : ''}`, 'end'),
    strip(rowOf(queries, row), K, 10, { width, kind: 'q at', style: later(ENTERS) }),
    svg('text.name.q', { x: K + width + 8, y: 23 }, 'Q'),
    strip(rowOf(queries, row), K, 10, { width, kind: 'q travels', style: later(MEETS, { '--way': `${TOP - 10 + (shown.length - 1) * LINE}px` }) }),
    svg('text.name.k', { x: K, y: TOP - 10 }, 'K'), label(K + 14, TOP - 10, 'keys'),
    label(SCORE, TOP - 10, BAR ? 'q · k / √d' : 'score', 'end'), label(WEIGHT, TOP - 10, BAR ? 'softmax: weight' : 'weight'),
    svg('text.name.v', { x: V, y: TOP - 10 }, 'V'), label(V + 14, TOP - 10, BAR ? 'values × weight' : 'values'),
    shown.map((key, i) => {
      const y = TOP + i * LINE;
      const meets = MEETS + (i * (WEIGHS - MEETS)) / shown.length;
      return svg(
        'g.key',
        { class: numbers[key] === Math.max(...numbers) ? 'most' : '' },
        BAR ? label(14, y + 13, String(key)) : null,
        svg('text.token', { x: K - 12, y: y + 13, 'text-anchor': 'end' }, cut(visible(tokens[key]), BAR ? 10 : 4)),
        strip(rowOf(keys, key), K, y, { width, kind: 'k', scale: scaleK, ...press('keys', [head, key, 0]) }),
        svg('text.score.at', { x: SCORE, y: y + 13, 'text-anchor': 'end', style: later(meets), ...press('scaled', [head, row, key]) }, shortDigits(scores[key])),
        svg('rect.bar.grows', { x: WEIGHT, y: y + 2, width: Math.max(1, BAR * numbers[key]), height: 12, style: later(WEIGHS) }),
        svg('text.score.at', { x: WEIGHT + 6 + BAR * numbers[key], y: y + 13, style: later(WEIGHS + 300), ...press('weights', [head, row, key]) }, percent(numbers[key])),
        strip(rowOf(values, key), V, y, { width, kind: 'v', scale: scaleV, opacity: (0.12 + 0.88 * numbers[key]).toFixed(2), ...press('values', [head, key, 0]) }),
        strip(rowOf(values, key), V, y, { width, kind: 'v falls', scale: scaleV, style: later(FLOWS, { '--way': `${bottom - y}px`, '--weight': numbers[key].toFixed(3) }) }),
      );
    }),
    label(V - 10, bottom + 13, 'their sum', 'end'),
    strip(rowOf(sums, row), V, bottom, { width, kind: 'v at', scale: scaleV, style: later(FLOWS + 500), ...press('heads', [head, row, 0]) }),
    svg('g.at', { style: later(LEAVES) }, label(END - 10, bottom + 46, 'all heads → W_O → added to the stream', 'end'), svg('path.out', { d: `M${V + width / 2} ${bottom + 20}v10` })),
  ); // prettier-ignore
}

/** The feed-forward network of one row: wider, what is below 0 is cut, and back; the result is added. */
function workOf(app, part, row) {
  const { trace } = app;
  const step = trace.stepOf.get(`${part}.hidden`) ?? trace.stepOf.get(`${part}.activated`);
  const [before, after] = [trace.stepOf.get(`${part}.residual`).inputs[0], `${part}.residual`];
  const names = [step?.inputs[0], `${part}.hidden`, `${part}.activated`, `${part}.output`, before, after].filter((name) => trace.has(name));
  const titles = { [`${part}.hidden`]: 'times W₁: wider', [`${part}.activated`]: 'activation', [`${part}.output`]: 'times W₂: as wide as before', [before]: '+ the stream', [after]: '= the stream after it' };
  const most = Math.max(...names.map((name) => rowOf(trace.get(name), row).length));
  const { END } = placesOf(app);
  return image(
    END,
    names.length * 52 + 8,
    `the feed-forward network in one row: ${names.map((name) => titles[name] ?? 'the row').join(', ')}`,
    { class: 'opening-band' },
    names.map((name, i) => {
      const numbers = rowOf(trace.get(name), row);
      const zeros = numbers.filter((number) => number === 0).length;
      const note = `${titles[name] ?? 'the row'} · ${numbers.length} numbers${name.endsWith('activated') && zeros ? `, ${percent(zeros / numbers.length)} are 0` : ''}`;
      const width = (END - 20) * (0.4 + (0.6 * numbers.length) / most);
      return svg('g.at', { style: later(i * 500), on: { click: () => app.goTo(name, [row, 0]) } }, label(10, i * 52 + 18, note), strip(numbers, 10, i * 52 + 26, { width }));
    }),
  ); // prettier-ignore
}
