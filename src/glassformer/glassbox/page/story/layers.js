/** Question 3: what each layer would have said if it were the last one, and what the layers add. */

import { attribute, partTitle } from 'glassbox/model/attribution.js';
import { layerTitle } from 'glassbox/model/labels.js';
import { cut, image, svg } from 'glassbox/core/dom.js';
import { figure } from 'glassbox/views/figure.js';
import { percent, shortDigits, sumOf } from 'glassbox/core/numbers.js';
import { LETTER, label, quoted, stepName } from 'glassbox/story/parts.js';
import { changeIn, predictionsOf } from 'glassbox/story/thread.js';
import { visible } from 'glassbox/model/trace.js';

const [LEFT, LINE, TOP] = [64, 40, 44];

export const layers = {
  title: 'When did it know?',
  draw(app) {
    const { row, trace } = app;
    const { target_out: outputs } = trace.tokens;
    const all = predictionsOf(trace);
    const proof = { label: 'Logits: the ten most probable tokens of this step, and what each head and layer adds', changes: { panel: 'logits', row } };
    if (all.length < 2)
      return {
        words: [
          trace.layers('decoder') > 1
            ? 'What each layer would have said is not in this page: the trace of a large vocabulary leaves it out.'
            : 'The decoder of this model has one layer, so it knows after that one, or not at all.',
          added(app),
        ],
        picture: null,
        proof,
      };
    const right = all.map((rows) => outputs.filter((token, i) => rows[i].top[0][0] === token.id).length);
    const change = changeIn(trace, row);
    return {
      words: [
        'The picture asks each layer of the decoder what it would say if it were the last one (logit lens). A column is a step; what is ' +
          `not the token of the answer is dashed. After layer 1, ${right[0]} of ${outputs.length} tokens are those of the answer; after the last, ${right.at(-1)}.`,
        change
          ? `In ${stepName(trace, row)}, the model knew after ${layerTitle(trace, 'decoder', change.layer)}: the one before said ${quoted(change.before[1])} (${percent(change.before[2])}).`
          : `In ${stepName(trace, row)}, no layer changed what the first one said, ${quoted(all[0][row].top[0][1])} (${percent(all[0][row].top[0][2])}).`,
        added(app),
      ],
      picture: lensFigure(app, outputs, all),
      proof,
    };
  },
};

/** What adds most to the logit of the step, in words. */
function added({ trace, row }) {
  const token = trace.tokens.target_out[row];
  const parts = attribute(trace, 'logits', row, token.id);
  const most = parts?.reduce((one, other) => (other.number > one.number ? other : one));
  return (
    'A layer does not replace the numbers of a step, it adds to them: they are one row, the residual stream, that goes through all layers. ' +
    `A large addition can change the prediction.${
      most
        ? ` The logit of ${quoted(token)}${trace.projected('logits') === 'logits' ? '' : ', without copying,'} is the sum of what all of them add, ${shortDigits(sumOf(parts.map(({ number }) => number)))}; the largest part, ` +
          `${shortDigits(most.number)}, is that of “${partTitle(trace, most)}”.`
        : ''
    }`
  );
}

/** The most probable token of each step after each layer, with the tokens to predict above. */
export function lensFigure(app, outputs, all) {
  const texts = outputs.map((token, i) => [token.text, ...all.map((rows) => rows[i].top[0][1])].map((text) => cut(visible(text), 6)));
  let x = LEFT;
  const columns = texts.map((column) => {
    const width = Math.max(42, ...column.map((text) => text.length * LETTER + 10));
    x += width + 2;
    return { x: x - width - 2, width };
  });
  const height = TOP + all.length * LINE + 6;
  const words = (rows, layer) => `after layer ${layer + 1}: ${rows.map(({ top }) => visible(top[0][1])).join(' ')}`;
  const picture = image(
    x,
    height,
    all.map(words).join('; '),
    label(LEFT - 8, 16, 'output', 'end'),
    columns.map((column, i) => {
      const middle = column.x + column.width / 2;
      return [
        svg('text', { x: middle, y: 16, 'text-anchor': 'middle', class: i === app.row ? 'strong' : '' }, texts[i][0]),
        label(middle, 32, columns.length > 9 ? String(i) : `step ${i}`, 'middle'),
      ];
    }),
    all.map((rows, layer) => {
      const y = TOP + (all.length - 1 - layer) * LINE;
      return svg(
        'g',
        label(LEFT - 8, y + 22, `layer ${layer + 1}`, 'end'),
        rows.map(({ top: [[id, , probability]] }, i) =>
          cell(app, columns[i], y, { text: texts[i][layer + 1], probability, isRight: id === outputs[i].id, row: i }),
        ),
      );
    }),
  );
  return figure('the prediction after each layer', picture);
}

const cell = (app, { x, width }, y, { text, probability, isRight, row }) =>
  svg(
    'g.story-cell',
    { class: `${isRight ? 'right' : 'different'} ${row === app.row ? 'here' : ''}`, on: { click: () => app.set({ row }) } },
    svg('title', `${text}: ${percent(probability)}${isRight ? '' : ', not the output token'}`),
    svg('rect', { x, y, width, height: LINE - 4, rx: 4 }),
    svg('text', { x: x + width / 2, y: y + 16, 'text-anchor': 'middle' }, text),
    label(x + width / 2, y + 31, `${Math.round(probability * 100)}\u00a0%`, 'middle'),
  );
