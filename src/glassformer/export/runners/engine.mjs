/** The exported model in onnxruntime-node, which is all that it needs, and the search for the best answer. */

import { fileURLToPath } from 'node:url';
import { TextError } from './text.js';

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

  constructor(encoder, decoder, { model, search }) {
    Object.assign(this, { encoder, decoder, search });
    const layers = Array.from({ length: model.n_decoder_layers }, (_, i) => i);
    this.parts = layers.flatMap((i) => [`key_${i}`, `value_${i}`]);
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
    return { ...(await this.encoder.run(feeds, this.parts.map((part) => `memory_${part}`))), source_mask: mask };
  }

  /** Feed the last tokens of hypotheses that extend `rows` of the cache: log-probabilities [K V], and the new cache. */
  async step(last, rows, memory, cache) {
    const feeds = { last_ids: int64(last, [1, last.length]), rows: int64(rows, [rows.length]), ...memory, ...cache };
    const found = await this.decoder.run(feeds);
    const grown = Object.fromEntries(this.parts.map((part) => [`past_${part}`, found[`present_${part}`]]));
    return { logProbs: found.log_probs.data, cache: grown };
  }

  /** The best answer to a framed source. A finished hypothesis keeps its slot; one beam is greedy search. */
  async answer(source, bos, eos, beams) {
    const longest = this.search.max_new_tokens;
    const memory = await this.encode(source);
    let live = [{ ids: [], row: 0, score: 0 }];
    let cache = this.emptyCache;
    let nFinished = 0;
    let best = { rankScore: -Infinity };
    for (let time = 1; time <= longest && live.length; time += 1) {
      const last = live.map(({ ids }) => ids.at(-1) ?? bos);
      const found = await this.step(last, live.map(({ row }) => row), memory, cache);
      cache = found.cache;
      const onlyEos = time === longest && nFinished > 0; // an unfinished answer would not be taken
      const next = this.extend(found.logProbs, live, beams, onlyEos ? eos : null).slice(0, beams - nFinished);
      if (next.some(({ score }) => !Number.isFinite(score)) || (!next.length && !nFinished))
        throw new TextError('the model computes numbers that are not finite');
      for (const one of next.filter(({ ids }) => ids.at(-1) === eos)) {
        nFinished += 1;
        const rankScore = one.score / this.penalty(time);
        if (rankScore > best.rankScore) best = { ids: one.ids.slice(0, -1), score: one.score, rankScore, finished: true };
      }
      live = next.filter(({ ids }) => ids.at(-1) !== eos);
      const bound = Math.max(...live.map(({ score }) => score)) / this.penalty(longest);
      if (bound <= best.rankScore) break; // none can outrank the best answer, even at the maximum length
    }
    if (nFinished) return best;
    const [{ ids, score }] = live; // the first is the best
    return { ids, score, rankScore: score / this.penalty(ids.length), finished: false };
  }

  /** The `beams` best extensions, best first; with `only` by this token alone. NaN comes first, so that it is found. */
  extend(logProbs, live, beams, only) {
    const size = logProbs.length / live.length;
    const forbidden = new Set(this.search.forbidden_ids);
    const top = [];
    live.forEach(({ ids, score: before }, row) => {
      for (let token = only ?? 0; token < (only === null ? size : only + 1); token += 1) {
        const score = before + logProbs[row * size + token];
        if ((top.length === beams && score <= top[beams - 1].score) || forbidden.has(token)) continue;
        let at = top.length;
        while (at > 0 && !(score <= top[at - 1].score)) at -= 1;
        top.splice(at, 0, { ids, row, token, score });
        if (top.length > beams) top.pop();
      }
    });
    return top.map(({ ids, row, token, score }) => ({ ids: [...ids, token], row, score }));
  }

  /** ((5 + length) / 6)^alpha (Wu et al. 2016); the length counts <eos>. */
  penalty(length) {
    return ((5 + length) / 6) ** this.search.length_alpha;
  }
}
