/** What the screens of the story draw with: tokens in boxes, and names of parts for people. */

import { cut, svg } from 'glassbox/dom.js';
import { at } from 'glassbox/numbers.js';
import { visible } from 'glassbox/trace.js';

export const LETTER = 7.9; // pixels of a letter of a token, in the widest of the fonts
const WIDEST = 860; // pixels of the card
const LONGEST = 12; // letters of a token that are drawn

/** A word next to a part of a picture. */
export const label = (x, y, text, anchor = 'start') => svg('text.story-label', { x, y, 'text-anchor': anchor }, text);

/** The width of the card that a picture is in, as far as it is in sight. */
export const roomOf = (app) => Math.min(app.width, WIDEST);

/** The tokens side by side: where each begins, and how wide it is. @returns {{x: number, width: number, text: string}[]} */
export function layOut(tokens, from = 0, least = 22) {
  let x = from;
  return tokens.map((token) => {
    const text = cut(visible(token.text), LONGEST);
    const width = Math.max(least, text.length * LETTER + 10);
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

/** Steps, such as "step 9: “1” → “4”": what the decoder reads, and what it predicts. */
export const stepName = ({ tokens: { target_in: inputs, target_out: outputs } }, row) =>
  `step ${row}: ${quoted(inputs[row])} → ${quoted(outputs[row])}`;

export const probabilityOf = ({ trace }, row) => {
  const { target_out: outputs } = trace.tokens;
  const { top } = trace.predictions.logits[row];
  const logProbs = trace.get('log_probs');
  return top.find(([id]) => id === outputs[row].id)?.[2] ?? (logProbs ? Math.exp(at(logProbs, [row, outputs[row].id])) : 0);
};

/** The step whose output token has the smallest probability; `<eos>` counts too. */
export function leastCertain(app) {
  const rows = app.trace.tokens.target_out.map((_, row) => probabilityOf(app, row));
  return rows.indexOf(Math.min(...rows));
}
