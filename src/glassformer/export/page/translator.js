/**
 * From texts to answers with the model of the glass box: greedy search first, a beam only where it could change the
 * best answer (glassformer/paper/search/greedy_first.py).
 *
 * @typedef {{row: number, text: string, ids: number[], score: number, rank_score: number, finished: boolean,
 *   unknown: string[], unlike: string, confidence?: number, isFirst?: boolean}} Found  the answer to text `row`
 * @typedef {{row: number, error: string}} Refused  why there is no answer
 */

import { logSumExp } from 'glassbox/model/interpreter.js';
import { CachedDecoder, Model } from 'glassbox/model/model.js';
import { lengthPenalty, search } from 'glassbox/model/search.js';
import { unlikeWords } from 'glassbox/model/seen.js';
import { encodeSource, readSource } from 'glassbox/tokenizer/source.js';
import { TextError, Tokenizer } from 'glassbox/tokenizer/text.js';
import { beamConfidence } from 'translator/confidence.js';
import { baseTrace, decodeParts } from 'translator/weights.js';

const ROUNDING = 1e-4; // what rounding may add to the log-probability of an answer
const EMPTY = { text: '', ids: [], score: 0, rank_score: 0, finished: true, unknown: [], unlike: '' };

export class Translator {
  /**
   * @param description  the object of glassformer.json, with `template`, `tensors`, `weight_bytes`, and the prefixes of
   *   `models`
   * @param {string[]} parts  the weights, in base64
   */
  constructor(description, parts) {
    const { source, target, models } = description;
    this.description = description;
    this.source = new Tokenizer(source);
    this.target = new Tokenizer(target);
    const bytes = decodeParts(parts, description.weight_bytes);
    this.models = models.map((prefix) => new Model(baseTrace(description, bytes, prefix), []));
  }

  /**
   * Yields the answer to each text. With `confidence` it has its confidence, where that is known, and
   * an answer of which greedy search is certain comes without it before (`isFirst`): a beam takes longer.
   *
   * @param {(string|object)[]} texts  objects for a model with several inputs @param {number} beams  1: greedy search
   * @returns {Generator<Found|Refused, void>}
   */
  *translate(texts, beams, confidence = false) {
    const isJudged = confidence && beams === this.description.calibration.num_beams;
    for (const [row, text] of texts.entries())
      for (const found of this.answers(text, beams, isJudged)) yield { row, ...found };
  }

  *answers(text, beams, isJudged) {
    const { max_source_tokens: longest, calibration, seen } = this.description;
    try {
      const encoded = encodeSource(this.source, readSource(this.source.inputs, text), longest);
      if (!encoded) {
        yield EMPTY;
        return;
      }
      const { ids, tokens, unknown } = encoded;
      const start = ids.length - tokens.length - 1; // of the text, after <bos>
      const textOf = (at) => tokens[at - start]?.unknown ?? this.source.pieces[ids[at]];
      const unlike = unlikeWords(seen, ids, this.source, textOf, this.source.kind);
      const visible = ids.map(() => true);
      const memories = this.models.map((model) => model.encode(ids, visible));
      const [greedy] = this.search(memories, 1);
      const isCertain = beams === 1 || this.isCertain(greedy);
      if (isCertain) yield { ...greedy, unknown, unlike, isFirst: isJudged };
      if (isCertain && !isJudged) return;
      const [best, ...rest] = this.search(memories, beams, isJudged ? beams : 1);
      const judged = { ...best, others: rest.map(({ score }) => score) };
      const more = isJudged ? { confidence: beamConfidence(calibration, judged, unlike) } : {};
      yield { ...best, unknown, unlike, ...more };
    } catch (error) {
      if (!(error instanceof TextError)) throw error;
      yield { error: error.message };
    }
  }

  /** The answers to an encoded source, best first. @param {Map[]} memories  of each model */
  search(memories, beams, best = 1) {
    const { bos, eos } = this.target;
    const { forbidden_ids: forbidden, max_new_tokens: maxNewTokens, length_alpha: alpha } = this.description.search;
    const decoders = this.models.map((model, i) => new CachedDecoder(model, memories[i]));
    const next = (prefixes) => {
      const inputs = prefixes.map((ids) => [bos, ...ids]);
      const found = decoders.map((decoder) => decoder.nextLogProbs(inputs));
      const rows = found.length > 1 ? inputs.map((_, row) => logMean(found.map((all) => all[row]))) : found[0];
      if (rows.some((row) => Number.isNaN(row[0]))) throw new TextError('the model computes numbers that are not finite');
      return rows;
    };
    const constraints = { eos, forbidden: new Set(forbidden), maxNewTokens, forced: [] };
    const texts = { tokenText: (id) => this.target.pieces[id], decode: (ids) => this.target.decode(ids) };
    return search(next, constraints, { beams, alpha, best }, texts).answers;
  }

  /** Whether no other answer can outrank this one: the others have the rest of the probability together. */
  isCertain({ score, rank_score: rankScore, finished }) {
    const { max_new_tokens: maxNewTokens, length_alpha: alpha } = this.description.search;
    const rest = Math.max(-Math.expm1(score), 1e-6); // a smaller rest is lost in rounding
    return finished && rankScore > Math.log(rest) / lengthPenalty(maxNewTokens, alpha) + ROUNDING;
  }
}

/** The log of the mean probability of each token over several models. @param {Float64Array[]} logProbs  of each model */
const logMean = (logProbs) =>
  logProbs[0].map((_, token) => logSumExp(logProbs.map((row) => row[token])) - Math.log(logProbs.length));
