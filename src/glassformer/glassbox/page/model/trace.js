/**
 * A trace: its numbers and labels by name, and each step recomputed from the recorded numbers.
 *
 * @typedef {import('./numbers.js').Named} Named
 * @typedef {{passed: boolean|null, largest: number, note: string}} Verdict  null: cannot be recomputed here
 */

import { logSumExp, recompute } from 'glassbox/model/interpreter.js';
import { isolated } from 'glassbox/core/dom.js';
import { readTensor, rowOf } from 'glassbox/core/numbers.js';
import { specialIds } from 'glassbox/model/source.js';
import { Tokenizer } from 'glassbox/tokenizer/text.js';

export const TOLERANCE = 1e-5;

const tokenizers = new WeakMap(); // as a trace has it -> with its pieces

export class Trace {
  /**
   * @param contract  a glassformer-trace/1
   * @param {Map<string, Named>} computed  tensors that the page computed; they replace those of `contract.tensors`
   */
  constructor(contract, computed = new Map()) {
    Object.assign(this, contract);
    this.contract = contract;
    this.opened = computed;
    this.verdicts = new Map();
    this.derived = new Map();
    this.stepOf = new Map(contract.steps.map((step) => [step.output, step]));
    this.mislabeled = this.findMislabeled();
  }

  has(name) {
    return this.isStored(name) || this.isDerived(name);
  }

  isStored(name) {
    return this.opened.has(name) || Object.hasOwn(this.tensors, name);
  }

  /** Whether the tensor is neither in the trace nor given as computed, and its step has all of its inputs. */
  isDerived(name) {
    if (!this.derived.has(name)) {
      this.derived.set(name, false); // while its inputs are examined
      const step = this.isStored(name) ? null : this.stepOf.get(name);
      this.derived.set(name, Boolean(step?.inputs.every((input) => this.has(input))));
    }
    return this.derived.get(name);
  }

  /** @returns {Named|null} */
  get(name) {
    if (!this.has(name)) return null;
    const open = () =>
      this.isDerived(name) ? this.recomputed(this.stepOf.get(name)) : readTensor(this.tensors[name], this.axes);
    if (!this.opened.has(name)) this.opened.set(name, open());
    return this.opened.get(name);
  }

  recomputed(step) {
    return recompute(step, step.inputs.map((input) => this.get(input)));
  }

  /** What splits and joins the texts of a side. @returns {Tokenizer} */
  tokenizer(side) {
    const { axis, inputs, tokenizer } = this.vocabularies[side];
    if (!tokenizers.has(tokenizer)) {
      const special = specialIds({ specials: tokenizer.specials, inputs });
      const pieces = this.axes[axis].labels.filter((_, id) => !special.has(id));
      tokenizers.set(tokenizer, new Tokenizer({ ...tokenizer, pieces }));
    }
    return tokenizers.get(tokenizer);
  }

  /** The probability of a token in a row of logits; where they are not in the trace that of the ten most probable ones, else null. */
  probabilityOf(logits, row, id) {
    const x = this.get(logits);
    if (x) return Math.exp(rowOf(x, row)[id] - logSumExp(rowOf(x, row)));
    return this.predictions[logits][row].top.find(([token]) => token === id)?.[2] ?? null;
  }

  names() {
    return [...new Set([...this.opened.keys(), ...Object.keys(this.tensors)])];
  }

  get hasWeights() {
    return this.stepOf.get(this.projected('logits')).inputs.every((name) => this.has(name));
  }

  /** The product of the hidden states and the output matrix: the logits, or what a copy mechanism adds its scores to. */
  projected(logits) {
    const { op, inputs } = this.stepOf.get(logits);
    return op === 'add_copies' ? inputs[0] : logits;
  }

  usersOf(name) {
    return this.steps.filter((step) => step.inputs.includes(name));
  }

