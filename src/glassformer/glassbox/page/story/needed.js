/** The head that the answer of a text needs most: its probability without each head, computed by this page. */

import { editsBesideWeights } from 'glassbox/edits.js';
import { sizeOfModel } from 'glassbox/evidence.js';
import { Model } from 'glassbox/model.js';
import { rowsOf, visibleSource } from 'glassbox/whatif.js';

const MAX_WORK = 200e6; // weights times heads
const PAUSE = 25; // milliseconds of work, after which the browser may draw

const known = new WeakMap(); // trace -> the result, or null until it is computed

/**
 * The log-probability of the answer, and of the same answer without each head; null while it is computed, and where it
 * cannot be.
 *
 * @returns {{whole: number, heads: {name: string, head: number, score: number}[]}|null}
 */
export function headsOfAnswer(app) {
  const { trace } = app;
  if (!canCompute(trace)) return null;
  if (!known.has(trace)) compute(app, trace);
  return known.get(trace);
}

/** The head without which the answer is the least probable. */
export const neededMost = ({ heads }) => heads.reduce((one, other) => (other.score < one.score ? other : one));

export function canCompute(trace) {
  if (!trace.hasWeights) return false;
  return sizeOfModel(trace) * trace.attentions().length * trace.axes.head.length <= MAX_WORK;
}

async function compute(app, trace) {
  known.set(trace, null);
  const edits = editsBesideWeights(trace);
  const whole = scoreOf(trace, edits);
  const heads = [];
  let until = 0;
  for (const name of trace.attentions())
    for (let head = 0; head < trace.axes.head.length; head += 1) {
      if (performance.now() > until) {
        await new Promise((resolve) => setTimeout(resolve));
        until = performance.now() + PAUSE;
      }
      heads.push({ name, head, score: scoreOf(trace, [...edits, { kind: 'head', attention: name, head }]) });
    }
  known.set(trace, { whole, heads });
  if (app.trace === trace && app.state.panel === 'story') app.notify(false, null);
}

/** The log-probability of the output, with the end. */
function scoreOf(trace, edits) {
  const model = new Model(trace, edits);
  const memory = model.encode(trace.tokens.source.map((token) => token.id), visibleSource(trace));
  const { inputs, targets } = rowsOf(trace, trace.search.beam.answers[0]);
  return model.tokenScores(memory, inputs, targets).reduce((sum, score) => sum + score, 0);
}
