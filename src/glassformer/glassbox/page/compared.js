/** Two sequences of tokens side by side: which tokens are in both, and which differ. */

/**
 * For each token of both sequences, whether it is not part of a longest common subsequence.
 *
 * @param {{id: number}[]} one  @param {{id: number}[]} other  @returns {[boolean[], boolean[]]}
 */
export function marked(one, other) {
  const length = Array.from({ length: one.length + 1 }, () => new Int32Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i -= 1)
    for (let j = other.length - 1; j >= 0; j -= 1)
      length[i][j] = one[i].id === other[j].id ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  const marks = [one.map(() => true), other.map(() => true)];
  let [i, j] = [0, 0];
  while (i < one.length && j < other.length) {
    if (one[i].id === other[j].id) {
      [marks[0][i], marks[1][j]] = [false, false];
      i += 1;
      j += 1;
    } else if (length[i + 1][j] >= length[i][j + 1]) i += 1;
    else j += 1;
  }
  return marks;
}
