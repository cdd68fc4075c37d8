/** What the answer of a text needs each head for: the probability of its tokens without it, computed by this page. */

import { editsBesideWeights } from 'glassbox/edits.js';
import { sizeOfModel } from 'glassbox/evidence.js';
import { Model } from 'glassbox/model.js';
import { sumOf } from 'glassbox/numbers.js';
import { rowsOf, visibleSource } from 'glassbox/whatif.js';

const MAX_WORK = 200e6; // weights times heads
const PAUSE = 25; // milliseconds of work, after which the browser may draw

const known = new WeakMap(); // trace -> the result, or null until it is computed

/** @typedef {{name: string, head: number, falls: number[], fall: number}} Loss  `falls`: of each output token; `fall`: of all */

/**
 * The log-probability of each output token, and what each of them loses without each head; null while it is computed,
 * and where it cannot be.
 *
 * @param {boolean} isAsked  compute it if it is not known
 * @returns {{whole: number[], heads: Loss[]}|null}
 */
export function headsOfAnswer(app, trace = app.trace, isAsked = true) {
  if (!canCompute(trace)) return null;
  if (isAsked && !known.has(trace)) compute(app, trace);
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
  const edits = editsBesideWeights(trace);
  const whole = scoresOf(trace, edits);
  const heads = [];
  let until = 0;
  for (const name of trace.attentions())
    for (let head = 0; head < trace.axes.head.length; head += 1) {
      if (performance.now() > until) {
        await new Promise((resolve) => setTimeout(resolve));
        until = performance.now() + PAUSE;
      }
      const scores = scoresOf(trace, [...edits, { kind: 'head', attention: name, head }]);
      const falls = whole.map((score, row) => score - scores[row]);
      heads.push({ name, head, falls, fall: sumOf(falls) });
    }
  known.set(trace, { whole, heads });
  if ([app.trace, app.base].includes(trace) && app.state.panel === 'story') app.notify(false, null);
}

/** The log-probability of each output token, and of the end. */
function scoresOf(trace, edits) {
  const model = new Model(trace, edits);
  const memory = model.encode(trace.tokens.source.map((token) => token.id), visibleSource(trace));
  const { inputs, targets } = rowsOf(trace, trace.search.beam.answers[0]);
  return model.tokenScores(memory, inputs, targets);
}
