/** Temperature and top-p: how sampling changes the probabilities of a row. */

/**
 * @param {Float64Array} logits  of all tokens
 * @param {number} temperature  divides the logits; below 1 the most probable tokens gain
 * @param {number} topP  the most probable tokens whose probabilities reach this sum are kept
 * @returns {{probabilities: Float64Array, kept: Set<number>}}  of tokens that are not kept the probability is 0
 */
export function sampled(logits, temperature, topP) {
  const largest = logits.reduce((best, logit) => Math.max(best, logit), -Infinity);
  const powers = logits.map((logit) => Math.exp((logit - largest) / temperature));
  const total = powers.reduce((sum, power) => sum + power, 0);
  const order = [...powers.keys()].sort((one, other) => powers[other] - powers[one]);
  const kept = new Set();
  let sum = 0;
  for (const id of order) {
    if (sum >= topP) break;
    kept.add(id);
    sum += powers[id] / total;
  }
  return { probabilities: powers.map((power, id) => (kept.has(id) ? power / total / sum : 0)), kept };
}
