#!/usr/bin/env node
/**
 * Translate lines with an exported model: `node run.mjs < texts.txt`. It needs onnxruntime-node alone.
 *
 *     npm install onnxruntime-node
 *     node run.mjs [--beam N] [--json]     --beam 1 is greedy search; --json: JSON in, JSON out
 *
 * A line is a text, or the inputs of a model with several, separated by tabs; with --json a string or an object.
 */

import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { encodeSource, readLine, readSource } from './source.js';
import { TextError, Tokenizer } from './text.js';

process.env.ORT_DISABLE_TELEMETRY ??= '1'; // else newer releases of the library report to its maker
const { InferenceSession, Tensor } = await import('onnxruntime-node');

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const NOTHING = { ids: [], score: 0, rankScore: 0, finished: true };

const int64 = (values, shape) => new Tensor('int64', BigInt64Array.from(values, BigInt), shape);

/** Encoder and decoder, and the search for the best answer to one text. */
class Model {
  static async load(description) {
    const options = { intraOpNumThreads: 1, executionProviders: ['cpu'] };
    const [encoder, decoder] = await Promise.all(
      ['encoder.onnx', 'decoder.onnx'].map((name) => InferenceSession.create(here(name), options)),
    );
    return new Model(encoder, decoder, description);
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

/** The lines of standard input, which end at \n or \r\n. A byte order mark at the start is dropped. */
function readLines() {
  const data = readFileSync(0);
  if (!isUtf8(data)) throw new TextError('the input is not UTF-8');
  const lines = data.toString('utf-8').replace(/^\ufeff/, '').split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines.map((line) => line.replace(/\r$/, ''));
}

/** Call `make`; a TextError gets the number of the line, which is i from 0. */
function inLine(i, make) {
  try {
    return make();
  } catch (error) {
    if (error instanceof TextError) error.message = `line ${i + 1}: ${error.message}`;
    throw error;
  }
}

function readJson(inputs, line) {
  let given = null;
  try {
    given = JSON.parse(line);
  } catch {
    // reported below
  }
  return readSource(inputs, given);
}

async function main() {
  const description = JSON.parse(readFileSync(here('glassformer.json'), 'utf-8'));
  const { values } = parseArgs({ options: { beam: { type: 'string' }, json: { type: 'boolean' } } });
  const beams = Number(values.beam ?? description.search.num_beams);
  if (!Number.isInteger(beams) || beams < 1) throw new TextError(`--beam must be at least 1, not ${values.beam}`);
  const [source, target] = [new Tokenizer(description.source), new Tokenizer(description.target)];
  const read = values.json ? readJson : readLine;
  const texts = readLines().map((line, i) => inLine(i, () => read(source.inputs, line)));
  const sources = texts.map((text, i) => inLine(i, () => encodeSource(source, text, description.max_source_tokens)));
  const model = sources.some(Boolean) ? await Model.load(description) : null;
  for (const ids of sources) {
    const found = ids === null ? NOTHING : await model.answer(ids, target.bos, target.eos, beams);
    const text = target.decode(found.ids);
    const { score, rankScore, finished } = found;
    const line = values.json
      ? JSON.stringify({ text, ids: found.ids, score, rank_score: rankScore, finished })
      : text.replace(/[\r\n]/g, ' ');
    process.stdout.write(`${line}\n`);
  }
}

process.stdout.on('error', ({ code }) => process.exit(code === 'EPIPE' ? 0 : 1)); // the reader of the answers has ended
try {
  await main();
} catch (error) {
  if (!(error instanceof TextError)) throw error;
  process.stderr.write(`error: ${error.message}\n`);
  process.exitCode = 1;
}
