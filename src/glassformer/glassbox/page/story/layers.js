/** Screen 4: what each layer would have said, if it were the last one. */

import { cut, image, svg } from 'glassbox/dom.js';
import { figure } from 'glassbox/figure.js';
import { percent } from 'glassbox/numbers.js';
import { LETTER, label, quoted, stepName } from 'glassbox/story/parts.js';
import { visible } from 'glassbox/trace.js';

const [LEFT, LINE, TOP] = [64, 40, 44];

export const layers = {
  title: 'What each layer would have said',
  choose(app) {
    const all = predictionsOf(app.trace);
    const late = app.trace.tokens.target_out.map((token, row) => all.findIndex((rows) => rows[row].top[0][0] === token.id));
    return { row: Math.max(0, late.indexOf(Math.max(...late))) };
  },
  draw(app) {
    const { row, trace } = app;
    const { target_out: outputs } = trace.tokens;
    const all = predictionsOf(trace);
    if (all.length < 2)
      return {
        words: [
          trace.layers('decoder') > 1
            ? 'The predictions after each layer are not in this page: the trace of a large vocabulary leaves them out.'
            : 'The decoder of this model has one layer, so there is no prediction before the last one.',
          `The model predicts ${quoted(outputs[row])} in step ${row}.`,
        ],
        picture: null,
        proof: { label: 'Logits', changes: { panel: 'logits', row } },
      };
    const right = all.map((rows) => outputs.filter((token, i) => rows[i].top[0][0] === token.id).length);
    const first = all[0][row].top[0];
    return {
      words: [
        `In ${stepName(trace, row)}, the model would have said ${quoted(first[1])} (${percent(first[2])}) after layer 0; ` +
          `after the last layer it says ${quoted(all.at(-1)[row].top[0][1])} (${percent(all.at(-1)[row].top[0][2])}).`,
        `The output layer is applied to the residual stream after each decoder layer (logit lens): of ${outputs.length} output tokens, ` +
          `${right[0]} are the most probable ones after layer 0, and ${right.at(-1)} after the last layer.`,
      ],
      picture: figure('the prediction after each layer', draw(app, all), [
        ['layer', 'step', 'output token', 'prediction', 'probability'],
        ...all.flatMap((rows, layer) => rows.map(({ top }, i) => [layer, i, outputs[i].text, top[0][1], top[0][2]])),
      ]),
      proof: { label: 'Logits: the ten most probable tokens of this step', changes: { panel: 'logits', row } },
    };
  },
};

/** The predictions of each row after each decoder layer; the last are those of the model. */
function predictionsOf({ predictions }) {
  const lens = Object.keys(predictions).filter((name) => /^decoder\.\d+\.lens\.logits$/.test(name));
  return [...lens, 'logits'].map((name) => predictions[name]);
}

function draw(app, all) {
  const { target_out: outputs } = app.trace.tokens;
  const texts = outputs.map((token, i) => [token.text, ...all.map((rows) => rows[i].top[0][1])].map((text) => cut(visible(text), 6)));
  let x = LEFT;
  const columns = texts.map((column) => {
    const width = Math.max(42, ...column.map((text) => text.length * LETTER + 10));
    x += width + 2;
    return { x: x - width - 2, width };
  });
  const height = TOP + all.length * LINE + 6;
  const words = (rows, layer) => `after layer ${layer}: ${rows.map(({ top }) => visible(top[0][1])).join(' ')}`;
  return image(
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
        label(LEFT - 8, y + 22, `layer ${layer}`, 'end'),
        rows.map(({ top: [[id, , probability]] }, i) =>
          cell(app, columns[i], y, { text: texts[i][layer + 1], probability, isRight: id === outputs[i].id, row: i }),
        ),
      );
    }),
  );
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
