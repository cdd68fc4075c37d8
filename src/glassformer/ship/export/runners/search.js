/**
 * Beam search for a batch of texts, as glassformer/paper/search/beam.py does it; with one beam it is greedy search.
 *
 * A finished hypothesis keeps its slot and is not extended. Answers are ranked by their sum of log-probabilities over
 * the length penalty, those that the limit cut off too. The search never sees the model: it yields what to feed it.
 *
 * @typedef {{ids: number[], score: number, rankScore: number, finished: boolean, others: number[]}} Answer
 *   ids without <eos>; nats; `others` are the scores of the other answers that were found
 * @typedef {{text: number, ids: number[], score: number, ancestors: Int32Array}} Hypothesis
 *   `ancestors`: its row, and that of the hypotheses it extends, in each step so far
 */

/** ((5 + length) / 6)^alpha (Wu et al. 2016); `length` counts <eos>. */
export const penalty = (length, alpha) => ((5 + length) / 6) ** alpha;

/** The model computes log-probabilities that are not numbers. */
export class NotFiniteError extends Error {}

/**
 * Yields the rows of each step, and is given their logits [R V]; returns the best answer to each text.
 *
 * @param {{bos: number, eos: number, forbidden: Set<number>, maxNewTokens: number}} constraints
 * @param {{beams: number, alpha: number, nBest?: number}} options  `nBest`: how many answers are searched for
 * @returns {Generator<{ids: number[], texts: number[], ancestors: Int32Array[]}, Answer[],
 *   {floats: Float32Array, offset: number, stride: number, width: number}>}
 */
export function* search(nTexts, constraints, { beams, alpha, nBest = 1 }) {
  const { bos, eos, maxNewTokens } = constraints;
  const found = Array.from({ length: nTexts }, () => []);
  let live = found.map((_, text) => ({ text, ids: [], score: 0, ancestors: new Int32Array(0) }));
  for (let time = 0; time < maxNewTokens && live.length; time += 1) {
    const rows = live.map(({ ancestors }, row) => Int32Array.of(...ancestors, row));
    const logits = yield {
      ids: live.map(({ ids }) => ids.at(-1) ?? bos),
      texts: live.map(({ text }) => text),
      ancestors: rows,
    };
    const next = [];
    for (const group of groups(live)) {
      const { text } = live[group[0]];
      const slots = beams - found[text].length;
      const kept = [];
      for (const { row, token, score } of best(logits, live, group, constraints, beams).slice(0, slots)) {
        const ids = [...live[row].ids, token];
        if (token === eos) found[text].push(answer(ids, score, eos, alpha));
        else kept.push({ text, ids, score, ancestors: rows[row] });
      }
      if (canImprove(kept, found[text], nBest, maxNewTokens, alpha)) next.push(...kept);
    }
    live = next;
  }
  for (const { text, ids, score } of live) found[text].push(answer(ids, score, eos, alpha)); // cut off
  return found.map(bestAnswer);
}

/** The rows of each text: neighbors. */
function groups(live) {
  const found = [];
  live.forEach(({ text }, row) => {
    if (row && live[row - 1].text === text) found.at(-1).push(row);
    else found.push([row]);
  });
  return found;
}

/** The `beams` best extensions of the hypotheses of one text, best first. */
function best({ floats, offset, stride, width }, live, group, { forbidden }, beams) {
  const top = [];
  for (const row of group) {
    const start = offset + row * stride;
    const total = logSumExp(floats, start, width);
    if (!Number.isFinite(total)) throw new NotFiniteError('the model computes numbers that are not finite');
    const before = live[row].score;
    let least = top.length < beams ? -Infinity : top[beams - 1].score;
    for (let token = 0; token < width; token += 1) {
      const score = before + floats[start + token] - total;
      if (score <= least || forbidden.has(token)) continue;
      let at = top.length;
      while (at > 0 && top[at - 1].score < score) at -= 1;
      top.splice(at, 0, { row, token, score });
      if (top.length > beams) top.pop();
      if (top.length === beams) least = top[beams - 1].score;
    }
  }
  return top;
}

export function logSumExp(floats, start, width) {
  let largest = -Infinity;
  for (let i = start; i < start + width; i += 1) if (!(floats[i] <= largest)) largest = floats[i]; // NaN too
  let sum = 0;
  for (let i = start; i < start + width; i += 1) sum += Math.exp(floats[i] - largest);
  return largest + Math.log(sum);
}

export const logAddExp = (a, b) => Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b)));

/** Whether a live hypothesis can still be one of the best: its sum only falls, and the last penalty is the largest. */
function canImprove(live, finished, nBest, maxNewTokens, alpha) {
  if (!live.length) return false;
  if (finished.length < nBest) return true;
  const bound = Math.max(...live.map(({ score }) => score)) / penalty(maxNewTokens, alpha);
  return bound > finished.map(({ rankScore }) => rankScore).sort((one, other) => other - one)[nBest - 1];
}

function answer(ids, score, eos, alpha) {
  const finished = ids.at(-1) === eos;
  return { ids: finished ? ids.slice(0, -1) : ids, score, rankScore: score / penalty(ids.length, alpha), finished };
}

function bestAnswer(answers) {
  const best = answers.reduce((one, other) => (other.rankScore > one.rankScore ? other : one));
  return { ...best, others: answers.filter((one) => one !== best).map(({ score }) => score) };
}
