/** What the answer of a text needs each head for: its tokens without the head, computed by this page. */

import { editsBesideWeights } from 'glassbox/model/edits.js';
import { sizeOfModel } from 'glassbox/model/evidence.js';
import { Model } from 'glassbox/model/model.js';
import { rowOf, sumOf } from 'glassbox/core/numbers.js';
import { idsOf, specialIds } from 'glassbox/model/source.js';
import { rowsOf, visibleSource } from 'glassbox/model/whatif.js';

const MAX_WORK = 200e6; // weights times heads
const PAUSE = 25; // milliseconds of work, after which the browser may draw

const known = new WeakMap(); // trace -> the result, or null until it is computed

/**
 * What a head that is off changes. `falls`: what each output token loses, as a log-probability; `fall`: all of them;
 * `change`: the first output token that is not the most probable one any more, and the one that is.
 *
 * @typedef {{falls: number[], fall: number, change: {row: number, id: number, p: number}|null}} Loss
 */

/**
 * The log-probability of each output token, and what each head is needed for; null while it is computed, and where it
 * cannot be.
 *
 * @returns {{whole: number[], heads: (Loss & {name: string, head: number})[]}|null}
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
  const measure = async (name, head) => {
    if (performance.now() > until) {
      await new Promise((resolve) => setTimeout(resolve));
      until = performance.now() + PAUSE;
    }
    const found = scoresOf(trace, [[name, head]]);
    const falls = whole.scores.map((score, row) => score - found.scores[row]);
    const row = found.best.findIndex(([id], at) => id !== whole.best[at][0] && whole.targets[at] === whole.best[at][0]);
    const [id, score] = found.best[row] ?? [];
    return { falls, fall: sumOf(falls), change: row < 0 ? null : { row, id, p: Math.exp(score) } };
  };
  const heads = [];
  for (const name of trace.attentions())
    for (let head = 0; head < trace.axes.head.length; head += 1) heads.push({ name, head, ...(await measure(name, head)) });
  known.set(trace, { whole: whole.scores, heads });
  if ([app.trace, app.base].includes(trace) && app.state.panel === 'story') app.notify(false, null);
}

const withoutHeads = (trace, off) =>
  new Model(trace, [...editsBesideWeights(trace), ...off.map(([attention, head]) => ({ kind: 'head', attention, head }))]);

/** With the own answer as the decoder input: the log-probability of each output token, and the most probable token of each row. */
function scoresOf(trace, off) {
  const model = withoutHeads(trace, off);
  const { inputs, targets } = rowsOf(trace, trace.search.beam.answers[0]);
  const memory = model.encode(idsOf(trace.tokens.source), visibleSource(trace));
  const logProbs = model.decode(memory, inputs, model.shortest).get('log_probs');
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
