/** Several models as one: the mean of their probabilities, as glassformer/inference/engines/numpy.py computes it. */

import { logAddExp, logSumExp } from 'translator/search.js';

export class Ensemble {
  /** @param {import('./model.js').Model[]} models */
  constructor(models) {
    this.models = models;
  }

  encode(sources) {
    return this.models.map((model) => model.encode(sources));
  }

  start(memories) {
    return this.models.map((model, i) => model.start(memories[i]));
  }

  /** The log of the mean probability [R V]; a model overwrites the logits of the one before. */
  step(states, rows) {
    let mean = null;
    states.forEach((state, i) => {
      const { floats, offset, stride, width } = this.models[i].step(state, rows);
      mean ??= { floats: new Float64Array(rows.ids.length * width).fill(-Infinity), offset: 0, stride: width, width };
      for (let row = 0; row < rows.ids.length; row += 1) {
        const from = offset + row * stride;
        const total = logSumExp(floats, from, width) + Math.log(states.length);
        for (let token = 0; token < width; token += 1) {
          const at = row * width + token;
          mean.floats[at] = logAddExp(mean.floats[at], floats[from + token] - total);
        }
      }
    });
    return mean;
  }
}
