/** The error function, to the last digits. */

/** 2/√π ∫₀ˣ e^(−t²) dt: a power series for small |x|, a continued fraction for large |x|. */
export function erf(x) {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  const bell = Math.exp(-size * size) / Math.sqrt(Math.PI);
  if (size > 3) {
    let tail = size;
    for (let k = 60; k > 0; k -= 1) tail = size + k / 2 / tail;
    return Math.sign(x) * (1 - bell / tail);
  }
  let [term, sum] = [size, size];
  for (let k = 1; term > 1e-17 * sum; k += 1) {
    term *= (2 * size * size) / (2 * k + 1);
    sum += term;
  }
  return Math.sign(x) * 2 * bell * sum;
}
