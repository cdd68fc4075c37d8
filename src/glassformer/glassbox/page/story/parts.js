/** What the screens of the story draw with: tokens in boxes, the weights of a head, and names of parts for people. */

import { cut, svg } from 'glassbox/core/dom.js';
import { heatmap } from 'glassbox/views/heatmap.js';
import { headOf, percent, scaleOf, shortDigits } from 'glassbox/core/numbers.js';
import { visible } from 'glassbox/model/trace.js';

export const LETTER = 7.9; // pixels of a letter of a token, in the widest of the fonts
const WIDEST = 928; // pixels of the card
const NUMBER = 56; // pixels of a number in a row
const LONGEST = 12; // letters of a token that are drawn
const [CELL, TILE, SMALLEST, AROUND] = [22, 300, 13, 130]; // pixels of a cell, of the longest side of a tile, of a cell with a label, of the labels

/** How often answers like this one are right, in words; of a model without calibration nothing. */
export const calibrated = ({ probability }) =>
  probability == null ? null : `Calibrated on held-out rows, this answer is right with a probability of ${percent(probability)}.`;

/** A word next to a part of a picture. */
export const label = (x, y, text, anchor = 'start') => svg('text.story-label', { x, y, 'text-anchor': anchor }, text);

/** The width of the card that a picture is in, as far as it is in sight. */
export const roomOf = (app) => Math.min(app.width, WIDEST);

/** The tokens side by side: where each begins, and how wide it is. @returns {{x: number, width: number, text: string}[]} */
export function layOut(tokens, from = 0, least = 22) {
  const [around, gap] = least < 16 ? [3, 1] : least < 20 ? [6, 2] : [10, 2];
  let x = from;
  return tokens.map((token) => {
    const text = cut(visible(token.text), LONGEST);
    const width = Math.max(least, text.length * LETTER + around);
    x += width + gap;
    return { x: x - width - gap, width, text };
  });
}

export const endOf = (boxes) => (boxes.length ? boxes.at(-1).x + boxes.at(-1).width : 0);

/** The first numbers of a row in colored cells, as many as fit in the card; `data-end` is where they end. */
export function strip(app, x, y, numbers) {
  const count = Math.max(3, Math.min(8, numbers.length, Math.floor((roomOf(app) - x - 56) / NUMBER)));
  const scale = scaleOf({ numbers });
  const end = x + count * NUMBER;
  return svg(
    'g.story-strip',
    { data: { end: end + 56 } },
    [...numbers.subarray(0, count)].map((number, i) => [
      svg('rect', { class: number < 0 ? 'minus' : 'plus', x: x + i * NUMBER, y, width: NUMBER - 2, height: 24, 'fill-opacity': (Math.abs(number) / scale) * 0.7 }),
      svg('text', { x: x + (i + 0.5) * NUMBER - 1, y: y + 16, 'text-anchor': 'middle' }, shortDigits(number, 2)),
    ]),
    count < numbers.length ? label(end + 4, y + 16, `… ${numbers.length}`) : null,
  );
}

/** "2, 3 and 4" */
export const listed = (parts) => `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`;

/** A token in a box. */
export const tokenBox = ({ x, width, text }, y, kind = '', options = {}) =>
  svg(
    'g',
    { class: `story-token ${kind}`, ...options },
    svg('rect', { x, y, width, height: 24, rx: 4 }),
    svg('text', { x: x + width / 2, y: y + 16, 'text-anchor': 'middle' }, text),
  );

/** "“4”", of a token, where a space has a sign; in texts it has none, so that lines can end there. */
export const quoted = (token) => `“${visible(token.text ?? token)}”`;

/** What is written before a step: "“July 20, 19”". */
export const sofar = (trace, row) =>
  row ? `“${trace.tokenizer('target').decode(trace.tokens.target_out.slice(0, row).map(({ id }) => id))}”` : 'empty';

/** Steps, such as "step 9, which reads “1” and writes “4”". */
export const stepName = ({ tokens: { target_in: inputs, target_out: outputs } }, row) =>
  `step ${row}, which reads ${quoted(inputs[row])} and writes ${quoted(outputs[row])}`;

/** The probability of the output token of a row. */
export const probabilityOf = (trace, row) => trace.probabilityOf('logits', row, trace.tokens.target_out[row].id) ?? 0;

/** The weights of a head, with the tokens on the axes where they fit; a row is framed. Rows of the decoder are its output tokens. */
export function headTile(app, title, { name, head, row }) {
  const weights = headOf(app.trace.get(`${name}.weights`), head);
  const cell = Math.min(CELL, Math.min(TILE, roomOf(app) - AROUND) / Math.max(...weights.shape));
  const [down, across] = weights.axes.map((axis) => app.trace.axes[axis]);
  const [rows, columns] = [down.predicted ?? down.labels, across.labels].map((labels) => labels.map(visible));
  const names = { down: down.predicted ? 'writes' : 'token', across: name.endsWith('cross') ? 'source tokens (keys)' : 'keys' };
  return heatmap(title, weights, { ...names, ...(cell < SMALLEST ? {} : { rows, columns }), cell: [cell, cell], scale: 1, row });
}
