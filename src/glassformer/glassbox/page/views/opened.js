/** A sublayer, opened in the figure: what it does with one row, in numbers that move from step to step. */

import { button, choices, cut, el, image, range, svg } from 'glassbox/core/dom.js';
import { headOf, indexOfLargest, percent, rowOf, scaleOf, shortDigits } from 'glassbox/core/numbers.js';
import { headTitle, layerTitle, SUBLAYERS } from 'glassbox/model/labels.js';
import { visible } from 'glassbox/model/trace.js';

const [LINE, TOP, MOST, CELL, HIGH] = [27, 66, 14, 18, 16]; // pixels of a key and above the first; keys and cells that are drawn; pixels of a cell
const WIDE = { width: 190, K: 128, SCORE: 382, WEIGHT: 410, BAR: 90, V: 584, END: 784 };
const NARROW = { width: 76, K: 48, SCORE: 174, WEIGHT: 178, BAR: 0, V: 254, END: 336 };
const [ENTERS, MEETS, WEIGHS, FLOWS, LEAVES] = [100, 700, 1900, 2600, 3400]; // milliseconds
const placesOf = (app) => (app.width < WIDE.END ? NARROW : WIDE);

/** @param {{part: string, row: number, close: () => void}} opened  a sublayer, and a row of it */
export function openedBand(app, { part, row, close }) {
  const [side, layer, kind] = part.split('.');
  const isAttention = kind !== 'feed_forward';
  const heads = range(app.trace.axes.head.length).map((head) => [head, headTitle(head)]);
  const href = app.link({ panel: isAttention ? 'attention' : 'norm', part, band: null });
  const header = el(
    'header.row',
    el('strong', `${side} › ${layerTitle(app.trace, side, layer)} › ${SUBLAYERS[kind]}`),
    isAttention ? choices('head', heads, app.state.head, (head) => app.set({ head })) : null,
    el('a.link', { href, data: { key: 'opened-all' } }, isAttention ? 'the matrix, every number →' : 'every number →'),
    button('✕', close, { class: 'close', 'aria-label': 'close', data: { key: 'close-band' } }),
  );
  const picture = isAttention ? attentionPicture(app, part, app.state.head, row) : workPicture(app, part, row);
  const sideways = el('div.sideways', { tabindex: 0, role: 'group', 'aria-label': 'its numbers' }, picture);
  return el('section.opened', { 'aria-label': `${SUBLAYERS[kind]}, opened`, tabindex: -1, data: { opened: part } }, header, sideways);
}

const later = (time, more = {}) => ({ '--at': time, ...more });
const text = (x, y, words, anchor = 'start', more = {}) => svg('text', { x, y, 'text-anchor': anchor, class: 'label', ...more }, words);
const partOf = ({ length }) => (length > CELL ? ` · ${CELL} of ${length} shown` : ` · ${length} numbers`);
const letter = (name, x, y, words) => [text(x, y, name, 'start', { class: `name ${name.toLowerCase()}` }), text(x + 14, y, words)];

/** A row of numbers as cells, in a frame with the color of what it is. */
function strip(numbers, x, y, width, kind = '', { scale = scaleOf({ numbers }), ...more } = {}) {
  const count = Math.min(CELL, numbers.length);
  const [cells, wide] = [range(count).map((i) => numbers[Math.floor((i * numbers.length) / count)]), width / count];
  const cell = (number, i) =>
    svg('rect', { class: number < 0 ? 'minus' : 'plus', x: x + i * wide, y, width: wide, height: HIGH, 'fill-opacity': Math.min(1, Math.abs(number) / scale).toFixed(2) });
  return svg('g', { class: `strip-row ${kind}`, ...more }, cells.map(cell), svg('rect.border', { x, y, width, height: HIGH }));
}

/**
 * One head in one row: the query meets each key, softmax makes weights of the scores, and the values flow into their sum.
 * Null where the trace does not have these.
 */
