/** Which source tokens an answer depends on: cross-attention and occlusion, from the file or computed by this page. */

import { named, sumOf } from 'glassbox/core/numbers.js';
import { occlude } from 'glassbox/model/whatif.js';

const MAX_WORK = 60e6; // weights times source tokens: occlusion computes the model once for each source token

/** Cross-attention [T S], the mean over layers and heads. */
function meanCross(trace) {
  const cross = trace.attentions().filter((name) => name.endsWith('.cross')).map((name) => trace.get(`${name}.weights`));
  const [heads, rows, keys] = cross[0].shape;
  const mean = named(['target', 'source_key'], [rows, keys]);
  for (const weights of cross)
    weights.numbers.forEach((weight, i) => {
      mean.numbers[i % (rows * keys)] += weight / (heads * cross.length);
    });
  return mean;
}

/** Replace the evidence of a trace by that of its own model. Needs weights. */
export function measure(trace) {
  const { specials, counts, axis } = trace.vocabularies.source;
  const isTrained = specials.unk !== undefined && counts[specials.unk] > 0;
  const by = trace.evidence?.occluded_by ?? (isTrained ? trace.axes[axis].labels[specials.unk] : 'mask');
  trace.opened.set('evidence.attention', meanCross(trace));
  trace.opened.set('evidence.occlusion', occlude(trace, by));
  trace.evidence = { attention: 'evidence.attention', occlusion: 'evidence.occlusion', occluded_by: by };
}

/** How many weights a model has. */
export function sizeOfModel(trace) {
  const weights = trace.names().filter((name) => /\.(weight|table)$/.test(name));
  return sumOf(weights.map((name) => trace.get(name).numbers.length));
}

/** Whether the page can compute the occlusion of every source token in about a second. */
export const canMeasure = (trace) =>
  trace.hasWeights && sizeOfModel(trace) * trace.tokens.source.length <= MAX_WORK;
