/**
 * Activation patching: the model runs on the own text, with one activation of another text in place of its own: the
 * output of a head, or of a layer, at one position. In both texts the decoder is fed the own answer, up to one step.
 *
 * The logit difference is that of the own output token and of the token that is the most probable one with the other
 * text. The effect of patches is the fraction of it that they move: 0 as with the own text, 1 as with the other one.
 */

import { range } from 'glassbox/core/dom.js';
import { parseEdit, patch } from 'glassbox/model/edits.js';
import { Model } from 'glassbox/model/model.js';
import { indexOfLargest, rowOf } from 'glassbox/core/numbers.js';
import { counterparts, idsOf } from 'glassbox/model/source.js';
import { rowsOf } from 'glassbox/model/whatif.js';

const ENOUGH = 0.95; // of the logit difference: what explains it
const SOURCE = ['text', 'token']; // the edits that make the other text

export const isPatch = (words) => words.startsWith('patch ');
export const isOfSource = (words) => SOURCE.some((kind) => words.startsWith(`${kind} `));

export class Patching {
  /** @param {import('./trace.js').Trace} base  of the own text, with weights  @param {string[]} words  edits of it */
  constructor(base, words, row) {
    const { inputs, targets } = rowsOf(base, base.search.beam.answers[0]);
    this.base = base;
    this.edits = [...base.edits, ...words].filter((edit) => !isPatch(edit)).map(parseEdit);
    this.inputs = inputs.slice(0, row + 1);
    this.model = new Model(base, this.edits.filter(({ kind }) => !SOURCE.includes(kind)));
    const other = new Model(base, this.edits);
    [this.own, this.other] = [this.model, other].map((model) => this.run(model));
    this.positions = counterparts(idsOf(this.model.source), idsOf(other.source));
    const logits = rowOf(this.other.get('logits'), row);
    this.tokens = [targets[row], indexOfLargest(logits)];
    this.differences = [this.own, this.other].map((tensors) => this.difference(tensors));
    this.places = this.placesOf(base, row);
    this.effects = new Map(); // the words of a patch -> its effect
    this.picked = {}; // the patch of each side that was selected last, as a cell of its picture
    this.best = null; // the heads with the largest effects that have enough of it together
  }

  run(model) {
    return model.decode(model.start(), this.inputs);
  }

  /** The logit of the own token minus that of the other one. */
  difference(tensors) {
    const [one, other] = this.tokens.map((id) => rowOf(tensors.get('logits'), this.inputs.length - 1)[id]);
    return one - other;
  }

  /** The effect of patches together. */
  effectOf(patches) {
    const [own, other] = this.differences;
    const patched = this.model.runAgain(this.own, patches, { tensors: this.other, positions: this.positions });
    return (own - this.difference(patched)) / (own - other);
  }

  /** The patches: for each layer, and each head of its attentions, one for each position that both texts have. */
  placesOf(base, row) {
    const parts = ['encoder', 'decoder'].flatMap((side) =>
      range(base.layers(side)).flatMap((i) => {
        const attentions = base.attentions().filter((name) => name.startsWith(`${side}.${i}.`));
        const heads = attentions.flatMap((name) => range(base.axes.head.length).map((head) => [name, head]));
        return [[`${side}.${i}`, null], ...heads];
      }),
    );
    const seen = base.tokens.source.map(({ kind }, i) => kind !== 'pad' && this.positions[i] !== undefined);
    const positions = { encoder: range(seen.length).filter((i) => seen[i]), decoder: range(row + 1) };
    return parts.flatMap(([part, head]) => positions[part.slice(0, 7)].map((at) => patch(part, head, at)));
  }

  /** Measure the effect of each place alone, and then the heads that explain the difference; yields after each model run. */
  *measure() {
    for (const place of this.places) {
      this.effects.set(place.words, this.effectOf([place]));
      yield;
    }
    const heads = this.places.filter(({ head }) => head !== undefined);
    heads.sort((one, other) => this.effects.get(other.words) - this.effects.get(one.words));
    // With all of cross-attention patched the decoder reads nothing else of the source, unless it copies.
    const whole = this.base.stepOf.has('copy_scores') ? this.effectOf(heads) : 1;
    let [few, enough, effect] = [0, heads.length, whole];
    while (enough - few > 1) {
      const middle = Math.floor((few + enough) / 2);
      const found = this.effectOf(heads.slice(0, middle));
      if (found < ENOUGH) few = middle;
      else [enough, effect] = [middle, found];
      yield;
    }
    this.best = { heads: heads.slice(0, enough), effect };
  }
}
