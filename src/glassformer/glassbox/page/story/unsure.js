/** Screen 8: where the model is unsure or wrong. */

import { cut, image, svg } from 'glassbox/dom.js';
import { figure } from 'glassbox/figure.js';
import { grouped, percent } from 'glassbox/numbers.js';
import { label, leastCertain, probabilityOf, quoted, roomOf, stepName } from 'glassbox/story/parts.js';
import { visible } from 'glassbox/trace.js';

const [LINE, LEFT, COLUMN, HIGH] = [24, 92, 26, 72];
const SHOWN = 5;

export const unsure = {
  title: 'Where the model is unsure',
  choose: (app) => ({ row: wrongRow(app) ?? leastCertain(app) }),
  draw(app) {
    const { trace, row } = app;
    const { target_out: outputs } = trace.tokens;
    const { top } = trace.predictions.logits[row];
    const least = leastCertain(app);
    const second = top.find(([id]) => id !== outputs[row].id);
    const wrong = wrongRow(app);
    return {
      words: [
        `${row === least ? 'The least certain step is' : 'This is'} ${stepName(trace, row)}, ` +
          `with a probability of ${percent(probabilityOf(app, row))}; the next candidate is ${quoted(second[1])} with ${percent(second[2])}.`,
        last(app, wrong),
      ],
      picture: figure(`the most probable tokens of step ${row}`, draw(app, top), [
        ['token', 'probability'],
        ...top.map(([, text, probability]) => [text, probability]),
      ]),
      proof: app.base.errors?.wrong
        ? { label: 'Errors: all wrong answers on held-out rows', changes: { panel: 'errors' } }
        : { label: 'Logits: all candidates of this step', changes: { panel: 'logits', row } },
    };
  },
};

/** The first output token that differs from the gold target, or null; the same text in other subwords is not wrong. */
function wrongRow({ trace, base }) {
  const { target_out: outputs } = trace.tokens;
  const { gold } = base.tokens;
  if (!gold || base.text !== trace.text || trace.translation === base.target) return null;
  const row = outputs.findIndex((token, i) => token.id !== gold[i]?.id);
  return row < 0 ? null : row;
}

function last({ trace, base }, wrong) {
  if (wrong !== null && base.tokens.gold)
    return `The gold target is “${visible(base.target)}”: the first different token is in step ${wrong}, ${quoted(trace.tokens.target_out[wrong])}.`;
  const { errors } = base;
  if (!errors) return `The model gives the whole answer a probability of ${percent(Math.exp(trace.search.beam.answers[0].score))}: the product over all steps.`;
  return errors.wrong
    ? `On held-out rows, ${grouped(errors.wrong)} of ${grouped(errors.rows)} answers are wrong (${percent(errors.wrong / errors.rows)}).`
    : `On held-out rows, all ${grouped(errors.rows)} answers are correct.`;
}

function draw(app, top) {
  const { target_out: outputs } = app.trace.tokens;
  const shown = top.slice(0, SHOWN);
  const BAR = Math.min(250, roomOf(app) - LEFT - 90);
  const inLine = Math.floor((roomOf(app) - LEFT) / COLUMN);
  const width = Math.max(LEFT + BAR + 90, LEFT + Math.min(inLine, outputs.length) * COLUMN);
  const y0 = 24 + HIGH * Math.ceil(outputs.length / inLine);
  return image(
    width,
    y0 + shown.length * LINE + 10,
    shown.map(([, text, probability]) => `${visible(text)} ${percent(probability)}`).join(', '),
    label(LEFT - 10, 34, 'every step', 'end'),
    outputs.map((token, row) => {
      const p = probabilityOf(app, row);
      const [x, y] = [LEFT + (row % inLine) * COLUMN, HIGH * Math.floor(row / inLine)];
      return svg(
        'g.story-column',
        { class: row === app.row ? 'here' : '', on: { click: () => app.set({ row }) } },
        svg('title', `${visible(token.text)}: ${percent(p)}`),
        svg('rect.track', { x, y: y + 6, width: 22, height: 44 }),
        svg('rect.plus', { x, y: y + 6 + 44 * (1 - p), width: 22, height: 44 * p }),
        svg('text', { x: x + 11, y: y + 66, 'text-anchor': 'middle' }, cut(visible(token.text), 3)),
      );
    }),
    label(LEFT - 10, y0 + 15, `step ${app.row}`, 'end'),
    shown.map(([id, text, probability], i) => {
      const y = y0 + i * LINE;
      return svg(
        'g.story-bar',
        { class: id === outputs[app.row].id ? 'here' : '' },
        svg('text', { x: LEFT + 54, y: y + 15, 'text-anchor': 'end' }, cut(visible(text), 8)),
        svg('rect.track', { x: LEFT + 62, y: y + 3, width: BAR - 62, height: LINE - 8 }),
        svg('rect.plus', { x: LEFT + 62, y: y + 3, width: (BAR - 62) * probability, height: LINE - 8 }),
        svg('text', { x: LEFT + BAR + 6, y: y + 15 }, percent(probability)),
      );
    }),
  );
}
