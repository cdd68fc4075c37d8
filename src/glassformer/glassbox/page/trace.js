/**
 * A trace, opened: numbers and labels by name, and each step redone from the numbers that are shown.
 *
 * @typedef {import('./numbers.js').Named} Named
 * @typedef {{passed: boolean|null, largest: number, note: string}} Verdict  null: cannot be redone here
 */

import { redo } from 'glassbox/interpreter.js';
import { decode } from 'glassbox/numbers.js';

export const TOLERANCE = 1e-5;

export class Trace {
  /**
   * @param contract  a glassformer-trace/1
   * @param {Map<string, Named>} computed  what the page computed itself, in place of `contract.tensors`
   */
  constructor(contract, computed = new Map()) {
    Object.assign(this, contract);
    this.contract = contract;
    this.opened = computed;
    this.verdicts = new Map();
    this.stepOf = new Map(contract.steps.map((step) => [step.output, step]));
    this.mislabelled = this.findMislabelled();
  }

  has(name) {
    return this.opened.has(name) || Object.hasOwn(this.tensors, name);
  }

  /** @returns {Named|null} */
  get(name) {
    if (!this.has(name)) return null;
    if (!this.opened.has(name)) this.opened.set(name, decode(this.tensors[name], this.axes));
    return this.opened.get(name);
  }

  names() {
    return [...new Set([...this.opened.keys(), ...Object.keys(this.tensors)])];
  }

  get hasWeights() {
    return this.stepOf.get('logits').inputs.every((name) => this.has(name));
  }

  usersOf(name) {
    return this.steps.filter((step) => step.inputs.includes(name));
  }

  /** The text of a place on an axis: a token, the token fed → the one asked for, or nothing. */
  label(axis, place) {
    const { labels = [], predicted } = this.axes[axis] ?? {};
    if (place >= labels.length) return '';
    return predicted ? `${visible(labels[place])} → ${visible(predicted[place])}` : visible(labels[place]);
  }

  /** @returns {Verdict} */
  verdict(name) {
    if (!this.verdicts.has(name)) this.verdicts.set(name, this.judge(this.stepOf.get(name)));
    return this.verdicts.get(name);
  }

  judge(step) {
    if (!step) return { passed: null, largest: 0, note: 'given, not computed' };
    const mislabelled = this.get(step.output).axes.filter((axis) => this.mislabelled.has(axis));
    if (mislabelled.length) {
      return { passed: false, largest: 0, note: `the labels of ${mislabelled.join(', ')} are not the tokens` };
    }
    const missing = step.inputs.filter((name) => !this.has(name));
    if (missing.length) return { passed: null, largest: 0, note: `not in this file: ${missing.join(', ')}` };
    try {
      return compare(
        redo(
          step,
          step.inputs.map((name) => this.get(name)),
        ),
        this.get(step.output),
      );
    } catch (error) {
      return { passed: false, largest: 0, note: error.message };
    }
  }

  /** Axes of positions whose labels are not the tokens. @returns {Set<string>} */
  findMislabelled() {
    const { source, target_in: fed, target_out: asked, gold_in: goldFed, gold } = this.tokens;
    const sides = [
      ['source', source, null],
      ['target', fed, asked],
    ];
    if (goldFed) sides.push(['gold_target', goldFed, gold]);
    const same = (labels, tokens) => (labels ?? []).join('\n') === (tokens ?? []).map((token) => token.text).join('\n');
    return new Set(
      sides.flatMap(([name, labels, predicted]) => {
        const fits = (axis, asks) => same(this.axes[axis].labels, labels) && same(this.axes[axis].predicted, asks);
        return [fits(name, predicted) ? '' : name, fits(`${name}_key`, null) ? '' : `${name}_key`].filter(Boolean);
      }),
    );
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

/** @returns {Verdict} */
function compare(redone, recorded) {
  if (redone.axes.join() !== recorded.axes.join()) {
    return {
      passed: false,
      largest: 0,
      note: `its axes are recorded as ${recorded.axes.join(', ')}; they are ${redone.axes.join(', ')}`,
    };
  }
  if (redone.shape.join() !== recorded.shape.join()) {
    return {
      passed: false,
      largest: 0,
      note: `it is ${recorded.shape.join(' × ')}; redone, ${redone.shape.join(' × ')}`,
    };
  }
  let [size, largest] = [1, 0];
  redone.numbers.forEach((number, i) => {
    size = Math.max(size, Math.abs(number));
    largest = Math.max(largest, Math.abs(number - recorded.numbers[i]));
  });
  largest /= size;
  return { passed: largest <= TOLERANCE, largest, note: '' };
}

/** White space that can be seen; everything else is as it is. */
export const visible = (text) => text.replaceAll(' ', '␣').replaceAll('\n', '⏎').replaceAll('\t', '⇥');
