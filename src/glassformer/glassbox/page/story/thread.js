/** The thread of the story: the step, the layer, the head and the source token that it follows from screen to screen. */

import { range } from 'glassbox/core/dom.js';
import { at, headOf, indexOfLargest, rowOf } from 'glassbox/core/numbers.js';

/** The predictions of each row after each decoder layer, of the answer or with "gold." of the target; the last are those of the model. */
export function predictionsOf({ predictions }, prefix = '') {
  const lens = Object.keys(predictions).filter((name) => /^(gold\.)?decoder\.\d+\.lens\.logits$/.test(name) && name.startsWith('gold.') === Boolean(prefix));
  return [...lens, `${prefix}logits`].map((name) => predictions[name]);
}

/**
 * The layer that turns another token into the output token of a row, by the most; null if none does.
 *
 * @returns {{row: number, layer: number, before: [number, string, number], after: [number, string, number]}|null}
 *   `before` and `after`: the most probable token after the layer before, and after this one
 */
export function changeIn(trace, row) {
  const { id } = trace.tokens.target_out[row];
  const tops = predictionsOf(trace).map((rows) => rows[row].top[0]);
  const found = range(tops.length - 1)
    .map((layer) => ({ row, layer: layer + 1, before: tops[layer], after: tops[layer + 1] }))
    .filter(({ before, after }) => before[0] !== id && after[0] === id);
  return greatest(found);
}

/** How sure the model was of the other token, times how sure it is after the layer. */
const surprise = ({ before, after }) => before[2] * after[2];

/** The change with the greatest surprise; of none null. */
const greatest = (changes) => changes.reduce((one, other) => (one && surprise(one) >= surprise(other) ? one : other), null);

/** The names of the cross-attention of all layers, or of one. */
export const crossOf = (trace, layer = '\\d+') =>
  trace.attentions().filter((name) => new RegExp(`^decoder\\.${layer}\\.cross$`).test(name));

/** The cross-attention that the story is about. */
export const crossHere = ({ trace, state }) => crossOf(trace).find((name) => name === state.attention) ?? crossOf(trace).at(-1);

/**
 * What a row reads in these attentions: the head and the source token with the largest product of the weight and the
 * length of the value.
 */
export function readIn(trace, names, row) {
  const found = names.flatMap((attention) => {
    const [weights, values] = ['weights', 'values'].map((kind) => trace.get(`${attention}.${kind}`));
    const [heads, , keys] = weights.shape;
    return range(heads * keys).map((i) => {
      const [head, key] = [Math.floor(i / keys), i % keys];
      const weight = at(weights, [head, row, key]);
      return { attention, head, key, weight, size: weight * (values ? Math.hypot(...rowOf(headOf(values, head), key)) : 1) };
    });
  });
  return found.reduce((one, other) => (other.size > one.size ? other : one));
}

/** The state that the story begins with: of the greatest surprise, or of the least certain step. */
export function threadOf(trace) {
  const found = greatest(trace.tokens.target_out.map((_, row) => changeIn(trace, row)).filter(Boolean));
  const row = found?.row ?? leastCertain(trace);
  const { attention, head, key } = readIn(trace, crossOf(trace, found?.layer), row);
  return { row, part: attention, attention, head, column: key };
}

/** The probability of the output token of a row. */
export const probabilityOf = (trace, row) => trace.probabilityOf('logits', row, trace.tokens.target_out[row].id) ?? 0;

/** The step whose output token has the smallest probability. */
export const leastCertain = (trace) => indexOfLargest(trace.tokens.target_out.map((_, row) => -probabilityOf(trace, row)));
