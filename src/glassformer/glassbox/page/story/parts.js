/** What the screens of the story draw with: tokens in boxes, the weights of a head, and names of parts for people. */

import { cut, svg } from 'glassbox/core/dom.js';
import { heatmap } from 'glassbox/views/heatmap.js';
import { headOf, percent } from 'glassbox/core/numbers.js';
import { visible } from 'glassbox/model/trace.js';

export const LETTER = 7.9; // pixels of a letter of a token, in the widest of the fonts
const WIDEST = 928; // pixels of the card
const LONGEST = 12; // letters of a token that are drawn
const [CELL, TILE, SMALLEST, AROUND] = [22, 300, 13, 130]; // pixels of a cell, of the longest side of a tile, of a cell with a label, of the labels

/** How often answers like this one are right, in words; of a model without calibration nothing. */
export const calibrated = ({ confidence }) =>
  confidence == null ? null : `Its confidence, calibrated on held-out rows, is ${percent(confidence)}.`;

/** A word next to a part of a picture. */
export const label = (x, y, text, anchor = 'start') => svg('text.story-label', { x, y, 'text-anchor': anchor }, text);

/** The width of the card that a picture is in, as far as it is in sight. */
export const roomOf = (app) => Math.min(app.width, WIDEST);

/** The tokens side by side: where each begins, and how wide it is. @returns {{x: number, width: number, text: string}[]} */
export function layOut(tokens, from = 0, least = 22) {
  let x = from;
  return tokens.map((token) => {
    const text = cut(visible(token.text), LONGEST);
    const width = Math.max(least, text.length * LETTER + (least < 20 ? 6 : 10));
    x += width + 2;
    return { x: x - width - 2, width, text };
  });
}

export const endOf = (boxes) => (boxes.length ? boxes.at(-1).x + boxes.at(-1).width : 0);

/** A token in a box. */
export const tokenBox = ({ x, width, text }, y, kind = '', options = {}) =>
  svg(
    'g',
    { class: `story-token ${kind}`, ...options },
    svg('rect', { x, y, width, height: 24, rx: 4 }),
    svg('text', { x: x + width / 2, y: y + 16, 'text-anchor': 'middle' }, text),
  );

/** "“4”" */
export const quoted = (token) => `“${visible(token.text ?? token)}”`;

/** What is written before a step: "“July 20, 19”". */
export const sofar = (trace, row) =>
  row ? quoted(trace.tokenizer('target').decode(trace.tokens.target_out.slice(0, row).map(({ id }) => id))) : 'empty';

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
