/**
 * Kinds of heads, from the attention weights of one text. A head is of a kind if that is where at least half of its
 * weight is, on average over the rows that count; otherwise it is mixed.
 */

import { range } from 'glassbox/core/dom.js';
import { at, headOf, meanOf, sumOf } from 'glassbox/core/numbers.js';

const ENOUGH = 0.5; // of the weight

/** Name of a kind -> its title, and what is measured. */
export const KINDS = {
  previous: ['previous token', 'weight on the position before the row (self-attention)'],
  same: ['same position', 'weight on the position of the row itself (self-attention)'],
  first: ['first token', 'weight on position 0'],
  copying: [
    'copying',
    'weight on source tokens with the same text as the output token, over the steps whose output token is in the ' +
      'source (cross-attention)',
  ],
  mixed: ['mixed', 'none of these has half of the weight'],
};

/**
 * @param {import('./numbers.js').Named} weights  [rows keys] of one head
 * @param {boolean} isCross
 * @param {string[]} keys  the tokens of the keys
 * @param {string[]} outputs  the output tokens of the rows of cross-attention
 * @returns {{kind: string, weight: number}}  `weight` is that of the kind
 */
export function kindOf(weights, isCross, keys, outputs) {
  const found = isCross
    ? { first: onFirst(weights, 0), copying: onCopies(weights, keys, outputs) }
    : { previous: onOffset(weights, 1), same: onOffset(weights, 0), first: onFirst(weights, 2) };
  const known = Object.entries(found).filter(([, weight]) => weight !== null);
  const [kind, weight] = known.reduce((best, each) => (each[1] > best[1] ? each : best), ['mixed', 0]);
  return { kind: weight >= ENOUGH ? kind : 'mixed', weight };
}

const mean = (numbers) => (numbers.length ? meanOf(numbers) : null);

const rowsFrom = (weights, from) => range(weights.shape[0]).slice(from);

/** From row 2 on, where the previous, the same and the first position are three different ones. */
const onOffset = (weights, offset) =>
  mean(
    rowsFrom(weights, 2)
      .filter((row) => row - offset < weights.shape[1])
      .map((row) => at(weights, [row, row - offset])),
  );

const onFirst = (weights, from) => mean(rowsFrom(weights, from).map((row) => at(weights, [row, 0])));

function onCopies(weights, keys, outputs) {
  const sums = rowsFrom(weights, 0).map((row) => {
    const same = [...keys.keys()].filter((column) => keys[column] === outputs[row]);
    return same.length ? sumOf(same.map((column) => at(weights, [row, column]))) : null;
  });
  return mean(sums.filter((sum) => sum !== null));
}

/** All heads of a trace, each with its weights [rows keys] and its kind. @param {(name: string) => string} nameOf  the tensor that is shown */
export const headsOf = (trace, outputs, nameOf = (name) => name) =>
  trace.attentions().flatMap((name) => {
    const whole = trace.get(nameOf(`${name}.weights`));
    const keys = trace.axes[whole.axes[2]].labels;
    return range(whole.shape[0]).map((head) => {
      const weights = headOf(whole, head);
      return { name, head, weights, kind: kindOf(weights, name.endsWith('.cross'), keys, outputs) };
    });
  });
