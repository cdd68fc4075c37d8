/** Greedy search and beam search over a table of probabilities: a path is a text of tokens, such as "BA". */

export const TOKENS = ['A', 'B'];

/** All paths of a length. */
export const pathsOf = (length) =>
  length === 0 ? [''] : pathsOf(length - 1).flatMap((path) => TOKENS.map((token) => path + token));

/**
 * @typedef {(path: string) => number} Probability  of the last token of a path, given those before it
 * @typedef {{path: string, p: number, rank: number, isKept: boolean}} Candidate  `p` is the product along the path
 */

/** The product of the probabilities along a path. @param {Probability} given */
export const product = (given, path) => [...path].reduce((p, _, i) => p * given(path.slice(0, i + 1)), 1);

/**
 * Beam search; of width 1 it is greedy search. Of equal candidates the first one is kept.
 *
 * @param {Probability} given
 * @param {number} width
 * @param {number} length
 * @returns {{answer: Candidate, steps: Candidate[][]}}  the candidates of each step by rank
 */
export function beam(given, width, length) {
  let live = [{ path: '', p: 1 }];
  const steps = [];
  for (let step = 0; step < length; step += 1) {
    const found = live.flatMap(({ path, p }) => TOKENS.map((token) => ({ path: path + token, p: p * given(path + token) })));
    const ranked = found.sort((one, other) => other.p - one.p).map((one, i) => ({ ...one, rank: i + 1, isKept: i < width }));
    steps.push(ranked);
    live = ranked.filter(({ isKept }) => isKept);
  }
  return { answer: live[0], steps };
}

/** The most probable of all paths. */
export function best(given, length) {
  return pathsOf(length)
    .map((path) => ({ path, p: product(given, path) }))
    .reduce((found, one) => (one.p > found.p ? one : found));
}
