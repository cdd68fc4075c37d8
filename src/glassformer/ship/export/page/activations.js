/** The activations of the feed-forward network, of one number. */

import { erf } from 'glassbox/erf.js';

const [STEPS, REACH] = [1024, 6]; // of the table of Φ: steps for a unit, and from -REACH to REACH
let normal = null;

/** x Φ(x), with Φ of the normal distribution from a table, interpolated: exact to 1e-7. */
function gelu(x) {
  if (x >= REACH) return x;
  if (x <= -REACH) return 0;
  normal ??= Float64Array.from(
    { length: 2 * REACH * STEPS + 1 },
    (_, i) => (1 + erf((i / STEPS - REACH) / Math.SQRT2)) / 2,
  );
  const at = (x + REACH) * STEPS;
  const low = Math.floor(at);
  return x * (normal[low] + (at - low) * (normal[low + 1] - normal[low]));
}

export const ACTIVATIONS = {
  relu: (x) => (x > 0 ? x : 0),
  gelu,
  swish: (x) => x / (1 + Math.exp(-x)),
};
