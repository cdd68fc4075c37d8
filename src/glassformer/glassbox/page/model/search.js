/**
 * Beam search with a record of the best candidates of each step, as in glassbox/search.py. With one beam it is greedy.
 *
 * Nodes and answers have the form of the contract. K is the number of beams.
 */

/** ((5 + length) / 6)^alpha */
export const lengthPenalty = (length, alpha) => ((5 + length) / 6) ** alpha;

/**
 * @param {(prefixes: number[][]) => Float64Array[]} nextLogProbs  ids after <bos> of each live hypothesis ->
 *   log-probabilities of its next token
 * @param {{eos: number, forbidden: Set<number>, maxNewTokens: number, forced: number[]}} constraints
 * @param {{beams: number, alpha: number, best: number}} options
 * @param {{tokenText: (id: number) => string, decode: (ids: number[]) => string}} texts
 */
export function search(nextLogProbs, constraints, { beams, alpha, best }, { tokenText, decode }) {
  const nodes = [];
  const idsOf = new Map([[null, []]]);
  const found = [];
  let live = [null];
  let runs = 0;
  let reason = '';
  for (let time = 0; time < constraints.maxNewTokens; time += 1) {
    runs += live.length;
    const logProbs = nextLogProbs(live.map((node) => idsOf.get(node?.id ?? null)));
    const near = extensions(live, logProbs, allowed(constraints, time), 2 * beams);
    const slots = beams - found.length;
    const lastKept = slots && near.length ? near[Math.min(slots, near.length) - 1].sum : 0;
    const added = near.map((candidate, index) => {
      const [state, reason] = stateOf(candidate, index + 1, slots, lastKept, constraints.eos);
      const node = {
        id: nodes.length,
        parent: candidate.parent,
        step: time,
        token: candidate.token,
        text: tokenText(candidate.token),
        log_prob: candidate.logProb,
        sum: candidate.sum,
        rank_score: candidate.sum / lengthPenalty(time + 1, alpha),
        rank: index + 1,
        state,
        reason,
      };
      nodes.push(node);
      idsOf.set(node.id, [...idsOf.get(node.parent), node.token]);
      return node;
    });
    found.push(...added.filter((node) => node.state === 'finished'));
    live = added.filter((node) => node.state === 'kept');
    reason = reasonToStop(live, found, best, constraints.maxNewTokens, alpha);
    if (reason) break;
  }
  const stopped = reason || `the limit of ${constraints.maxNewTokens} tokens`;
  for (const node of live) node.reason = `still live when the search stopped: ${stopped}`;
  const answers = rank(found, reason ? [] : live).map((node) => answer(node, idsOf.get(node.id), decode));
  return {
    num_beams: beams,
    length_alpha: alpha,
    max_new_tokens: constraints.maxNewTokens,
    forced: constraints.forced,
    encoder_runs: 1,
    decoder_runs: runs,
    nodes,
    answers,
    stopped,
  };
}

function allowed({ forbidden, forced }, time) {
  return (id) => !forbidden.has(id) && (time >= forced.length || id === forced[time]);
}

/** The `most` best extensions of the live hypotheses, best first; of equal ones the first hypothesis and token. */
function extensions(live, logProbs, isAllowed, most) {
  const top = [];
  live.forEach((node, row) => {
    const before = node?.sum ?? 0;
    for (let token = 0; token < logProbs[row].length; token += 1) {
      const sum = before + logProbs[row][token];
      if ((top.length === most && sum <= top[most - 1].sum) || !isAllowed(token)) continue;
      let at = top.length;
      while (at > 0 && top[at - 1].sum < sum) at -= 1;
      top.splice(at, 0, { parent: node?.id ?? null, token, logProb: logProbs[row][token], sum });
      if (top.length > most) top.pop();
    }
  });
  return top;
}

function stateOf(candidate, rank, slots, lastKept, eos) {
  const ranked = `rank ${rank} for ${slots} slot${slots === 1 ? '' : 's'}`;
  if (rank > slots)
    return ['pruned', `${ranked}, ${shortNumber(lastKept - candidate.sum)} nats short`];
  if (candidate.token === eos) return ['finished', 'it ends here and keeps its slot'];
  return ['kept', ranked];
}

const shortNumber = (number) => String(Number(number.toPrecision(3)));

/** Why no live hypothesis can enter the best ones, or nothing: sums only fall, and the last penalty is the largest. */
function reasonToStop(live, found, best, maxNewTokens, alpha) {
  if (!live.length) return 'every hypothesis is finished';
  if (found.length < best) return '';
  const worst = found.map((node) => node.rank_score).sort((one, other) => other - one)[best - 1];
  const bound = Math.max(...live.map((node) => node.sum)) / lengthPenalty(maxNewTokens, alpha);
  if (bound > worst) return '';
  return (
    `no live hypothesis can still win: at best ${shortNumber(bound)} ` +
    `after the penalty, against ${shortNumber(worst)}`
  );
}

/** All answers, best first: the finished ones, and those that the limit cut off. */
function rank(found, cutOff) {
  const isFinished = (node) => node.state === 'finished';
  const ranked = [...found, ...cutOff].sort(
    (one, other) => other.rank_score - one.rank_score || isFinished(other) - isFinished(one),
  );
  ranked.forEach((node, index) => {
    const behind = index ? `, ${shortNumber(ranked[0].rank_score - node.rank_score)} behind the best` : '';
    node.reason = `${isFinished(node) ? 'finished' : 'cut off'}, answer ${index + 1} of ${ranked.length}${behind}`;
  });
  return ranked;
}

function answer(node, ids, decode) {
  const finished = node.state === 'finished';
  const plain = finished ? ids.slice(0, -1) : ids;
  return { node: node.id, text: decode(plain), ids: plain, score: node.sum, rank_score: node.rank_score, finished };
}
