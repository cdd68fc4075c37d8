/**
 * What if: a trace with edits, made in the page from a trace with weights; what `explain(…, edits=…)` gives.
 *
 * The evidence stays as it was before the edits where the shapes still fit; occlusion can be measured again.
 */

import { parseEdit } from 'glassbox/edits.js';
import { Model } from 'glassbox/model.js';
import { named, rowOf } from 'glassbox/numbers.js';
import { logSumExp } from 'glassbox/interpreter.js';
import { search } from 'glassbox/search.js';
import { join, split } from 'glassbox/text.js';
import { Trace } from 'glassbox/trace.js';

const TOP = 10;

/**
 * @param {Trace} base  with weights
 * @param {string[]} words  edits, on top of those that the trace has already
 * @returns {Trace}
 */
export function whatIf(base, words) {
  const edits = [...base.edits, ...words].map(parseEdit);
  check(base, edits);
  const model = new Model(base, edits);
  const ids = sourceIds(base, edits);
  const memory = model.encode(ids, visibleSource(base));
  const searches = searchAgain(base, model, memory, forcedIds(base, edits));
  const { fed, asked } = rowsOf(base, searches.beam.answers[0]);
  const quantities = model.decode(memory, fed);
  checkRows(edits, ids.length, fed.length);
  const contract = editedContract(base, { words, ids, fed, asked, searches, quantities });
  contract.steps = model.stepsOf(quantities);
  const before = rowsOf(base, base.search.beam.answers[0]);
  contract.difference = {
    greedy: outputs(base.search.greedy, searches.greedy),
    beam: outputs(base.search.beam, searches.beam),
    largest: changes(base, model.decode(memory, before.fed)),
  };
  return new Trace(contract, quantities);
}

/** How much each token's log-probability falls without each source token [T S], on the trace as it stands. */
export function occlude(trace) {
  const model = new Model(trace, trace.edits.map(parseEdit));
  const ids = trace.tokens.source.map((token) => token.id);
  const seen = visibleSource(trace);
  const { fed, asked } = rowsOf(trace, trace.search.beam.answers[0]);
  const unknown = trace.evidence.occluded_by === 'mask' ? null : trace.vocabularies.source.specials.unk;
  const scores = (others, visible) => model.tokenScores(model.encode(others, visible), fed, asked);
  const whole = scores(ids, seen);
  const columns = ids.map((_, place) =>
    unknown === null ? scores(ids, seen.with(place, false)) : scores(ids.with(place, unknown), seen),
  );
  const numbers = Float64Array.from({ length: fed.length * ids.length }, (_, i) => {
    const [row, column] = [Math.floor(i / ids.length), i % ids.length];
    return whole[row] - columns[column][row];
  });
  return named(['target', 'source_key'], [fed.length, ids.length], numbers);
}

/** Texts that were put together here, and their ids: they need not be cut again. */
const decoded = new Map();

/** The text that ids of a side make. */
export function decodeIds(trace, side, ids) {
  const { axis, specials } = trace.vocabularies[side];
  const special = new Set(Object.values(specials));
  const pieces = ids.filter((id) => !special.has(id)).map((id) => trace.axes[axis].labels[id]);
  const text = join(trace.provenance.settings.tokens[side], pieces);
  decoded.set(text, ids);
  return text;
}

const visibleSource = (trace) => trace.tokens.source.map((token) => token.kind !== 'pad');

function check(base, edits) {
  const attentions = base.attentions();
  const heads = base.axes.head.length;
  for (const edit of edits) {
    const name = edit.attention ?? (edit.sublayer?.endsWith('.feed_forward') ? null : edit.sublayer);
    if (name && !attentions.includes(name))
      throw new Error(`there is no attention ${name}: there are ${attentions.join(', ')}`);
    if (edit.head >= heads) throw new Error(`there is no head ${edit.head}: there are 0 to ${heads - 1}`);
    const layer = edit.layer ?? edit.sublayer?.replace(/\.[a-z_]+$/, '');
    if (layer && !attentions.some((each) => each.startsWith(`${layer}.`)))
      throw new Error(`there is no layer ${layer}`);
  }
}

function checkRows(edits, sourceRows, targetRows) {
  for (const { kind, attention, row } of edits) {
    const rows = attention?.startsWith('encoder') ? sourceRows : targetRows;
    if (kind === 'row' && row >= rows)
      throw new Error(`there is no row ${row} in ${attention}: there are 0 to ${rows - 1}`);
  }
}

function sourceIds(base, edits) {
  const ids = base.tokens.source.map((token) => token.id);
  const { axis } = base.vocabularies.source;
  for (const { kind, position, text } of edits) {
    if (kind !== 'token') continue;
    const token = base.tokens.source[position];
    if (!token || ['bos', 'eos', 'pad'].includes(token.kind))
      throw new Error(`there is no source token ${position} to edit`);
    const id = base.axes[axis].labels.indexOf(text);
    if (id < 0) throw new Error(`“${text}” is not one token of the source vocabulary`);
    ids[position] = id;
  }
  return ids;
}

