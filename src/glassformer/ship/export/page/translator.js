/**
 * From texts to answers: tokens, batches of similar lengths, greedy search first, a beam only where it could change
 * the best answer (glassformer/paper/search/greedy_first.py).
 *
 * @typedef {{row: number, text: string, ids: number[], score: number, rank_score: number, finished: boolean,
 *   unknown: string[], unlike: string, probability?: number}} Found  the answer to text `row`
 * @typedef {{row: number, error: string}} Refused  why there is no answer
 */

import { unlikeWords } from 'glassbox/seen.js';
import { encodeSource, readSource } from 'glassbox/tokenizer/source.js';
import { TextError, Tokenizer } from 'glassbox/tokenizer/text.js';
import { Arena } from 'translator/arena.js';
import { Ensemble } from 'translator/ensemble.js';
import { Model } from 'translator/model.js';
import { loadParameters } from 'translator/parameters.js';
import { probability } from 'translator/probability.js';
import { NotFiniteError, penalty, search } from 'translator/search.js';
import { decodeParts, readTensor } from 'translator/weights.js';

const PROBE = 256; // texts that show whether greedy search before a beam saves time
const BATCH_ROWS = 64; // hypotheses in a batch
const BATCH_TOKENS = 2048; // source tokens in a batch
const ROUNDING = 1e-4; // what rounding may add to the log-probability of an answer
const EMPTY = { text: '', ids: [], score: 0, rank_score: 0, finished: true, unknown: [], unlike: '' };

export class Translator {
  /**
   * @param description  the object of glassformer.json, with `tensors`, `weight_bytes`, and the prefixes of `models`
   * @param {string[]} parts  the weights, in base64
   */
  constructor(description, parts) {
    const { format, source, target, model } = description;
    if (format !== 'glassformer-export/1') throw new Error(`another format: ${format}`);
    this.description = description;
    this.source = new Tokenizer(source);
    this.target = new Tokenizer(target);
    const bytes = decodeParts(parts, description.weight_bytes);
    const entries = new Map(description.tensors.map((entry) => [entry.name, entry]));
    const read = (name) => (entries.has(name) ? readTensor(bytes, entries.get(name)) : null);
    const sizes = { source: this.source.size, target: this.target.size };
    this.arena = new Arena();
    const models = description.models.map(
      (prefix) => new Model(loadParameters(model, sizes, (name) => read(prefix + name), this.arena)),
    );
    this.model = models.length > 1 ? new Ensemble(models) : models[0];
    this.constraints = {
      bos: this.target.bos,
      eos: this.target.eos,
      forbidden: new Set(description.search.forbidden_ids),
      maxNewTokens: description.search.max_new_tokens,
    };
    this.alpha = description.search.length_alpha;
  }

  /**
   * Yields lists of answers as they are found, in any order, and nothing in between so that a caller can stop.
   *
   * @param {(string|object)[]} texts  objects for a model with several inputs @param {number} beams  1: greedy search
   * @param {boolean} confidence  with the probability that an answer is right, where it is known; that takes longer
   * @returns {Generator<(Found|Refused)[]|undefined, void>}
   */
  *translate(texts, beams, confidence = false) {
    const sources = [];
    const isJudged = confidence && beams === this.description.calibration.num_beams;
    for (const [row, text] of texts.entries()) {
      try {
        const source = readSource(this.source.inputs, text);
        const encoded = encodeSource(this.source, source, this.description.max_source_tokens);
        if (encoded) sources.push({ row, ...encoded, unlike: this.unlike(encoded.ids) });
        else yield [{ row, ...EMPTY }];
      } catch (error) {
        if (!(error instanceof TextError)) throw error;
        yield [{ row, error: error.message }];
      }
    }
    if (isJudged) {
      yield* this.decode(sources, beams, () => true, true);
      return;
    }
    const isAccepted = (answer) => beams === 1 || this.isCertain(answer);
    const probed = sources.slice(0, beams === 1 ? Infinity : PROBE);
    const others = sources.slice(probed.length);
    const uncertain = yield* this.decode(probed, 1, isAccepted);
    const isUseful = 3 * (probed.length - uncertain.length) > probed.length;
    uncertain.push(...(isUseful ? yield* this.decode(others, 1, isAccepted) : others));
    yield* this.decode(uncertain, beams, () => true);
  }

  /** Answers all texts in one go. */
  answers(texts, beams, confidence = false) {
    const found = [];
    for (const batch of this.translate(texts, beams, confidence)) for (const one of batch ?? []) found[one.row] = one;
    return found;
  }

  /** Search for answers; those that are not accepted are left out, and their sources returned. */
  *decode(sources, beams, isAccepted, isJudged = false) {
    const rest = [];
    for (const batch of batches(sources, Math.max(1, Math.floor(BATCH_ROWS / beams)))) {
      const answers = yield* this.searchBatch(batch, beams, isJudged ? beams : 1);
      const accepted = answers.map((answer) => Boolean(answer.error) || isAccepted(answer));
      rest.push(...batch.filter((_, i) => !accepted[i]));
      yield answers.map((answer, i) => this.found(batch[i], answer, isJudged)).filter((_, i) => accepted[i]);
    }
    return rest;
  }

  *searchBatch(batch, beams, nBest) {
    const { used } = this.arena;
    try {
      const state = this.model.start(this.model.encode(batch.map(({ ids }) => ids)));
      const steps = search(batch.length, this.constraints, { beams, alpha: this.alpha, nBest });
      let { value, done } = steps.next();
      while (!done) {
        ({ value, done } = steps.next(this.model.step(state, value)));
        yield; // so that a caller can stop
      }
      return value;
    } catch (error) {
      if (!(error instanceof NotFiniteError)) throw error;
      if (batch.length === 1) return [{ error: error.message }];
    } finally {
      this.arena.release(used);
    }
    const answers = []; // each text alone, to find the one that fails
    for (const one of batch) answers.push(...(yield* this.searchBatch([one], beams, nBest)));
    return answers;
  }

  /** Whether no other answer can outrank this one: the others have the rest of the probability together. */
  isCertain({ score, rankScore, finished }) {
    const rest = Math.max(-Math.expm1(score), 1e-6); // a smaller rest is lost in rounding
    return finished && rankScore > Math.log(rest) / penalty(this.constraints.maxNewTokens, this.alpha) + ROUNDING;
  }

  /** How a framed source is unlike all that the model was trained on, in words. */
  unlike(ids) {
    const { pieces, kind } = this.source;
    return unlikeWords(this.description.seen, ids, this.source, (id) => pieces[id], kind);
  }

  found({ row, unknown, unlike }, answer, isJudged) {
    const { ids, score, rankScore, finished, error } = answer;
    if (error) return { row, error };
    const judged = isJudged ? { probability: probability(this.description.calibration, answer, unlike) } : {};
    return { row, text: this.target.decode(ids), ids, score, rank_score: rankScore, finished, unknown, unlike, ...judged };
  }
}

/** Batches of texts of similar lengths, each within the limits. */
function* batches(sources, maxRows) {
  let [batch, tokens] = [[], 0];
  for (const source of sources.toSorted((one, other) => one.ids.length - other.ids.length)) {
    if (batch.length === maxRows || (batch.length && tokens + source.ids.length > BATCH_TOKENS)) {
      yield batch;
      [batch, tokens] = [[], 0];
    }
    batch.push(source);
    tokens += source.ids.length;
  }
  if (batch.length) yield batch;
}
