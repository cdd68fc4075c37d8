/**
 * Direct logit attribution (Elhage et al. 2021): the logit of a token as the sum of what each head and sublayer adds to
 * the residual stream. Each layer norm divides by its recorded deviation, so that it is linear and the sum is exact.
 */

import { range } from 'glassbox/core/dom.js';
import { headTitle, tensorTitle } from 'glassbox/model/labels.js';
import { dot, meanOf, rowOf, sumOf } from 'glassbox/core/numbers.js';

/** @typedef {{from: string, head: number|null, number: number}} Part  `from`: the tensor or weight that adds it */

/** "head 2 · decoder layer 1 of 3, self-attention" */
export const partTitle = (trace, { from, head }) => tensorTitle(trace, from).replace(/^heads(?= · )/, headTitle(head));

const product = (x, y) => dot(x, 0, y, 0, x.length);

/** What each head of a sublayer adds, the last one first, where its last step is W_O; otherwise what all of it adds. */
function ofSublayer(trace, name, row, direction) {
  const { inputs } = trace.stepOf.get(name) ?? { inputs: [] };
  const before = trace.stepOf.get(inputs[0]);
  if (before?.op !== 'concatenate_heads') return [{ from: name, head: null, number: product(rowOf(trace.get(name), row), direction) }];
  const [joined, weight, bias] = inputs.map((input) => trace.get(input));
  const [heads, , width] = trace.get(before.inputs[0]).shape;
  const written = rowOf(joined, row).map((number, i) => number * direction.reduce((sum, d, o) => sum + d * rowOf(weight, o)[i], 0));
  const parts = range(heads).toReversed().map((head) => {
    const number = sumOf(written.subarray(head * width, (head + 1) * width));
    return { from: before.inputs[0], head, number };
  });
  return bias ? [{ from: inputs[2], head: null, number: product(bias.numbers, direction) }, ...parts] : parts;
}

/**
 * The parts of the logit of a token in a row: from the output back through the norms to the embedding.
 * @returns {Part[]|null}  null where the trace does not have what it needs, such as the weights
 */
export function attribute(trace, logits, row, token) {
  let { inputs } = trace.stepOf.get(trace.projected(logits));
  if (!inputs.every((name) => trace.has(name))) return null;
  const parts = inputs[2] ? [{ from: inputs[2], head: null, number: trace.get(inputs[2]).numbers[token] }] : [];
  let direction = rowOf(trace.get(inputs[1]), token);
  for (let step = trace.stepOf.get(inputs[0]); ['layer_norm', 'add'].includes(step?.op); step = trace.stepOf.get(inputs[0])) {
    inputs = step.inputs;
    const [, , variance, gain, bias] = inputs.map((input) => trace.get(input));
    if (step.op === 'layer_norm') {
      parts.push({ from: inputs[4], head: null, number: product(bias.numbers, direction) });
      const scaled = direction.map((number, i) => number * gain.numbers[i]);
      const [mean, deviation] = [meanOf(scaled), Math.sqrt(variance.numbers[row] + step.attributes.eps)];
      direction = scaled.map((number) => (number - mean) / deviation);
    } else parts.push(...ofSublayer(trace, inputs[1], row, direction));
  }
  return [...parts, { from: inputs[0], head: null, number: product(rowOf(trace.get(inputs[0]), row), direction) }].toReversed();
}
