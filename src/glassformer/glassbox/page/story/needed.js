/** What the answer of a text needs each head for: its tokens without the head, computed by this page. */

import { editsBesideWeights } from 'glassbox/edits.js';
import { sizeOfModel } from 'glassbox/evidence.js';
import { Model } from 'glassbox/model.js';
import { rowOf, sumOf } from 'glassbox/numbers.js';
import { idsOf, specialIds } from 'glassbox/source.js';
import { decodeIds, rowsOf, visibleSource } from 'glassbox/whatif.js';

const MAX_WORK = 200e6; // weights times heads
const PAUSE = 25; // milliseconds of work, after which the browser may draw
const LONGER = 4; // tokens that an answer which goes on is followed for

const known = new WeakMap(); // trace -> the result, or null until it is computed

/**
 * What heads that are off change. `falls`: what each output token loses, as a log-probability; `fall`: all of them;
 * `change`: the first output token that is not the most probable one any more, and the one that is.
 *
 * @typedef {{falls: number[], fall: number, change: {row: number, id: number, p: number}|null}} Loss
 * @typedef {Loss & {name: string, heads: number[], text: string}} Shared  heads of one attention, and the answer without them
 */

/**
 * The log-probability of each output token, what each head is needed for, and where no head alone changes the answer,
 * several that do together; null while it is computed, and where it cannot be.
 *
 * @returns {{whole: number[], heads: (Loss & {name: string, head: number})[], shared: Shared|null}|null}
 */
export function headsOfAnswer(app) {
  const { trace } = app;
  if (!canCompute(trace)) return null;
  if (!known.has(trace)) compute(app, trace);
  return known.get(trace) ?? null;
}

/** The head without which the answer is the least probable. */
export const neededMost = ({ heads }) => heads.reduce((one, other) => (other.fall > one.fall ? other : one));

export function canCompute(trace) {
  if (!trace.hasWeights) return false;
  return sizeOfModel(trace) * trace.attentions().length * trace.axes.head.length <= MAX_WORK;
}

async function compute(app, trace) {
  known.set(trace, null);
  const whole = scoresOf(trace, []);
  let until = 0;
  const measure = async (name, off) => {
    if (performance.now() > until) {
      await new Promise((resolve) => setTimeout(resolve));
      until = performance.now() + PAUSE;
    }
    const found = scoresOf(trace, off.map((head) => [name, head]));
    const falls = whole.scores.map((score, row) => score - found.scores[row]);
    const row = found.best.findIndex(([id], at) => id !== whole.best[at][0] && whole.targets[at] === whole.best[at][0]);
    const [id, score] = found.best[row] ?? [];
    return { falls, fall: sumOf(falls), change: row < 0 ? null : { row, id, p: Math.exp(score) } };
  };
  const heads = [];
  for (const name of trace.attentions())
    for (let head = 0; head < trace.axes.head.length; head += 1) heads.push({ name, head, ...(await measure(name, [head])) });
  const shared = heads.some(({ change }) => change) ? null : await sharedBy(trace, heads, measure);
  known.set(trace, { whole: whole.scores, heads, shared });
  if ([app.trace, app.base].includes(trace) && app.state.panel === 'story') app.notify(false, null);
}

/** Heads of one attention that change the answer together, of cross-attention first; all that can be on again are. */
async function sharedBy(trace, heads, measure) {
  const isCross = (name) => name.endsWith('.cross');
  for (const name of trace.attentions().sort((one, other) => isCross(other) - isCross(one))) {
    const own = heads.filter((one) => one.name === name).sort((one, other) => one.fall - other.fall);
    let off = own.map(({ head }) => head);
    let found = await measure(name, off);
    if (!found.change) continue;
    for (const { head } of own) {
      const fewer = off.filter((other) => other !== head);
      const without = await measure(name, fewer);
      if (without.change) [off, found] = [fewer, without];
    }
    return { name, heads: off.sort((one, other) => one - other), ...found, text: answerFrom(trace, name, off, found.change) };
  }
  return null;
}

const withoutHeads = (trace, off) =>
  new Model(trace, [...editsBesideWeights(trace), ...off.map(([attention, head]) => ({ kind: 'head', attention, head }))]);

const encoded = (model, trace) => model.encode(idsOf(trace.tokens.source), visibleSource(trace));

/** With the own answer as the decoder input: the log-probability of each output token, and the most probable token of each row. */
function scoresOf(trace, off) {
  const model = withoutHeads(trace, off);
  const { inputs, targets } = rowsOf(trace, trace.search.beam.answers[0]);
  const logProbs = model.decode(encoded(model, trace), inputs, model.shortest).get('log_probs');
  const rows = targets.map((_, row) => rowOf(logProbs, row));
  return { targets, scores: targets.map((id, row) => rows[row][id]), best: rows.map((row) => mostProbable(trace, row)) };
}

/** The most probable token that an answer can have, with its log-probability. */
function mostProbable({ vocabularies: { target } }, scores) {
  const special = specialIds(target);
  const allowed = [...scores.keys()].filter((id) => id === target.specials.eos || !special.has(id));
  const id = allowed.reduce((one, other) => (scores[other] > scores[one] ? other : one));
  return [id, scores[id]];
}

/** The answer of greedy search without heads, from the row on where they change it. */
function answerFrom(trace, name, off, { row, id }) {
  const model = withoutHeads(trace, off.map((head) => [name, head]));
  const memory = encoded(model, trace);
  const { targets } = rowsOf(trace, trace.search.beam.answers[0]);
  const { bos, eos } = trace.vocabularies.target.specials;
  const ids = [...targets.slice(0, row), id];
  while (ids.at(-1) !== eos && ids.length < targets.length + LONGER) ids.push(mostProbable(trace, model.nextLogProbs(memory, [bos, ...ids]))[0]);
  const isWhole = ids.at(-1) === eos;
  return decodeIds(trace, 'target', isWhole ? ids.slice(0, -1) : ids) + (isWhole ? '' : '…');
}
