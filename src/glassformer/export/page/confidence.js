/** The confidence of an answer, as glassformer/inference/beam_confidence.py computes it. */

const MAX_LOG_ODDS = 10;

/**
 * @param {{weights: number[], unusual_limit: number}} calibration
 * @param {{score: number, others: number[], finished: boolean}} answer  of a search for all answers of the beam
 * @param {string} unlike  how its text is unlike the training, or ""
 */
export function beamConfidence({ weights, unusual_limit: limit }, { score, others, finished }, unlike) {
  const own = score - Math.log(-Math.expm1(Math.min(score, -1e-9)));
  const top = Math.max(...others);
  const rest = others.reduce((sum, other) => sum + Math.exp(other - top), 0);
  const values = [1, others.length ? score - top - Math.log(rest) : own, own];
  const limited = values.map((value) => Math.max(-MAX_LOG_ODDS, Math.min(MAX_LOG_ODDS, value)));
  limited.push(limited[1] ** 2 / 10);
  const logit = weights.reduce((sum, weight, i) => sum + weight * limited[i], 0);
  const found = 1 / (1 + Math.exp(-logit));
  return finished && !unlike ? found : Math.min(found, limit);
}
