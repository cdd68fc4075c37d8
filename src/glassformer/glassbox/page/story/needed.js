/** What the answer of a text needs each head for: its tokens without the head, computed by this page. */

import { range, unhurried } from 'glassbox/core/dom.js';
import { editsBesideWeights } from 'glassbox/model/edits.js';
import { sizeOfModel } from 'glassbox/model/evidence.js';
import { Model } from 'glassbox/model/model.js';
import { indexOfLargest, sumOf } from 'glassbox/core/numbers.js';
import { idsOf } from 'glassbox/model/source.js';
import { rowsOf, visibleSource } from 'glassbox/model/whatif.js';

const MAX_WORK = 200e6; // weights times heads

const known = new WeakMap(); // trace -> the result, or null until it is computed

/**
 * The log-probability of each output token, and what a head that is off changes: what each output token loses, and the
 * sum of that, and the row of the largest. Null while it is computed, and where it cannot be.
 *
 * @returns {{whole: number[], heads: {name: string, head: number, falls: number[], fall: number, row: number}[]}|null}
 */
export function headsOfAnswer(app) {
  const { trace } = app;
  if (!canCompute(trace)) return null;
  if (!known.has(trace)) compute(app, trace);
  return known.get(trace) ?? null;
}

/** The head without which the score of the answer is the lowest. */
export const neededMost = ({ heads }) => heads.reduce((one, other) => (other.fall > one.fall ? other : one));

export function canCompute(trace) {
  if (!trace.hasWeights) return false;
  return sizeOfModel(trace) * trace.attentions().length * trace.axes.head.length <= MAX_WORK;
}

async function compute(app, trace) {
  known.set(trace, null);
  const found = { whole: scoresOf(trace, []), heads: [] };
  await unhurried(withoutEach(trace, found));
  known.set(trace, found);
  if ([app.trace, app.base].includes(trace) && app.state.panel === 'story') app.notify(false, null);
}

function* withoutEach(trace, { whole, heads }) {
  for (const name of trace.attentions())
    for (const head of range(trace.axes.head.length)) {
      const scores = scoresOf(trace, [{ kind: 'head', attention: name, head }]);
      const falls = whole.map((score, row) => score - scores[row]);
      heads.push({ name, head, falls, fall: sumOf(falls), row: indexOfLargest(falls) });
      yield;
    }
}

/** The log-probability of each output token, with the own answer as the decoder input. */
function scoresOf(trace, edits) {
  const model = new Model(trace, [...editsBesideWeights(trace), ...edits]);
  const { inputs, targets } = rowsOf(trace, trace.search.beam.answers[0]);
  return model.tokenScores(model.encode(idsOf(trace.tokens.source), visibleSource(trace)), inputs, targets);
}
