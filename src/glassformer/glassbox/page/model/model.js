/**
 * The model of a trace, run on other ids and with edits. Its program is the steps of the trace: no op depends on the
 * number of positions.
 *
 * @typedef {import('./numbers.js').Named} Named
 * @typedef {Map<string, Named>} Tensors
 */

import { editTensor, editWeights } from 'glassbox/model/edits.js';
import { recompute } from 'glassbox/model/interpreter.js';
import { filled, named, rowOf } from 'glassbox/core/numbers.js';
import { counterparts, editedSource, idsOf, seenOf } from 'glassbox/model/source.js';

const OVERWRITE = {
  op: 'overwrite',
  attributes: {},
  title: 'after the edit',
  formula: '',
  section: '',
  words: 'The edit replaces what was computed.',
};

export class Model {
  /**
   * @param {import('./trace.js').Trace} trace  with weights
   * @param {import('./edits.js').Edit[]} edits
   */
  constructor(trace, edits) {
    this.trace = trace;
    this.edits = edits;
    this.source = editedSource(trace, edits);
    this.other = null; // the model on another text, from which the patches are
    this.after = new Map(); // the steps that a tensor changes
    const weights = trace.names().filter((name) => trace.tensors[name]?.origin === 'weight');
    const valueWidth = trace.axes.d_v.length;
    this.weights = editWeights(new Map(weights.map((name) => [name, trace.get(name)])), edits, valueWidth);
    const program = programOf(trace);
    const later = dependents(
      program,
      (name) => name.startsWith('target.') || /^decoder\.(self|cross)_mask$/.test(name),
    );
    this.encoder = program.filter((step) => !later.has(step));
    this.decoder = program.filter((step) => later.has(step));
    this.shortest = needed(this.decoder, 'log_probs');
    if (edits.some(({ kind }) => kind === 'patch')) this.separate();
  }

  /** With patches the source is that before the edits, and the edited one is where the patches are from. */
  separate() {
    const [own, ids] = [this.trace.tokens.source, this.source].map((tokens) => idsOf(tokens.filter(({ kind }) => kind !== 'pad')));
    if (own.join() === ids.join())
      throw new Error('a patch needs another text that it is taken from: add “text …” or “token 3=x” with the text or token');
    const model = new Model(this.trace, this.edits.filter(({ kind }) => kind !== 'patch'));
    this.other = { model, positions: counterparts(own, ids) };
    this.source = this.trace.tokens.source;
  }

  /** The encoder on the source, after the edits of it. @returns {Tensors} */
  start() {
    return this.encode(idsOf(this.source), seenOf(this.source));
  }

  /** All tensors that depend on the source alone, with the keys and values of cross-attention. @returns {Tensors} */
  encode(ids, seen) {
    const given = [
      ['source.ids', vector('source', ids)],
      ['source.numbers', vector('source', ids.keys())],
      ['encoder.self_mask', filled(['source', 'source_key'], [ids.length, ids.length], hiddenOf(seen))],
    ];
    const found = this.run(this.encoder, given, new Map(this.weights), { seen, other: this.other?.model.start() });
    const copied = found.get('copied_tokens');
    if (copied) found.set('copied_tokens', { ...copied, numbers: copied.numbers.map((id, i) => (seen[i] ? id : -1)) });
    return found;
  }

  /** All tensors of the encoder, and of the decoder with the input `ids`. @returns {Tensors} */
  decode(memory, ids, program = this.decoder) {
    const { seen } = memory;
    const other = this.other?.model.decode(memory.other, ids, program);
    const later = (row, key) => (key > row ? 1 : 0);
    const given = [
      ['target.ids', vector('target', ids)],
      ['target.numbers', vector('target', ids.keys())],
      ['decoder.self_mask', filled(['target', 'target_key'], [ids.length, ids.length], later)],
      ['decoder.cross_mask', filled(['target', 'source_key'], [ids.length, seen.length], hiddenOf(seen))],
    ];
    return this.run(program, given, new Map(memory), { seen, other });
  }

