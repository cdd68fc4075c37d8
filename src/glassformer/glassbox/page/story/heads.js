/** Question 2: two heads that do different things, and what breaks without each. */

import { el } from 'glassbox/core/dom.js';
import { cosine } from 'glassbox/core/geometry.js';
import { headsOf } from 'glassbox/model/headkinds.js';
import { headTitle, titleOf } from 'glassbox/model/labels.js';
import { indexOfLargest, percent, probability, rowOf } from 'glassbox/core/numbers.js';
import { canCompute, headsOfAnswer, neededMost } from 'glassbox/story/needed.js';
import { headTile, quoted, roomOf } from 'glassbox/story/parts.js';
import { crossHere } from 'glassbox/story/thread.js';

const PLACES = {
  previous: 'the token before',
  same: 'its own position',
  first: 'the first token',
  copying: 'a source token with the same text as the output token, in the steps that have one',
};
const SURE = 0.999; // a probability above which that of any other token says more
const NEEDED = 0.05; // that a token loses without a head, at least

export const heads = {
  title: 'Why several heads?',
  hasStep: false,
  draw(app) {
    const { trace } = app;
    const answer = headsOfAnswer(app);
    const outputs = trace.tokens.target_out.map(({ text }) => text);
    const decoder = headsOf(trace, outputs).filter(({ name }) => name.startsWith('decoder')); // its rows are the steps
    const all = decoder.map((one) => ({ ...one, row: app.row, ...answer?.heads.find((other) => isSame(other, one)) }));
    const found = answer ? pairOf(all) : all.filter((one) => isSame(one, { name: crossHere(app), head: app.state.head }));
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
        found.map((one) => headTile(app, `${headTitle(one.head)} of ${titleOf(trace, one.name)}, step ${one.row} framed`, { ...one, room: roomOf(app) / (roomOf(app) < app.width ? found.length : 1) - 10 })),
      ),
      proof: { label: 'Heads: all of them, with switches', changes: { panel: 'heads' } },
    };
  },
};

const isSame = (one, other) => one.name === other.name && one.head === other.head;

/** The head that the answer needs most, and the one that it needs most for other tokens; their framed rows look unlike. */
function pairOf(all) {
  const first = neededMost({ heads: all });
  const most = ({ weights, row }) => Math.max(...rowOf(weights, row));
  const unlike = ({ name, ...one }) => (name.split('.')[2] === first.name.split('.')[2] ? Math.abs(most(one) - most(first)) : 1);
  const worth = (one) => one.fall * (1 - Math.max(0, cosine(one.falls, first.falls))) * unlike(one);
  const others = all.filter((one) => one !== first && worth(one) > 0);
  return [first, ...others.sort((one, other) => worth(other) - worth(one)).slice(0, 1)];
}

function whichOf(trace, answer, found) {
  const isNeeded = ({ row, falls }) => Math.exp(answer.whole[row]) * -Math.expm1(-falls[row]) >= NEEDED;
  if (answer && !found.some(isNeeded)) return 'No single head changes much here; this is what the answer needs most:';
  if (answer) return found.length > 1 && found.every(isNeeded) && found[0].row !== found[1].row ? 'These two matter for different tokens:' : '';
  if (canCompute(trace)) return 'This page now switches each of them off in turn, to see what the answer needs it for; until then, here is the head of the screen before.';
  return `What this answer needs each of them for cannot be computed here: ${trace.hasWeights ? 'the model is too large' : 'this page does not include the weights of the model'}.`;
}

/** Where a head looks in the framed step and on average, and what its output token loses without it. */
function whatItDoes(trace, { name, head, weights, kind, row, falls }, answer) {
  const keys = trace.tokens[name.endsWith('.cross') ? 'source' : 'target_in'];
  const reads = rowOf(weights, row);
  const [best, second] = [...reads.keys()].sort((one, other) => reads[other] - reads[one]);
  const isElsewhere = kind.kind === 'copying' && keys[best].text !== trace.tokens.target_out[row].text; // than in the framed step
  const on = (key) => `${percent(reads[key])} on ${quoted(keys[key])}, ${name.endsWith('.cross') ? 'source token' : 'read in step'} ${key}`;
  const place =
    `Head ${head + 1} of ${titleOf(trace, name)}: in step ${row} its largest weight is ${on(best)}${second !== undefined && reads[second] >= 0.001 ? `, its second ${on(second)}` : ''}.` +
    `${kind.kind === 'mixed' || isElsewhere ? '' : ` Over all steps it has ${percent(kind.weight)} on ${PLACES[kind.kind]}.`}`;
  if (!answer) return place;
  const scores = [answer.whole[row], answer.whole[row] - falls[row]];
  const isSure = Math.exp(scores[1]) > SURE;
  const [before, after] = scores.map((score) => probability(isSure ? -Math.expm1(score) : Math.exp(score)));
  const token = quoted(trace.tokens.target_out[row]);
  return `${place} Without this head, ${isSure ? `the probability of another token than ${token} in step ${row} grows` : `${token} in step ${row} falls`} from ${before} to ${after}.`;
}
