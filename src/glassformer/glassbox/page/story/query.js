/** Screen 2: one query becomes scores, weights and a row of bars. */

import { cut, image, range, svg } from 'glassbox/dom.js';
import { influence } from 'glassbox/evidence.js';
import { figure } from 'glassbox/figure.js';
import { at, digits, headOf, percent, rowOf, shortDigits } from 'glassbox/numbers.js';
import { LETTER, label, leastCertain, quoted, stepName } from 'glassbox/story/parts.js';
import { visible } from 'glassbox/trace.js';

const [LINE, GAP] = [22, 58];
const MAX_KEYS = 40;

export const query = {
  title: 'One query: scores, then weights',
  choose(app) {
    const row = leastCertain(app);
    return { row, ...mainHead(app, row) };
  },
  draw(app) {
    const { trace, row } = app;
    const { head } = app.state;
    const name = app.state.attention.endsWith('cross') ? app.state.attention : mainHead(app, row).part;
    const [scores, weights] = ['scaled', 'weights'].map((kind) => rowOf(headOf(trace.get(`${name}.${kind}`), head), row));
    const { source } = trace.tokens;
    const best = weights.indexOf(Math.max(...weights));
    return {
      words: [
        `In ${stepName(trace, row)}, head ${head} of decoder layer ${name.split('.')[1]} compares one query with ` +
          `the key of each source token, and each dot product, divided by √d_k, is a score.`,
        `Softmax turns the scores into weights that add up to 100 %: ${percent(weights[best])} is on ${quoted(source[best])}` +
          `${weights[best] > 0.5 ? ', so the output of the head is mostly the value of that token' : ''}.`,
      ],
      picture: figure(`scores and weights of step ${row}`, draw(app, scores, weights, best), [
        ['position', 'source token', 'score', 'weight'],
        ...source.map((token, i) => [i, token.text, scores[i], weights[i]]),
      ]),
      proof: {
        label: 'Attention: every product behind these scores',
        changes: { panel: 'attention', part: name, attention: name, head, row, view: 'steps' },
      },
    };
  },
};

/**
 * The cross-attention head whose loss hurts most, where the file has that measured; otherwise the one with the largest
 * weight on the source token that the row depends on most.
 */
function mainHead({ trace, base }, row) {
  const worst = mostNeeded(base, /cross$/);
  if (worst) return { part: worst.attention, attention: worst.attention, head: worst.head };
  const { x } = influence(trace);
  const numbers = rowOf(x, row);
  const best = numbers.indexOf(Math.max(...numbers));
  const found = trace
    .attentions()
    .filter((name) => name.endsWith('cross'))
    .flatMap((part) => {
      const weights = trace.get(`${part}.weights`);
      return range(weights.shape[0]).map((head) => ({ part, head, weight: at(weights, [head, row, best]) }));
    })
    .reduce((one, other) => (other.weight > one.weight ? other : one));
  return { part: found.part, attention: found.part, head: found.head };
}

/** The head without which the fewest answers are right, or null if that was not measured or no head matters. */
export function mostNeeded({ heads }, pattern = /./) {
  const found = (heads?.heads ?? []).filter(({ attention }) => pattern.test(attention));
  const worst = found.reduce((one, other) => (other.exact_match < (one?.exact_match ?? Infinity) ? other : one), null);
  return worst && worst.exact_match < heads.exact_match ? worst : null;
}

function draw(app, scores, weights, best) {
  const { source } = app.trace.tokens;
  const shown = source.slice(0, MAX_KEYS);
  const NAME = 44 + LETTER * Math.max(3, ...shown.map((token) => nameOf(token).length));
  const BAR = Math.max(46, Math.min(180, (app.width - NAME - GAP - 92) / 2));
  const size = Math.max(...[...scores].map(Math.abs), 1e-9);
  const [zero, second] = [NAME + BAR / 2, NAME + BAR + GAP];
  const sizes = { size, zero, second, NAME, BAR };
  const words = (token, i) => `${quoted(token)} score ${digits(scores[i])}, weight ${percent(weights[i])}`;
  return image(
    second + BAR + 76,
    shown.length * LINE + 24,
    shown.map(words).join('; '),
    label(NAME - 10, 12, 'key', 'end'),
    label(NAME, 12, BAR > 100 ? 'score: q · k ÷ √d_k' : 'score'),
    label(second, 12, BAR > 100 ? 'weight: softmax' : 'weight'),
    svg('line.axis', { x1: zero, x2: zero, y1: 18, y2: shown.length * LINE + 20 }),
    shown.map((token, i) => line(token, i, [scores[i], weights[i]], { ...sizes, isBest: i === best })),
  );
}

const nameOf = (token) => cut(visible(token.text), 9);

function line(token, i, [score, weight], { size, zero, second, NAME, BAR, isBest }) {
  const y = 20 + i * LINE;
  const length = (Math.abs(score) / size) * (BAR / 2);
  return svg(
    'g.story-bar',
    { class: isBest ? 'here' : '' },
    label(24, y + 15, String(i), 'end'),
    svg('text', { x: NAME - 10, y: y + 15, 'text-anchor': 'end' }, nameOf(token)),
    svg('rect', { class: score < 0 ? 'minus' : 'plus', x: score < 0 ? zero - length : zero, y: y + 3, width: length, height: LINE - 7 }),
    label(NAME + BAR + 4, y + 15, shortDigits(score)),
    svg('rect.track', { x: second, y: y + 3, width: BAR, height: LINE - 7 }),
    svg('rect.plus', { x: second, y: y + 3, width: BAR * weight, height: LINE - 7 }),
    svg('text', { x: second + BAR + 6, y: y + 15 }, percent(weight)),
  );
}
