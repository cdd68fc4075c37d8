/**
 * Beam search with a record of every near candidate: what glassbox/search.py does, a second time.
 *
 * Nodes and answers are those of the contract.
 */

/** ((5 + length) / 6)^alpha */
export const lengthPenalty = (length, alpha) => ((5 + length) / 6) ** alpha;

/**
 * @param {(ids: number[]) => Float64Array} nextLogProbs  ids after <bos> -> log-probabilities of the next token
 * @param {{eos: number, forbidden: Set<number>, longest: number, forced: number[]}} space
 * @param {{beams: number, alpha: number, best: number}} options
 * @param {{tokenText: (id: number) => string, decode: (ids: number[]) => string}} texts
 */
export function search(nextLogProbs, space, { beams, alpha, best }, { tokenText, decode }) {
  const nodes = [];
  const idsOf = new Map([[null, []]]);
  const found = [];
  let live = [null];
  let runs = 0;
  let stopped = `the limit of ${space.longest} tokens`;
  for (let time = 0; time < space.longest; time += 1) {
    const onlyEos = time + 1 === space.longest && found.length >= best;
    const candidates = live.flatMap((node) => {
      runs += 1;
      return extensions(node, nextLogProbs(idsOf.get(node?.id ?? null)), allowed(space, time, onlyEos));
    });
    const slots = beams - found.length;
    const near = candidates.sort((one, other) => other.sum - one.sum).slice(0, 2 * beams);
    const lastKept = slots && near.length ? near[Math.min(slots, near.length) - 1].sum : 0;
    const added = near.map((candidate, place) => {
      const [state, reason] = fate(candidate, place + 1, slots, lastKept, space.eos);
      const node = {
        id: nodes.length,
        parent: candidate.parent,
        step: time,
        token: candidate.token,
        text: tokenText(candidate.token),
        log_prob: candidate.logProb,
        sum: candidate.sum,
        normalised: candidate.sum / lengthPenalty(time + 1, alpha),
        rank: place + 1,
        state,
        reason,
      };
      nodes.push(node);
      idsOf.set(node.id, [...idsOf.get(node.parent), node.token]);
      return node;
    });
    found.push(...added.filter((node) => node.state === 'finished'));
    live = added.filter((node) => node.state === 'kept');
    const reason = reasonToStop(live, found, best, space.longest, alpha);
    if (reason) {
      stopped = reason;
      break;
    }
  }
  const answers = rank(live, found, best, stopped).map((node) => answer(node, idsOf.get(node.id), decode));
  return {
    num_beams: beams,
    length_alpha: alpha,
    max_new_tokens: space.longest,
    forced: space.forced,
    encoder_runs: 1,
    decoder_runs: runs,
    nodes,
    answers,
    stopped,
  };
}

function allowed({ eos, forbidden, forced }, time, onlyEos) {
  return (id) => !forbidden.has(id) && (!onlyEos || id === eos) && (time >= forced.length || id === forced[time]);
}

function extensions(node, logProbs, isAllowed) {
  const before = node?.sum ?? 0;
  return Array.from(logProbs, (logProb, token) => ({
    parent: node?.id ?? null,
    token,
    logProb,
    sum: before + logProb,
  })).filter(({ token }) => isAllowed(token));
}

function fate(candidate, rank, slots, lastKept, eos) {
  const ranked = `rank ${rank} for ${slots} slot${slots === 1 ? '' : 's'}`;
  if (rank > slots)
    return ['pruned', `${ranked}, ${shortNumber(lastKept - candidate.sum)} nats short`];
  if (candidate.token === eos) return ['finished', 'it ends here and keeps its slot'];
  return ['kept', ranked];
}

const shortNumber = (number) => String(Number(number.toPrecision(3)));

/** Why no live hypothesis can still enter the best, or nothing: a sum falls, and the last penalty is largest. */
function reasonToStop(live, found, best, longest, alpha) {
  if (!live.length) return 'every hypothesis is finished';
  if (found.length < best) return '';
  const worst = found.map((node) => node.normalised).sort((one, other) => other - one)[best - 1];
  const hope = Math.max(...live.map((node) => node.sum)) / lengthPenalty(longest, alpha);
  if (hope > worst) return '';
  return (
    `no live hypothesis can still win: at best ${shortNumber(hope)} ` +
    `after the penalty, against ${shortNumber(worst)}`
  );
}

/** All answers, best first: finished ones, and unfinished ones where those do not suffice. */
function rank(live, found, best, stopped) {
  for (const node of live) node.reason = `still live when the search stopped: ${stopped}`;
  const isFinished = (node) => node.state === 'finished';
  const ranked = [...found, ...(found.length < best ? live : [])].sort(
    (one, other) => isFinished(other) - isFinished(one) || other.normalised - one.normalised,
  );
  ranked.forEach((node, place) => {
    const behind = place ? `, ${shortNumber(ranked[0].normalised - node.normalised)} behind the best` : '';
    node.reason = `${isFinished(node) ? 'finished' : 'unfinished'}, answer ${place + 1} of ${ranked.length}${behind}`;
  });
  return ranked;
}

function answer(node, ids, decode) {
  const finished = node.state === 'finished';
  const plain = finished ? ids.slice(0, -1) : ids;
  return { node: node.id, text: decode(plain), ids: plain, score: node.sum, rank_score: node.normalised, finished };
}