  /** Log-probabilities [V] of the token after the decoder input `ids`. */
  nextLogProbs(memory, ids) {
    return rowOf(this.decode(memory, ids, this.shortest).get('log_probs'), ids.length - 1);
  }

  /** The log-probability of each target. */
  tokenScores(memory, inputs, targets) {
    const logProbs = this.decode(memory, inputs, this.shortest).get('log_probs');
    return targets.map((id, row) => rowOf(logProbs, row)[id]);
  }

  /**
   * @param {{seen: boolean[], other: Tensors|undefined}} more  which source tokens are seen, and the run of the other text
   * @param {(step, value: Named) => Named} keepKeys  what the keys and values of self-attention become
   * @returns {Tensors}
   */
  run(program, given, known, more, keepKeys = (_, value) => value) {
    Object.assign(known, more);
    for (const [name, value] of given) known.set(name, editTensor(name, value, this.edits));
    for (const step of program) {
      const inputs = step.inputs.map((name) => known.get(name) ?? this.constant(name, known));
      const value = recompute(step, inputs);
      this.keep(known, step.output, step.attributes.as_keys ? keepKeys(step, value) : value);
    }
    return known;
  }

  /** A run with patches from `other`, of which only the last row of the logits is computed. @returns {Tensors} */
  runAgain(before, patches, other) {
    const edits = [...this.edits, ...patches];
    const names = new Set(patches.map(({ tensor }) => tensor));
    const key = [...names].join();
    if (!this.after.has(key)) {
      const all = [...this.encoder, ...this.decoder];
      const later = dependents(all, (name) => names.has(name));
      this.after.set(key, lastRowOf(needed(all, 'logits')).filter((step) => later.has(step.of)));
    }
    const known = new Map(before);
    for (const name of names) known.set(name, editTensor(name, before.get(name), edits, other));
    for (const step of this.after.get(key)) {
      const { inputs, output, isLast } = step;
      const as = this.weights.has(inputs[1]) ? { x: before.get(inputs[0]), output: before.get(output), isLast } : undefined;
      known.set(output, editTensor(output, recompute(step, inputs.map((name) => known.get(name)), as), edits, other));
    }
    return known;
  }

  /** Keep a computed tensor. Of an edited one, keep the computed value, the edited value, and the cells that differ. */
  keep(known, name, value) {
    const edited = editTensor(name, value, this.edits, this.other && { ...this.other, tensors: known.other });
    known.set(name, edited);
    if (edited === value) return;
    known.set(`${name}_before_edit`, value);
    known.set(`${name}_edit`, edited);
    const differs = value.numbers.map((number, i) => Number(number !== edited.numbers[i]));
    known.set(`${name}_edited`, named(value.axes, value.shape, differs));
  }

  /** The steps that computed these tensors. @param {Tensors} tensors */
  stepsOf(tensors) {
    return [...this.encoder, ...this.decoder].flatMap((step) => {
      const before = `${step.output}_before_edit`;
      if (!tensors.has(before)) return [{ ...step, id: step.output }];
      const inputs = [before, `${step.output}_edit`, `${step.output}_edited`];
      return [
        { ...step, id: before, output: before },
        { ...OVERWRITE, id: step.output, output: step.output, inputs },
      ];
    });
  }

  /** A scale: it is given, and does not depend on the text. */
  constant(name, known) {
    const value = editTensor(name, this.trace.get(name), this.edits);
    known.set(name, value);
    return value;
  }
}

/**
 * The decoder one token at a time: it keeps the keys and values of the tokens before, those of all hypotheses together,
 * and a mask says which of them are of a hypothesis. Only without edits of rows.
 */
export class CachedDecoder {
  /** @param {Model} model @param {Tensors} memory  of one source */
  constructor(model, memory) {
    Object.assign(this, { model, memory });
    this.paths = new Map([['', []]]); // ids of a decoder input, joined -> its columns of the cache
    this.cache = new Map(); // keys and values by name
  }