  /** The label of an index on an axis: a token, of a decoder row "decoder input → target", or nothing. */
  label(axis, index) {
    const { labels = [], predicted } = this.axes[axis] ?? {};
    if (index >= labels.length) return '';
    return predicted ? `${isolated(visible(labels[index]))} → ${isolated(visible(predicted[index]))}` : visible(labels[index]);
  }

  /** @returns {Verdict} */
  verdict(name) {
    if (!this.verdicts.has(name)) this.verdicts.set(name, this.judge(this.stepOf.get(name)));
    return this.verdicts.get(name);
  }

  judge(step) {
    if (!step) return unknown('given, not computed');
    if (!this.has(step.output)) return unknown('not in this page');
    if (this.isDerived(step.output)) return unknown('computed by this page, because the file does not have the numbers');
    const mislabeled = this.get(step.output).axes.filter((axis) => this.mislabeled.has(axis));
    if (mislabeled.length) return wrong(`the labels of ${mislabeled.join(', ')} are not the tokens`);
    const missing = step.inputs.filter((name) => !this.has(name));
    if (missing.length) return unknown(`not in this page: ${missing.join(', ')}`);
    try {
      return compare(this.recomputed(step), this.get(step.output));
    } catch (error) {
      return wrong(error.message);
    }
  }

  /** Axes of positions whose labels are not the tokens. @returns {Set<string>} */
  findMislabeled() {
    const { source, target_in: inputs, target_out: outputs, gold_in: goldInputs, gold } = this.tokens;
    const expected = { source: [source], source_key: [source], target: [inputs, outputs], target_key: [inputs] };
    if (goldInputs) Object.assign(expected, { gold_target: [goldInputs, gold], gold_target_key: [goldInputs] });
    const same = (labels, tokens) => (labels ?? []).join('\n') === (tokens ?? []).map(({ text }) => text).join('\n');
    const isWrong = (axis, [labels, predicted]) => !same(this.axes[axis].labels, labels) || !same(this.axes[axis].predicted, predicted);
    return new Set(Object.keys(expected).filter((axis) => isWrong(axis, expected[axis])));
  }

  attentions() {
    return this.steps
      .filter((step) => step.op === 'softmax' && !step.output.startsWith('gold.'))
      .map((step) => step.output.replace(/\.weights(_before_edit)?$/, ''));
  }

  /** Layers of a stack, "encoder" or "decoder". */
  layers(stack) {
    return new Set(
      this.attentions()
        .filter((name) => name.startsWith(stack))
        .map((name) => name.split('.')[1]),
    ).size;
  }

  get isPreNorm() {
    return this.provenance.settings.model.norm === 'pre';
  }
}

const unknown = (note) => ({ passed: null, largest: 0, note });
const wrong = (note) => ({ passed: false, largest: 0, note });

/** @returns {Verdict} */
function compare(recomputed, recorded) {
  if (recomputed.axes.join() !== recorded.axes.join())
    return wrong(`its axes are recorded as ${recorded.axes.join(', ')}; they are ${recomputed.axes.join(', ')}`);
  if (recomputed.shape.join() !== recorded.shape.join())
    return wrong(`its shape is recorded as ${recorded.shape.join(' × ')}; it is ${recomputed.shape.join(' × ')}`);
  let [size, largest] = [1, 0];
  recomputed.numbers.forEach((number, i) => {
    size = Math.max(size, Math.abs(number));
    largest = Math.max(largest, Math.abs(number - recorded.numbers[i]));
  });
  largest /= size;
  return { passed: largest <= TOLERANCE, largest, note: '' };
}

/** The tokens of a side that are not special, each with its training count. */
export function ordinary(trace, side) {
  const { axis, counts, specials } = trace.vocabularies[side];
  const special = new Set(Object.values(specials));
  const all = trace.axes[axis].labels.map((text, id) => ({ id, text, count: counts[id] }));
  return all.filter(({ id }) => !special.has(id));
}

/** The text with visible white space. */
export const visible = (text) => text.replaceAll(' ', '␣').replaceAll('\n', '⏎').replaceAll('\t', '⇥');