function forcedIds(base, edits) {
  const prefix = edits.findLast((edit) => edit.kind === 'prefix');
  if (!prefix) return [];
  const { labels } = base.axes[base.vocabularies.target.axis];
  const settings = base.provenance.settings.tokens.target;
  if (settings.kind === 'subwords' && decoded.has(prefix.text)) return decoded.get(prefix.text);
  return split(settings, prefix.text).map((piece) => {
    const id = labels.indexOf(piece);
    if (id < 0) throw new Error(`the target vocabulary does not have “${piece}”, so that no answer can start so`);
    return id;
  });
}

function searchAgain(base, model, memory, forced) {
  const { specials, axis } = base.vocabularies.target;
  const forbidden = new Set(Object.values(specials).filter((id) => id !== specials.eos));
  const beam = base.search.beam;
  const space = { eos: specials.eos, forbidden, longest: beam.max_new_tokens, forced };
  const texts = { tokenText: (id) => base.axes[axis].labels[id], decode: (ids) => decodeIds(base, 'target', ids) };
  const known = new Map(); // greedy and beam search ask for many of the same
  const next = (ids) => {
    const key = ids.join();
    if (!known.has(key)) known.set(key, model.nextLogProbs(memory, [specials.bos, ...ids]));
    return known.get(key);
  };
  const alpha = beam.length_alpha;
  const best = Math.min(base.provenance.decoding.num_return_sequences ?? 1, beam.num_beams);
  const greedy = search(next, space, { beams: 1, alpha, best: 1 }, texts);
  return {
    greedy,
    beam: beam.num_beams === 1 ? greedy : search(next, space, { beams: beam.num_beams, alpha, best }, texts),
  };
}

/** What the decoder is fed for an answer, and what it is asked for. */
function rowsOf(trace, answer) {
  const { bos, eos } = trace.vocabularies.target.specials;
  const asked = answer.finished ? [...answer.ids, eos] : answer.ids;
  return { fed: [bos, ...asked.slice(0, -1)], asked };
}

function tokensOf(trace, side, ids) {
  const { axis, specials, counts } = trace.vocabularies[side];
  const kinds = new Map(Object.entries(specials).map(([kind, id]) => [id, kind]));
  return ids.map((id) => ({
    id,
    text: trace.axes[axis].labels[id],
    kind: kinds.get(id) ?? 'ordinary',
    count: counts[id] ?? null,
    given: null,
  }));
}

function editedContract(base, { words, ids, fed, asked, searches, quantities }) {
  const given = base.tokens.source;
  const source = tokensOf(base, 'source', ids).map((token, i) => (token.id === given[i].id ? given[i] : token));
  const [targetIn, targetOut] = [tokensOf(base, 'target', fed), tokensOf(base, 'target', asked)];
  const labels = (tokens) => tokens.map((token) => token.text);
  const axis = (name, tokens, predicted = null) => ({
    [name]: {
      ...base.axes[name],
      length: tokens.length,
      labels: labels(tokens),
      predicted: predicted && labels(predicted),
    },
  });
  const fits = fed.length === base.tokens.target_in.length;
  const kept = ([name]) =>
    !quantities.has(name) && !/^gold\.|_edit(ed)?$|_before_edit$/.test(name) && (fits || !name.startsWith('evidence.'));
  return {
    ...base.contract,
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
        .filter((name) => quantities.has(name))
        .map((name) => [name, asked.map((id, row) => predict(base, rowOf(quantities.get(name), row), id))]),
    ),
    search: searches,
    evidence: fits && base.evidence ? { ...base.evidence, before_edits: true } : null,
    edits: [...base.edits, ...words],
    checks: [],
  };
}

/** The ten likeliest tokens of a row of logits, the rank of the one asked for, the margin of the best. */
function predict(base, logits, asked) {
  const { labels } = base.axes[base.vocabularies.target.axis];
  const total = logSumExp(logits);
  const order = Array.from(logits.keys()).sort((one, other) => logits[other] - logits[one]);
  return {
    top: order.slice(0, TOP).map((id) => [id, labels[id], Math.exp(logits[id] - total)]),
    rank: logits.reduce((rank, logit) => rank + (logit > logits[asked]), 1),
    margin: order.length > 1 ? logits[order[0]] - logits[order[1]] : 0,
  };
}

function outputs(before, after) {
  const [one, other] = [before.answers[0], after.answers[0]];
  const [left, right] = [one, other].map((each) => (each.finished ? [...each.ids, -1] : each.ids));
  const length = Math.max(left.length, right.length);
  const first = Array.from({ length }, (_, step) => step).find((step) => left[step] !== right[step]);
  return { before: one, after: other, first_changed_step: first ?? null };
}

/** The largest change of each quantity, with the decoder fed the answer from before. */
function changes(base, quantities) {
  const largest = {};
  for (const [name, value] of quantities) {
    const before = base.tensors[name]?.origin === 'weight' ? null : base.get(name);
    if (before && before.shape.join() === value.shape.join()) {
      largest[name] = value.numbers.reduce(
        (most, number, i) => Math.max(most, Math.abs(number - before.numbers[i])),
        0,
      );
    }
  }
  return largest;
}
