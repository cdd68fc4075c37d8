/** What figure 1 of this model shows: the residual stream of each token, stage by stage, and what a row takes from others. */

import { range } from 'glassbox/core/dom.js';
import { logSumExp } from 'glassbox/model/interpreter.js';
import { filled, headOf, rowOf } from 'glassbox/core/numbers.js';

const SUBLAYER = /^(encoder|decoder)\.\d+\.(self|cross|feed_forward)\.residual$/;
const means = new WeakMap(); // trace -> attention -> its weights

/**
 * The stages of a stack from below: the tensor of the residual stream, and the sublayer that it comes from. The first one
 * is the embedding.
 *
 * @returns {{name: string, part: string|null}[]}
 */
export function stagesOf(trace, stack) {
  const found = trace.steps.filter(({ output }) => SUBLAYER.test(output) && output.startsWith(stack));
  const after = (output) => (trace.isPreNorm ? output : output.replace('.residual', '_norm.output'));
  return [
    { name: found[0].inputs[0], part: null },
    ...found.map(({ output }) => ({ name: after(output), part: output.replace('.residual', '') })),
  ];
}

/** The mean of the weights of all heads [rows keys]; null where the output of the attention is 0, as when it is switched off. */
export function meanWeights(trace, attention) {
  if (!means.has(trace)) means.set(trace, new Map());
  const known = means.get(trace);
  if (!known.has(attention)) {
    const isOff = trace.get(`${attention}.output`)?.numbers.every((number) => number === 0);
    known.set(attention, isOff ? null : meanOfHeads(trace.get(`${attention}.weights`)));
  }
  return known.get(attention);
}

function meanOfHeads(weights) {
  const heads = range(weights.shape[0]).map((head) => headOf(weights, head).numbers);
  return filled(weights.axes.slice(1), weights.shape.slice(1), (_row, _column, i) => heads.reduce((sum, each) => sum + each[i], 0) / heads.length);
}

/** The probability that a row gives to copying each source token; null without a copy mechanism. */
export function copiesOf(trace, row) {
  const [scores, logits] = [trace.get('copy_scores'), trace.get('logits')];
  return scores && logits ? rowOf(scores, row).map((score) => Math.exp(score - logSumExp(rowOf(logits, row)))) : null;
}

/** A row in a few cells: of each cell's numbers the one with the largest absolute value. */
export function cellsOf(numbers, count) {
  const size = numbers.length / count;
  return range(Math.min(count, numbers.length)).map((i) =>
    numbers.subarray(Math.floor(i * size), Math.max(Math.floor((i + 1) * size), i + 1)).reduce((best, one) => (Math.abs(one) > Math.abs(best) ? one : best), 0),
  );
}
