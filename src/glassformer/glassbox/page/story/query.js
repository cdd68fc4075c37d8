/** Question 1: what the step looked at: a query, keys, values. */

import { cut, el, image, svg } from 'glassbox/core/dom.js';
import { figure } from 'glassbox/views/figure.js';
import { digits, headOf, indexOfLargest, percent, rowOf, shortDigits } from 'glassbox/core/numbers.js';
import { layerTitle } from 'glassbox/model/labels.js';
import { LETTER, headTile, label, quoted, sofar } from 'glassbox/story/parts.js';
import { crossHere } from 'glassbox/story/thread.js';
import { visible } from 'glassbox/model/trace.js';

const LINE = 22;
const [MAX_KEYS, LEAST, ALMOST_ALL] = [40, 0.01, 0.9]; // no bar for a weight below LEAST

export const query = {
  title: 'What did it look at?',
  draw(app) {
    const { trace, row } = app;
    const { head } = app.state;
    const name = crossHere(app);
    const weights = rowOf(headOf(trace.get(`${name}.weights`), head), row);
    const { source, target_out: outputs } = trace.tokens;
    const best = indexOfLargest(weights);
    const isOff = [`attention ${name} off`, `head ${name} ${head} off`].some((words) => app.words.includes(words));
    return {
      words: [
        `In step ${row} the answer so far is ${sofar(trace, row)}, and the decoder needs the next token, ${quoted(outputs[row])}. ` +
          `Here is how head ${head} in its ${layerTitle(trace, 'decoder', name.split('.')[1])} looks for it. Heads, steps and tokens count from 0, layers from 1.`,
        'Its query says what this step looks for. Each source token has a key, which says what it offers, and a value, which is what it gives. ' +
          'All three are rows of numbers. The dot product of query and key, divided by √d_k, is a score; softmax turns the scores into weights; ' +
          'the head takes every value in proportion to its weight.',
        `${percent(weights[best])} of the weight is on ${quoted(source[best])}, source token ${best}` +
          `${weights[best] > ALMOST_ALL ? ', so what the head brings back is almost only the value of that token.' : ': the head brings back a mixture.'}` +
          `${isOff ? ' It is switched off: nothing of that is used.' : ''}`,
      ],
      picture: el(
        'div.story-pictures',
        scoresFigure(app, name, head, row),
        headTile(app, `weights of head ${head} in every step`, { name, head, row }),
      ),
      proof: {
        label: 'Attention: every product behind these scores',
        changes: { panel: 'attention', part: name, attention: name, head, row, view: 'steps' },
      },
    };
  },
};

/** The scores and weights of a row, and how much of each value it takes. @param {string} name  of an attention */
export function scoresFigure(app, name, head, row) {
  const tensor = (kind) => headOf(app.trace.get(`${name}.${kind}`), head);
  const [scores, weights] = ['scaled', 'weights'].map((kind) => rowOf(tensor(kind), row));
  const values = app.trace.has(`${name}.values`) ? tensor('values') : null;
  const gives = weights.map((weight, key) => weight * (values ? Math.hypot(...rowOf(values, key)) : 1));
  const [axis, keys] = tensor('weights').axes.map((each) => app.trace.axes[each]);
  return figure(`scores and weights of ${axis.predicted ? 'step' : 'source token'} ${row}`, draw(app, keys.labels, [scores, weights, gives], indexOfLargest(weights)));
}

function draw(app, keys, [scores, weights, gives], best) {
  const shown = keys.slice(0, MAX_KEYS);
  const NAME = 34 + LETTER * Math.max(3, ...shown.map((text) => nameOf(text).length));
  const BAR = Math.max(24, Math.min(80, (app.width - NAME - 192) / 3));
  const [size, most] = [scores, gives].map((numbers) => Math.max(...[...numbers].map(Math.abs), 1e-9));
  const columns = [0, 1, 2].map((i) => NAME + i * (BAR + 72));
  const titles = BAR > 60 ? ['score: q · k / √d_k', 'weight: softmax', 'weight × value size'] : ['score', 'weight', '× value'];
  const words = (token, i) => `${quoted(token)} score ${digits(scores[i])}, weight ${percent(weights[i])}`;
  return image(
    columns[2] + BAR + 56,
    shown.length * LINE + 26,
    shown.map(words).join('; '),
    label(NAME - 10, 12, 'key', 'end'),
    titles.map((title, i) => label(columns[i], 12, title)),
    shown.map((token, i) => {
      const y = 20 + i * LINE;
      const isSeen = weights[i] >= LEAST;
      const bar = (column, fraction, kind) =>
        svg('rect', { class: kind, x: columns[column], y: y + 3, width: Math.max(1, BAR * Math.abs(fraction)), height: LINE - 7 });
      const number = (column, text) => label(columns[column] + BAR + 4, y + 15, text);
      return svg(
        'g.story-bar',
        { class: i === best ? 'here' : '' },
        label(18, y + 15, String(i), 'end'),
        svg('text', { x: NAME - 10, y: y + 15, 'text-anchor': 'end' }, nameOf(token)),
        bar(0, scores[i] / size, scores[i] < 0 ? 'minus' : 'plus'),
        number(0, shortDigits(scores[i])),
        isSeen ? [bar(1, weights[i], 'plus'), bar(2, gives[i] / most, 'plus')] : null,
        number(1, isSeen ? percent(weights[i]) : '< 1\u00a0%'),
        isSeen ? number(2, shortDigits(gives[i])) : null,
      );
    }),
  );
}

const nameOf = (text) => cut(visible(text), 9);
