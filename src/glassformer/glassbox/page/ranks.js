/** Spearman's rank correlation of absolute values, as `evidence.py` computes it. */

/** The correlation of two [T S], over all cells and for each row; null where one of the two is constant. */
export function correlate(one, other) {
  const keys = one.shape[1];
  const sizes = [one, other].map((x) => x.numbers.map(Math.abs));
  const part = (row) => sizes.map((x) => x.subarray(row * keys, (row + 1) * keys));
  return { all: spearman(...sizes), rows: Array.from({ length: one.shape[0] }, (_, row) => spearman(...part(row))) };
}

function spearman(one, other) {
  const [a, b] = [one, other].map(ranks);
  const mean = (a.length + 1) / 2;
  const product = (x, y) => x.reduce((sum, rank, i) => sum + (rank - mean) * (y[i] - mean), 0);
  const size = Math.sqrt(product(a, a) * product(b, b));
  return size > 0 ? product(a, b) / size : null;
}

/** The rank of each number; equal numbers have the mean of their ranks. */
function ranks(numbers) {
  const order = [...numbers.keys()].sort((i, j) => numbers[i] - numbers[j]);
  const found = new Array(numbers.length);
  for (let from = 0; from < order.length;) {
    let to = from;
    while (to + 1 < order.length && numbers[order[to + 1]] === numbers[order[from]]) to += 1;
    for (let k = from; k <= to; k += 1) found[order[k]] = (from + to) / 2 + 1;
    from = to + 1;
  }
  return found;
}
