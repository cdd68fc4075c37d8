/** The exported model in onnxruntime-node, which is all that it needs. */

import { fileURLToPath } from 'node:url';
import { search } from './search.js';

process.env.ORT_DISABLE_TELEMETRY ??= '1'; // else newer releases of the library report to its maker
const { InferenceSession, Tensor } = await import('onnxruntime-node');

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const int64 = (values, shape) => new Tensor('int64', BigInt64Array.from(values, BigInt), shape);

/** Encoder and decoder. */
export class Engine {
  static async load(description) {
    const options = { intraOpNumThreads: 1, executionProviders: ['cpu'] };
    const [encoder, decoder] = await Promise.all(
      ['encoder.onnx', 'decoder.onnx'].map((name) => InferenceSession.create(here(name), options)),
    );
    return new Engine(encoder, decoder, description);
  }

  constructor(encoder, decoder, { model, search: limits }) {
    Object.assign(this, { encoder, decoder, alpha: limits.length_alpha });
    this.constraints = { maxNewTokens: limits.max_new_tokens, forbidden: new Set(limits.forbidden_ids) };
    const past = decoder.inputNames.filter((name) => name.startsWith('past_'));
    this.parts = past.map((name) => name.slice('past_'.length)); // key_0, value_0, …
    this.emptyCache = Object.fromEntries(
      this.parts.map((part) => {
        const shape = [1, model.n_heads, 0, part.startsWith('key') ? model.d_k : model.d_v];
        return [`past_${part}`, new Tensor('float32', new Float32Array(0), shape)];
      }),
    );
  }

  /** What every step of the decoder reads: keys and values of the source, and a mask without padding. */
  async encode(source) {
    const mask = new Tensor('bool', new Uint8Array(source.length).fill(1), [1, source.length]);
    const feeds = { source_ids: int64(source, [1, source.length]), source_mask: mask };
    return { ...(await this.encoder.run(feeds)), source_mask: mask };
  }

  /** The best answer to a framed source; `bos` and `eos` are those of the target. */
  async answer(source, { bos, eos }, beams) {
    const memory = await this.encode(source);
    let cache = this.emptyCache;
    const steps = search(1, { bos, eos, ...this.constraints }, { beams, alpha: this.alpha });
    let { value, done } = steps.next();
    while (!done) {
      const { ids, ancestors } = value;
      const rows = ancestors.map((row) => row.at(-2) ?? 0); // of the cache, which the hypotheses extend
      const feeds = { last_ids: int64(ids, [1, ids.length]), rows: int64(rows, [ids.length]), ...memory, ...cache };
      const found = await this.decoder.run(feeds);
      cache = Object.fromEntries(this.parts.map((part) => [`past_${part}`, found[`present_${part}`]]));
      const { data: floats, dims: [, width] } = found.log_probs;
      ({ value, done } = steps.next({ floats, offset: 0, stride: width, width }));
    }
    return value[0];
  }
}