  /** Log-probabilities [V] after each decoder input: of one length, each the extension of one of the call before. */
  nextLogProbs(inputs) {
    const before = inputs.map((ids) => this.paths.get(ids.slice(0, -1).join()));
    const kept = [...new Set(before.flat())]; // the others are of hypotheses that were pruned
    const placeOf = new Map(kept.map((column, i) => [column, i]));
    const paths = before.map((path, row) => [...path.map((column) => placeOf.get(column)), kept.length + row]);
    this.paths = new Map(inputs.map((ids, row) => [ids.join(), paths[row]]));
    const seen = paths.map((path) => new Set(path));
    const rows = inputs.length;
    const { seen: sourceSeen } = this.memory;
    const given = [
      ['target.ids', vector('target', inputs.map((ids) => ids.at(-1)))],
      ['target.numbers', vector('target', inputs.map((ids) => ids.length - 1))],
      ['decoder.self_mask', filled(['target', 'target_key'], [rows, kept.length + rows], (row, key) => (seen[row].has(key) ? 0 : 1))],
      ['decoder.cross_mask', filled(['target', 'source_key'], [rows, sourceSeen.length], hiddenOf(sourceSeen))],
    ];
    const joined = (step, value) => {
      const all = withRows(this.cache.get(step.output), kept, value);
      this.cache.set(step.output, all);
      return all;
    };
    const found = this.model.run(this.model.shortest, given, new Map(this.memory), { seen: sourceSeen }, joined);
    return inputs.map((_, row) => rowOf(found.get('log_probs'), row));
  }
}

/** Rows of x [h r d], if there is one, and after them all of y. */
function withRows(x, rows, y) {
  const [heads, added, width] = y.shape;
  const length = rows.length + added;
  const found = named(y.axes, [heads, length, width]);
  for (let head = 0; head < heads; head += 1) {
    const to = head * length * width;
    rows.forEach((row, i) => {
      const from = (head * x.shape[1] + row) * width;
      found.numbers.set(x.numbers.subarray(from, from + width), to + i * width);
    });
    found.numbers.set(y.numbers.subarray(head * added * width, (head + 1) * added * width), to + rows.length * width);
  }
  return found;
}

/** The reason code of each cell of a mask: 2 where the key is padding. */
const hiddenOf = (seen) => (_, key) => (seen[key] ? 0 : 2);

const vector = (axis, numbers) => {
  const listed = Float64Array.from(numbers);
  return named([axis], [listed.length], listed);
};

/** The steps that compute the output, as they are without edits. */
function programOf(trace) {
  return trace.steps
    .filter((step) => step.op !== 'overwrite' && !step.output.startsWith('gold.'))
    .map((step) => ({ ...step, output: step.output.replace(/_before_edit$/, '') }));
}

/** The steps that depend, directly or not, on a tensor for which `isFirst` holds. */
function dependents(program, isFirst) {
  const names = new Set();
  const found = new Set();
  for (const step of program) {
    if (step.inputs.some((name) => isFirst(name) || names.has(name))) {
      names.add(step.output);
      found.add(step);
    }
  }
  return found;
}

/** The steps that are needed to compute `name`. */
function needed(program, name) {
  const names = new Set([name]);
  return program
    .toReversed()
    .filter((step) => {
      if (!names.has(step.output)) return false;
      step.inputs.forEach((input) => names.add(input));
      return true;
    })
    .toReversed();
}

/** The steps, each with whether only its last row is needed for the last row of the output of the last one. */
function lastRowOf(program) {
  const whole = new Set(); // keys and values, and what they are computed from
  return program
    .toReversed()
    .map((step) => {
      const isLast = !whole.has(step.output);
      const others = isLast ? step.inputs.slice(1).filter(() => /^(matmul|linear)/.test(step.op)) : step.inputs;
      for (const name of others) whole.add(name);
      return { ...step, isLast, of: step };
    })
    .toReversed();
}
