/**
 * What if: the trace of a model with edits, computed from a trace with weights, as `explain(…, edits=…)` does.
 *
 * The evidence is that of the model before the edits where the shapes match; attention and occlusion can be recomputed.
 */

import { range } from 'glassbox/core/dom.js';
import { editsBesideWeights, parseEdit } from 'glassbox/model/edits.js';
import { Model } from 'glassbox/model/model.js';
import { filled, rowOf } from 'glassbox/core/numbers.js';
import { logSumExp } from 'glassbox/model/interpreter.js';
import { search } from 'glassbox/model/search.js';
import { cannotReplace, encode, seenOf, specialIds, tokensOf } from 'glassbox/model/source.js';
import { cellsOf, readable } from 'glassbox/tokenizer/source.js';
import { Trace } from 'glassbox/model/trace.js';

const TOP = 10;

/**
 * @param {Trace} base  with weights
 * @param {string[]} words  edits, in addition to those of the trace
 * @returns {Trace}
 */
export function whatIf(base, words) {
  const edits = [...base.edits, ...words].map(parseEdit);
  check(base, edits);
  const model = new Model(base, edits);
  const { memory, contract, tensors } = computed(base, model, forcedIds(base, edits), words);
  checkRows(edits, contract.tokens);
  const difference = {
    greedy: outputs(base.search.greedy, contract.search.greedy),
    beam: outputs(base.search.beam, contract.search.beam),
  };
  const trace = new Trace({ ...contract, difference }, tensors);
  trace.sameRows = model.decode(memory, rowsOf(base, base.search.beam.answers[0]).inputs); // as before the edits
  return trace;
}

/** The search for an answer of a model, and all tensors of the answer. */
function computed(base, model, forced, words) {
  const { source } = model;
  const memory = model.start();
  const searches = searchAgain(base, model, memory, forced);
  const { inputs, targets } = rowsOf(base, searches.beam.answers[0]);
  const tensors = model.decode(memory, inputs);
  const contract = editedContract(base, { words, source, inputs, targets, searches, tensors });
  return { memory, tensors, contract: { ...contract, steps: model.stepsOf(tensors) } };
}

/**
 * The trace of another text. Throws an error in words for one that the model does not take.
 *
 * @param {Trace} base  with weights
 * @param {string|string[]} source  a text, or the cells of several inputs
 * @param {number} beams  beam width; 1: greedy search
 * @returns {Trace}
 */
export function traceText(base, source, beams) {
  const { beam } = base.search;
  const { training } = base;
  const { inputs } = base.tokenizer('source');
  const cells = cellsOf(source);
  const contract = {
    ...base.contract,
    text: readable(inputs, source),
    inputs: inputs && Object.fromEntries(inputs.map(({ name }, i) => [name, cells[i]])),
    tokens: { ...base.tokens, source: encode(base, source) },
    tensors: Object.fromEntries(Object.entries(base.tensors).filter(([name]) => !name.startsWith('evidence.'))),
    evidence: null,
    training: training && { ...training, checkpoints: [] }, // they translated the text of the file
    notices: [],
  };
  const start = new Trace({ ...contract, search: { ...base.search, beam: { ...beam, num_beams: beams } } }, base.opened);
  const { contract: found, tensors } = computed(start, new Model(start, []), [], []);
  return new Trace(found, tensors);
}

/** The decrease of each output token's log-probability when a source token is occluded [T S], `by` the mask or <unk>. */
export function occlude(trace, by = trace.evidence.occluded_by) {
  const model = new Model(trace, editsBesideWeights(trace));
  const ids = trace.tokens.source.map((token) => token.id);
  const seen = visibleSource(trace);
  const { inputs, targets } = rowsOf(trace, trace.search.beam.answers[0]);
  const unknown = by === 'mask' ? null : trace.vocabularies.source.specials.unk;
  const scores = (others, visible) => model.tokenScores(model.encode(others, visible), inputs, targets);
  const whole = scores(ids, seen);
  const columns = ids.map((_, position) =>
    unknown === null ? scores(ids, seen.with(position, false)) : scores(ids.with(position, unknown), seen),
  );
  const fall = (row, column) => whole[row] - columns[column][row];
  return filled(['target', 'source_key'], [inputs.length, ids.length], fall);
}

/** Texts that were joined from ids in this page, with their ids: they need not be split again. */
const decoded = new Map();

/** The text of the ids of a side. */
export function decodeIds(trace, side, ids) {
  const text = trace.tokenizer(side).decode(ids);
  decoded.set(text, ids);
  return text;
}

export const visibleSource = (trace) => seenOf(trace.tokens.source);

function check(base, edits) {
  const attentions = base.attentions();
  const heads = base.axes.head.length;
  for (const edit of edits) {
    if (edit.kind === 'text' && cannotReplace(base)) throw new Error(`there is no other text: ${cannotReplace(base)}`);
    const name = edit.attention ?? (edit.sublayer?.endsWith('.feed_forward') ? null : edit.sublayer);
    if (name && !attentions.includes(name))
      throw new Error(`there is no attention ${name}; valid names: ${attentions.join(', ')}`);
    if (edit.head >= heads) throw new Error(`there is no head ${edit.head}; valid heads: 0 to ${heads - 1}`);
    const layer = edit.layer ?? edit.sublayer?.replace(/\.[a-z_]+$/, '');
    if (layer && !attentions.some((attention) => attention.startsWith(`${layer}.`)))
      throw new Error(`there is no layer ${layer}`);
  }
}

