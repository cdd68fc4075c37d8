/** What the screens of the story draw with: tokens in boxes, the weights of a head, and names of parts for people. */

import { cut, image, svg } from 'glassbox/dom.js';
import { heat } from 'glassbox/heat.js';
import { titleOf } from 'glassbox/labels.js';
import { at, headOf, percent } from 'glassbox/numbers.js';
import { visible } from 'glassbox/trace.js';

export const LETTER = 7.9; // pixels of a letter of a token, in the widest of the fonts
const WIDEST = 928; // pixels of the card
const LONGEST = 12; // letters of a token that are drawn
const [CELL, TILE, SMALLEST] = [22, 300, 13]; // pixels of a cell, of the longest side of a tile, of a cell with a label

/** How often answers like this one are right, in words; of a model without calibration nothing. */
export const calibrated = ({ probability }) =>
  probability == null ? null : `Calibrated on held-out rows, this answer is right with a probability of ${percent(probability)}.`;

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
export const probabilityOf = (trace, row) => {
  const { target_out: outputs } = trace.tokens;
  const { top } = trace.predictions.logits[row];
  const logProbs = trace.get('log_probs');
  return top.find(([id]) => id === outputs[row].id)?.[2] ?? (logProbs ? Math.exp(at(logProbs, [row, outputs[row].id])) : 0);
};

/** The weights of a head, with the tokens on the axes where they fit; a row is framed. Rows of the decoder are its output tokens. */
export function headTile(app, { name, head, row }) {
  const weights = headOf(app.trace.get(`${name}.weights`), head);
  const [rows, columns] = weights.shape;
  const cell = Math.min(CELL, TILE / Math.max(rows, columns));
  const [down, across] = weights.axes.map((axis) => app.trace.axes[axis]);
  const names = [down.predicted ?? down.labels, across.labels].map((texts) => texts.map((text) => cut(visible(text), 5)));
  const isLabeled = cell >= SMALLEST;
  const long = names.map((texts) => LETTER * Math.max(...texts.map((text) => text.length)));
  const [left, top] = isLabeled ? [Math.max(60, 12 + long[0]), 42 + long[1]] : [60, 38];
  const [width, height] = [columns * cell, rows * cell];
  const [ofRows, ofColumns] = [down.predicted ? 'writes' : 'token', name.endsWith('cross') ? 'source tokens (keys)' : 'keys'];
  const title = `layer ${name.split('.')[1]}, head ${head}`;
  return image(
    Math.max(left + width + 4, 220),
    top + height + 4,
    `${titleOf(name)}, head ${head}: rows are ${down.predicted ? 'output tokens' : 'queries'}, columns ${ofColumns}`,
    svg('text.strong', { x: left, y: 13 }, title),
    label(left, 30, `${ofColumns} →`),
    label(left - 6, top - 6, `${ofRows} ↓`, 'end'),
    svg('rect.ground', { x: left, y: top, width, height }),
    heat(weights, 1, { x: left, y: top, width, height }),
    isLabeled
      ? [
          names[0].map((text, i) => svg('text', { x: left - 6, y: top + (i + 0.5) * cell + 4, 'text-anchor': 'end', class: i === row ? 'strong' : '' }, text)),
          names[1].map((text, i) => {
            const [x, y] = [left + (i + 0.5) * cell + 4, top - 6];
            return svg('text', { x, y, transform: `rotate(-90 ${x} ${y})` }, text);
          }),
        ]
      : null,
    row < 0 ? null : svg('rect.story-frame', { x: left, y: top + row * cell, width, height: cell }),
  );
}