export function attentionPicture(app, part, head, row) {
  const { trace } = app;
  const tensors = ['queries', 'keys', 'scaled', 'weights', 'values', 'heads'].map((name) => trace.get(`${part}.${name}`));
  if (tensors.includes(null)) return null;
  const [queries, keys, scaled, weights, values, sums] = tensors.map((x) => headOf(x, head));
  const { width, K, SCORE, WEIGHT, BAR, V, END } = placesOf(app);
  const [names, rows] = [trace.axes[weights.axes[1]].labels, trace.axes[weights.axes[0]].labels].map((labels) => labels.map(visible));
  const [numbers, scores] = [weights, scaled].map((x) => rowOf(x, row));
  const isMasked = /decoder.*self$/.test(part);
  const seen = range(numbers.length).filter((key) => !isMasked || key <= row || numbers[key] > 0);
  const from = Math.max(0, Math.min(indexOfLargest(numbers) - MOST / 2, seen.length - MOST));
  const shown = seen.slice(from, from + MOST);
  const bottom = TOP + shown.length * LINE + 16;
  const open = (name, ...cell) => ({ on: { click: () => app.goTo(`${part}.${name}`, [head, ...cell]) } });
  const words = shown.map((key) => `“${names[key]}” score ${shortDigits(scores[key])}, weight ${percent(numbers[key])}`);
  const ofKey = (key, i) => {
    const [y, time, weight] = [TOP + i * LINE, MEETS + (i * (WEIGHS - MEETS)) / shown.length, numbers[key]];
    const [value, scale] = [rowOf(values, key), scaleOf(values)];
    const score = (x, words, anchor, at, to) => text(x, y + 13, words, anchor, { class: 'score at', style: later(at), ...to });
    return svg(
      'g.key',
      { class: key === indexOfLargest(numbers) ? 'most' : '' },
      BAR ? text(14, y + 13, String(key)) : null,
      text(K - 12, y + 13, cut(names[key], BAR ? 9 : 4), 'end', { class: 'token' }),
      strip(rowOf(keys, key), K, y, width, 'k', { scale: scaleOf(keys), ...open('keys', key, 0) }),
      score(SCORE, shortDigits(scores[key]), 'end', time, open('scaled', row, key)),
      svg('rect.bar.grows', { x: WEIGHT, y: y + 2, width: Math.max(1, BAR * weight), height: 12, style: later(WEIGHS) }),
      score(WEIGHT + 6 + BAR * weight, percent(weight), 'start', WEIGHS + 300, open('weights', row, key)),
      strip(value, V, y, width, 'v', { scale, opacity: (0.12 + 0.88 * weight).toFixed(2), ...open('values', key, 0) }),
      strip(value, V, y, width, 'v falls', { scale, style: later(FLOWS, { '--way': `${bottom - y}px`, '--weight': weight.toFixed(3) }) }),
    );
  };
  return image(
    END,
    bottom + 62,
    `${headTitle(head)} in the row of “${rows[row]}”: ${words.join('; ')}`,
    { class: 'opening-band' },
    text(K - 12, 22, `“${cut(rows[row], 7)}”${BAR ? ' asks' : ''}`, 'end'),
    strip(rowOf(queries, row), K, 10, width, 'q at', { style: later(ENTERS), ...open('queries', row, 0) }),
    strip(rowOf(queries, row), K, 10, width, 'q travels', { style: later(MEETS, { '--way': `${TOP - 10 + (shown.length - 1) * LINE}px` }) }),
    [letter('Q', K + width + 8, 23, `query${partOf(rowOf(queries, row))}`), letter('K', K, TOP - 10, 'keys'), letter('V', V, TOP - 10, BAR ? 'values × weight' : 'values')],
    [text(SCORE, TOP - 10, BAR ? 'q · k / √d' : 'score', 'end'), text(WEIGHT, TOP - 10, BAR ? 'softmax: weight' : 'weight')],
    shown.map(ofKey),
    text(V - 10, bottom + 13, 'their sum', 'end'),
    strip(rowOf(sums, row), V, bottom, width, 'v at', { scale: scaleOf(values), style: later(FLOWS + 500), ...open('heads', row, 0) }),
    svg('g.at', { style: later(LEAVES) }, text(END - 10, bottom + 46, 'all heads → W_O → added to the row', 'end'), svg('path.out', { d: `M${V + width / 2} ${bottom + 20}v10` })),
    shown.length < seen.length && BAR ? text(14, bottom + 46, `${shown.length} of ${seen.length} tokens`) : null,
  );
}

/** The feed-forward network of one row: wider, what is below 0 is cut, and back; the result is added. */
function workPicture(app, part, row) {
  const { trace } = app;
  const { inputs } = trace.stepOf.get(`${part}.residual`);
  const parts = [
    [trace.stepOf.get(`${part}.hidden`)?.inputs[0], trace.isPreNorm ? 'the row after its norm' : 'the row'], [`${part}.hidden`, 'times W₁: wider'], [`${part}.activated`, 'activation'],
    [`${part}.output`, 'times W₂: as wide as before'], [inputs[0], '+ the row'], [`${part}.residual`, '= the row after it'],
  ].filter(([name]) => trace.has(name)); // prettier-ignore
  const rows = parts.map(([name]) => rowOf(trace.get(name), row));
  const [{ END }, most] = [placesOf(app), Math.max(...rows.map(({ length }) => length))];
  const line = ([name, title], i) => {
    const zeros = rows[i].filter((number) => number === 0).length / rows[i].length;
    const note = `${title}${name.endsWith('activated') && zeros ? ` · ${percent(zeros)} are 0` : ''}${partOf(rows[i])}`;
    const numbers = strip(rows[i], 10, i * 52 + 26, (END - 20) * (0.4 + (0.6 * rows[i].length) / most));
    return svg('g.at', { style: later(i * 500), on: { click: () => app.goTo(name, [row, 0]) } }, text(10, i * 52 + 18, note), numbers);
  };
  return image(END, parts.length * 52 + 8, `the feed-forward network in one row: ${parts.map(([, title]) => title).join(', ')}`, { class: 'opening-band' }, parts.map(line));
}