function checkRows(edits, { source, target_in: inputs }) {
  for (const { attention, layer, row } of edits) {
    const rows = ((attention ?? layer)?.startsWith('encoder') ? source : inputs).length;
    if (row >= rows) throw new Error(`there is no row ${row} in ${attention ?? layer}; valid rows: 0 to ${rows - 1}`);
  }
}

function forcedIds(base, edits) {
  const prefix = edits.findLast((edit) => edit.kind === 'prefix');
  if (!prefix) return [];
  const tokenizer = base.tokenizer('target');
  if (['subwords', 'sentencepiece'].includes(tokenizer.kind) && decoded.has(prefix.text)) return decoded.get(prefix.text);
  return tokenizer.tokens(prefix.text).map(({ id, unknown }) => {
    if (unknown !== null) throw new Error(`“${unknown}” is not in the target vocabulary, so no answer can start with this prefix`);
    return id;
  });
}

function searchAgain(base, model, memory, forced) {
  const { specials, axis } = base.vocabularies.target;
  const forbidden = specialIds(base.vocabularies.target);
  forbidden.delete(specials.eos);
  const beam = base.search.beam;
  const constraints = { eos: specials.eos, forbidden, maxNewTokens: beam.max_new_tokens, forced };
  const texts = { tokenText: (id) => base.axes[axis].labels[id], decode: (ids) => decodeIds(base, 'target', ids) };
  const known = new Map(); // greedy and beam search share many prefixes
  const nextOf = (ids) => {
    const key = ids.join();
    if (!known.has(key)) known.set(key, model.nextLogProbs(memory, [specials.bos, ...ids]));
    return known.get(key);
  };
  const next = (prefixes) => prefixes.map(nextOf);
  const alpha = beam.length_alpha;
  const best = Math.min(base.provenance.decoding.num_return_sequences ?? 1, beam.num_beams);
  const greedy = search(next, constraints, { beams: 1, alpha, best: 1 }, texts);
  return {
    greedy,
    beam: beam.num_beams === 1 ? greedy : search(next, constraints, { beams: beam.num_beams, alpha, best }, texts),
  };
}

/** The decoder input of an answer, and its targets: the same tokens, shifted by one. */
export function rowsOf(trace, answer) {
  const { bos, eos } = trace.vocabularies.target.specials;
  const targets = answer.finished ? [...answer.ids, eos] : answer.ids;
  return { inputs: [bos, ...targets.slice(0, -1)], targets };
}

function editedContract(base, { words, source, inputs, targets, searches, tensors }) {
  const [targetIn, targetOut] = [tokensOf(base, 'target', inputs), tokensOf(base, 'target', targets)];
  const labels = (tokens) => tokens.map((token) => token.text);
  const axis = (name, tokens, predicted = null) => ({
    [name]: {
      ...base.axes[name],
      length: tokens.length,
      labels: labels(tokens),
      predicted: predicted && labels(predicted),
    },
  });
  const fits = inputs.length === base.tokens.target_in.length && source.length === base.tokens.source.length;
  const kept = ([name, { origin }]) =>
    origin === 'weight' || // an edit of this trace finds its weights by it
    (!tensors.has(name) && !/^gold\.|_edit(ed)?$|_before_edit$/.test(name) && (fits || !name.startsWith('evidence.')));
  return {
    ...base.contract,
    confidence: null,
    translation: searches.beam.answers[0].text,
    target: null,
    tokens: { source, target_in: targetIn, target_out: targetOut, gold_in: null, gold: null },
    axes: {
      ...base.axes,
      ...axis('source', source),
      ...axis('source_key', source),
      ...axis('target', targetIn, targetOut),
      ...axis('target_key', targetIn),
    },
    tensors: Object.fromEntries(Object.entries(base.tensors).filter(kept)),
    predictions: Object.fromEntries(
      Object.keys(base.predictions)
        .filter((name) => tensors.has(name))
        .map((name) => [name, targets.map((id, row) => predict(base, rowOf(tensors.get(name), row), id))]),
    ),
    search: searches,
    evidence: fits && base.evidence ? { ...base.evidence, before_edits: true } : null,
    edits: [...base.edits, ...words],
  };
}

/** The ten most probable tokens of a row of logits, the rank of the target, and the margin of the best token. */
function predict(base, logits, target) {
  const { labels } = base.axes[base.vocabularies.target.axis];
  const total = logSumExp(logits);
  const order = Array.from(logits.keys()).sort((one, other) => logits[other] - logits[one]);
  return {
    top: order.slice(0, TOP).map((id) => [id, labels[id], Math.exp(logits[id] - total)]),
    rank: logits.reduce((rank, logit) => rank + (logit > logits[target]), 1),
    margin: order.length > 1 ? logits[order[0]] - logits[order[1]] : 0,
  };
}

function outputs(before, after) {
  const [one, other] = [before.answers[0], after.answers[0]];
  const [left, right] = [one, other].map(({ finished, ids }) => (finished ? [...ids, -1] : ids));
  const length = Math.max(left.length, right.length);
  const first = range(length).find((step) => left[step] !== right[step]);
  return { before: one, after: other, first_changed_step: first ?? null };
}
