/** Question 3: what each layer would have said if it were the last one, and what the layers add. */

import { attribute, partTitle } from 'glassbox/model/attribution.js';
import { layerTitle } from 'glassbox/model/labels.js';
import { button, el } from 'glassbox/core/dom.js';
import { digits, percent, shortDigits, sumOf } from 'glassbox/core/numbers.js';
import { card, quoted, stepName } from 'glassbox/story/parts.js';
import { changeIn, predictionsOf } from 'glassbox/story/thread.js';

const LARGEST = 8; // additions that are listed

export const layers = {
  title: 'When did it know?',
  draw(app) {
    const { row, trace } = app;
    const token = trace.tokens.target_out[row];
    const found = additions(app, 'logits', row, token.id, LARGEST);
    const whole = trace.projected('logits') === 'logits' ? '' : ', without copying,';
    return {
      words: [
        ...saidIn(trace, row),
        'The layers add to one row of numbers, the residual stream; a large addition can change the prediction.',
        found &&
          `The logit of ${quoted(token)}${whole} is the sum of what all of them add, ${shortDigits(found.sum)}; the largest part, ` +
            `${shortDigits(found.most.number)}, is that of “${partTitle(trace, found.most)}”.`,
      ],
      picture: found && card(`the ${LARGEST} largest additions to the logit of ${quoted(token)}, in the order of the layers`, found.element),
      proof: { label: 'Logits: the ten most probable tokens, also after each layer', changes: { panel: 'logits', row } },
    };
  },
};

/** What the layers would say, in sentences. */
export function saidIn(trace, row) {
  const all = predictionsOf(trace);
  if (trace.layers('decoder') === 1) return ['The decoder of this model has one layer, so it knows after that one, or not at all.'];
  if (all.length < 2) return ['What each layer would have said is not in this page: the trace of a large vocabulary leaves it out.'];
  const { target_out: outputs } = trace.tokens;
  const right = all.map((rows) => outputs.filter((token, i) => rows[i].top[0][0] === token.id).length);
  const change = changeIn(trace, row);
  return [
    'Each layer of the decoder can be asked what it would say if it were the last one (logit lens): in figure 1 this is next to the column. ' +
      `After layer 1, ${right[0]} of ${outputs.length} tokens are those of the answer; after the last, ${right.at(-1)}.`,
    change
      ? `In ${stepName(trace, row)}, the model knew after ${layerTitle(trace, 'decoder', change.layer)}: the one before said ${quoted(change.before[1])} (${percent(change.before[2])}).`
      : `In ${stepName(trace, row)}, no layer changed what the first one said, ${quoted(all[0][row].top[0][1])} (${percent(all[0][row].top[0][2])}).`,
  ];
}

/** What each head and sublayer adds to the logit of a token, as bars that open their numbers, the largest of them; null where it is not known. */
export function additions(app, logits, row, id, count = Infinity) {
  const { trace } = app;
  const parts = attribute(trace, logits, row, id);
  if (!parts) return null;
  const sizes = parts.map(({ number }) => Math.abs(number)).sort((one, other) => other - one);
  const listed = parts.filter(({ number }) => Math.abs(number) >= sizes[Math.min(count, sizes.length) - 1]);
  const one = ({ from, head, number }) => {
    const cell = trace.get(from).axes.map((axis) => ({ head, target: row, gold_target: row })[axis] ?? 0);
    const open = () => (trace.tensors[from]?.origin === 'weight' ? app.pick(from, null) : app.goTo(from, cell));
    const link = button(partTitle(trace, { from, head }), open, { class: 'link', data: { key: `adds-${from}-${head}` } });
    const bar = el('i', { class: number < 0 ? 'below' : null, style: { '--fraction': `${(Math.abs(number) / sizes[0]) * 100}%` } });
    return el('li', { data: { adds: number } }, el('span', link), bar, el('span', digits(number)));
  };
  return {
    sum: sumOf(parts.map(({ number }) => number)),
    most: parts.reduce((best, part) => (part.number > best.number ? part : best)),
    element: el('ul.bars.adds', listed.map(one)),
  };
}
