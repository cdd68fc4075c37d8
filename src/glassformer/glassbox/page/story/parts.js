/** What the screens of the story show things with: tokens in boxes, rows of numbers, the weights of a head, and names for people. */

import { el, isolated, sentence } from 'glassbox/core/dom.js';
import { saveButtons } from 'glassbox/views/figure.js';
import { heatmap } from 'glassbox/views/heatmap.js';
import { headOf, percent, scaleOf, shortDigits } from 'glassbox/core/numbers.js';
import { visible } from 'glassbox/model/trace.js';

const WIDEST = 928; // pixels of the card
const SHOWN = 8; // numbers of a row
const [CELL, TILE, SMALLEST, AROUND, NUMBERED] = [[22, 44], [300, 640], 13, 130, 50]; // pixels: height and width of a cell, and of a tile, at most; of a cell with a label; of the labels, and of their numbers

/** How often answers like this one are right, in words; of a model without calibration nothing. */
export const calibrated = ({ confidence }) =>
  confidence == null ? null : `Its confidence, calibrated on held-out rows, is ${percent(confidence)}.`;

/** The width of the card that a picture is in, as far as it is in sight. */
export const roomOf = (app) => Math.min(app.width, WIDEST);

/** A part of a screen on a card, and below it in words what it is; a picture can be saved. */
export const card = (title, ...content) =>
  el('figure.story-card', el('div.scroller', content), el('figcaption', sentence(title), content[0].matches('svg') ? saveButtons(title, content[0]) : null));

/** Tokens in boxes, with a class and attributes for each. */
export const tokenRow = (tokens, kindOf = () => '', attributesOf = () => ({})) =>
  el(
    'bdi.story-tokens',
    tokens.map((token, i) => el('span.story-token', { title: token.text, class: `${token.kind ?? ''} ${kindOf(i)}`, ...attributesOf(i) }, visible(token.text))),
  );

/** The first numbers of a row in colored cells, as many as there is room for. */
export function strip(numbers) {
  const scale = scaleOf({ numbers });
  const cell = (number) => el(`span.${number < 0 ? 'minus' : 'plus'}`, { style: { '--fraction': `${(Math.abs(number) / scale) * 62}%` } }, shortDigits(number, 2));
  return el('span.story-strip', el('span.cells', [...numbers.subarray(0, SHOWN)].map(cell)), el('small', `… ${numbers.length}`));
}

/** "“4”", of a token, where a space has a sign; in texts it has none, so that lines can end there. */
export const quoted = (token) => `“${isolated(visible(token.text ?? token))}”`;

/** What is written before a step: "“July 20, 19”". */
export const sofar = (trace, row) =>
  row ? `“${trace.tokenizer('target').decode(trace.tokens.target_out.slice(0, row).map(({ id }) => id))}”` : 'empty';

/** Steps, such as "step 9, which reads “1” and writes “4”". */
export const stepName = ({ tokens: { target_in: inputs, target_out: outputs } }, row) =>
  `step ${row}, which reads ${quoted(inputs[row])} and writes ${quoted(outputs[row])}`;

/** The steps that the mask hides from a step: "step 18", "steps 5 to 18". */
export const masked = (last, row) => (row === last ? 'no step, this is the last one' : `step${last === row + 1 ? ' ' : `s ${row + 1} to `}${last}`);

/** The weights of a head, with the tokens on the axes where they fit; a row is framed. Rows of the decoder are its output tokens. */
export function headTile(app, title, { name, head, row, room = roomOf(app) }) {
  const [weights, isPhone] = [headOf(app.trace.get(`${name}.weights`), head), app.width < WIDEST / 2];
  const cell = weights.shape.map((length, axis) => Math.min(CELL[axis], Math.min(TILE[axis], room - AROUND - (isPhone ? 0 : NUMBERED)) / length));
  const [down, across] = weights.axes.map((axis) => app.trace.axes[axis]);
  const number = (token, i) => (isPhone ? visible(token) : `${i}: ${visible(token)}`); // on a phone there is no room
  const [rows, columns] = [down.predicted ?? down.labels, across.labels].map((labels) => labels.map(number));
  const names = { down: down.predicted ? 'writes' : 'token', across: name.endsWith('cross') ? 'source tokens (keys)' : 'keys' };
  return heatmap(title, weights, { ...names, ...(Math.min(...cell) < SMALLEST ? {} : { rows, columns }), cell, scale: 1, row, isCausal: name.startsWith('decoder') && name.endsWith('self') });
}
