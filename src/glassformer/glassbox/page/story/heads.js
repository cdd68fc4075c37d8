/** Question 2: two heads that do different things, and what breaks without each. */

import { el } from 'glassbox/core/dom.js';
import { cosine } from 'glassbox/core/geometry.js';
import { headsOf } from 'glassbox/model/headkinds.js';
import { headTitle, titleOf } from 'glassbox/model/labels.js';
import { indexOfLargest, percent, probability, rowOf } from 'glassbox/core/numbers.js';
import { canCompute, headsOfAnswer, neededMost } from 'glassbox/story/needed.js';
import { headTile, quoted } from 'glassbox/story/parts.js';

const PLACES = {
  previous: 'the token before',
  same: 'its own position',
  first: 'the first token',
  copying: 'a source token with the same text as the output token, in the steps that have one',
};
const SURE = 0.999; // a probability above which that of any other token says more

export const heads = {
  title: 'Why several heads?',
  hasStep: false,
  draw(app) {
    const { trace } = app;
    const answer = headsOfAnswer(app);
    const outputs = trace.tokens.target_out.map(({ text }) => text);
    const all = headsOf(trace, outputs).map((one) => ({ ...answer?.heads.find((other) => isSame(other, one)), ...one }));
    const found = answer ? pairOfAnswer(all, neededMost(answer)) : all.filter((one) => isSame(one, { name: app.state.attention, head: app.state.head }));
    const layers = trace.attentions().length;
    return {
      words: [
        `One head has one query in each step, so it looks for one thing; a step can need several, such as what to read next and what was ` +
          `written last. This model has ${trace.axes.head.length} ` +
          `${trace.axes.head.length === 1 ? 'head' : 'heads side by side'} in each of its ${layers} attentions, one in each encoder layer and two in ` +
          `each decoder layer. ${whichOf(trace, answer, found)}`,
        ...found.map((one) => whatItDoes(trace, one, answer)),
      ],
      picture: el(
        'div.story-pictures',
        found.map((one) => headTile(app, `${headTitle(one.head)} of ${titleOf(trace, one.name)}`, { ...one, row: rowOfHead(one) })),
      ),
      proof: { label: 'Heads: all of them, with switches', changes: { panel: 'heads' } },
    };
  },
};

/** The row that a picture frames; of the encoder, where rows are no steps, none. */
const rowOfHead = (one) => (one.name.startsWith('decoder') ? hurt(one) : -1);

const isSame = (one, other) => one.name === other.name && one.head === other.head;

/** The head that the answer needs most, and the one that it needs most for other tokens. */
function pairOfAnswer(all, { name, head }) {
  const first = all.find((one) => isSame(one, { name, head }));
  const worth = (one) => one.fall * (1 - Math.max(0, cosine(one.falls, first.falls)));
  const others = all.filter((one) => one !== first && worth(one) > 0);
  return [first, ...others.sort((one, other) => worth(other) - worth(one)).slice(0, 1)];
}

function whichOf(trace, answer, found) {
  if (!answer)
    return canCompute(trace)
      ? 'What this answer needs each of them for is being computed …'
      : `What this answer needs each of them for cannot be computed here: ${trace.hasWeights ? 'the model is too large' : 'this page does not include the weights of the model'}.`;
  return found.length > 1 && hurt(found[0]) !== hurt(found[1]) ? 'These two matter for different tokens:' : '';
}

/** The output token that a head is needed for most. */
const hurt = ({ falls }) => (falls ? indexOfLargest(falls) : 0);

/** Where a head looks, and which output token it is needed for. */
function whatItDoes(trace, { name, head, weights, kind, falls }, answer) {
  const { target_out: outputs } = trace.tokens;
  const title = `Head ${head + 1} of ${titleOf(trace, name)}`;
  const row = hurt({ falls });
  const reads = name.endsWith('.cross') ? rowOf(weights, row) : null;
  const place =
    kind.kind !== 'mixed'
      ? `has ${percent(kind.weight)} of its weight on ${PLACES[kind.kind]}`
      : reads
        ? `has ${percent(Math.max(...reads))} of its weight on ${quoted(trace.tokens.source[indexOfLargest(reads)])} in step ${row}`
        : 'spreads its weight over several places';
  if (!answer) return `${title} ${place}.`;
  const scores = [answer.whole[row], answer.whole[row] - falls[row]];
  if (Math.exp(scores[1]) > SURE) {
    const [before, after] = scores.map((score) => probability(-Math.expm1(score)));
    return `${title} ${place}. Without it the probability of another token than ${quoted(outputs[row])} in step ${row} grows from ${before} to ${after}.`;
  }
  const [before, after] = scores.map((score) => probability(Math.exp(score)));
  return `${title} ${place}. Without it ${quoted(outputs[row])}, in step ${row}, falls from ${before} to ${after}.`;
}
