/**
 * The state of the page: the trace, the selected part of it, the edits. Panels read it and change it with `set`.
 *
 * `part` is a part of the architecture: "source", "encoder.0.self", "decoder.1.feed_forward", "decoder_norm", "logits".
 * What is in the address is listed in address.js.
 */

import { defaults, isStep, link } from 'glassbox/shell/address.js';
import { drawn } from 'glassbox/core/dom.js';
import { changeBetween } from 'glassbox/core/numbers.js';
import { counterparts, idsOf } from 'glassbox/model/source.js';
import { whatIf } from 'glassbox/model/whatif.js';
import { Trace } from 'glassbox/model/trace.js';

/** @typedef {import('./numbers.js').Named} Named */

const QUIET = ['tensor', 'cell', 'terms']; // shown in the inspector only
const KEPT = 8; // traces that Back finds without computing them again

export class App {
  /** @param contract  a glassformer-trace/1, or a Trace  @param server  see server.js, or null in a file */
  constructor(contract, server = null) {
    this.first = contract instanceof Trace ? contract : new Trace(contract); // that of the page
    this.base = this.first; // of the text that is shown, without edits
    this.edited = null; // with the edits, if there are any
    this.server = server;
    this.words = this.made = []; // the edits, and those of the trace that is shown
    this.typed = null; // another text in a field, or inputs, before it is the one that is shown
    this.problem = '';
    this.notice = '';
    this.busy = ''; // what is computed now
    this.canStop = false;
    this.home = null; // a link to the page around this one
    this.complete = (trace) => trace; // with what that page knows besides
    this.opener = null; // of the inspector, which gets the focus when it is closed
    this.timer = 0; // of the steps that are not recomputed yet
    this.turn = 0; // of the last computation; the results of earlier ones are dropped
    this.known = new Map();
    this.movingUntil = 0; // when the opening of the story is over, in the time of `performance`
    this.windows = new Map();
    this.notify = () => {}; // draws the page, see view.js
    const cross = this.base.attentions().at(-1);
    this.defaults = { ...defaults(), part: cross, attention: cross };
    this.state = { panel: 'tokens', ...this.defaults, tensor: null, cell: null };
  }

  /** The trace that is shown: with the edits, unless the user compares it with the one before them. */
  get trace() {
    return this.state.compare === 'after' ? (this.edited ?? this.base) : this.base;
  }

  /** Change the state. Changes that concern only the inspector do not redraw the panel. */
  set(changes) {
    const before = this.state;
    if ('question' in changes) Object.assign(changes, { band: null, tensor: null, cell: null }); // of the screen before
    const part = changes.part ?? before.part;
    const attention = changes.attention ?? (/\.(self|cross)$/.test(part) ? part : before.attention);
    this.state = { ...before, ...changes, attention };
    if ('compare' in changes) {
      this.state.gold &&= Boolean(this.trace.tokens.gold);
      this.dropSelection();
    }
    this.notify(Object.keys(changes).every((key) => QUIET.includes(key)), isStep(before, this.state));
  }

  /** The address of the page with these changes of its state. */
  link(changes = {}) {
    return link(this, changes);
  }

  /** Select a cell of a tensor, or with null the whole tensor. `opener` is the key of the button that selected it. */
  pick(tensor, cell, opener = null) {
    this.opener = opener;
    this.set({ tensor, cell });
  }

  /** The name of a tensor: with "gold." where the target is selected. */
  name(tensor) {
    const gold = `gold.${tensor}`;
    return this.state.gold && this.trace.has(gold) ? gold : tensor;
  }

  /** The decoder input, the targets of its rows, and the kind of the targets: output tokens or target tokens. */
  get rows() {
    const { target_in: outputInputs, target_out: outputs, gold_in: goldInputs, gold } = this.trace.tokens;
    return this.state.gold && gold
      ? { inputs: goldInputs, targets: gold, kind: 'target token' }
      : { inputs: outputInputs, targets: outputs, kind: 'output token' };
  }

  get row() {
    return Math.min(this.state.row, this.rows.inputs.length - 1);
  }

  /** Whether edits are available: in the page if it has the weights, or from the server. */
  get canEdit() {
    return this.base.hasWeights || this.server !== null;
  }

  /** Another trace, without edits, in a state with these changes. @param {boolean} isNew  Back returns to the one before */
  open(contract, changes = {}, isNew = true) {
    this.base = contract instanceof Trace ? contract : new Trace(contract);
    this.edited = this.typed = null;
    this.words = this.made = [];
    this.problem = '';
    this.state = { ...this.state, row: 0, column: 0, gold: false, compare: 'after', tensor: null, cell: null, ...changes };
    this.notify(false, isNew);
  }

  toggleEdit(words) {
    return this.edit(
      this.words.includes(words) ? this.words.filter((other) => other !== words) : [...this.words, words],
    );
  }

  /** Compute something in place of what is computed now. @returns {number} its turn: results of another turn are dropped */
  begin(busy, isAsked = true, words = this.made) {
    this.server?.stop();
    Object.assign(this, { busy, words });
    this.canStop = this.server !== null && isAsked;
    return (this.turn += 1);
  }

  /** What `make` computes, or its error; null where something else is computed by then. */
  async compute(busy, make, isAsked = true, words = this.made) {
    const turn = this.begin(busy, isAsked, words);
    this.notify(false, null);
    const found = await make().catch((error) => error);
    if (turn !== this.turn) return null;
    this.busy = '';
    return found;
  }

  /** The trace with these edits. An edit that is not valid changes nothing, and `problem` has the reason. */
  async edit(words, isNew = true) {
    this.problem = '';
    const make = async () => (words.length ? this.withEdits(words) : this.base);
    const found = await this.compute('computing …', make, !this.base.hasWeights, words);
    if (!found) return;
    if (found instanceof Error) Object.assign(this, { words: this.made, problem: found.message });
    else Object.assign(this, { edited: words.length ? found : null, made: words });
    this.state = { ...this.state, compare: this.edited ? this.state.compare : 'after', gold: false };
    this.dropSelection();
    this.notify(false, isNew && !this.problem);
  }

  /** A tensor or a cell that the trace does not have is not selected any more. */
  dropSelection() {
    const { tensor, cell } = this.state;
    const shape = this.trace.has(tensor) ? this.trace.get(tensor).shape : [];
    if (!this.trace.has(tensor)) this.state.tensor = null;
    if (cell && (cell.length !== shape.length || cell.some((index, axis) => index >= shape[axis]))) this.state.cell = null;
  }

  /** What the edits changed in a tensor; null where the positions of the decoder differ. @returns {Named|null} */
  changeOf(name) {
    const [before, after] = [this.base.get(name), this.edited?.sameRows?.get(name) ?? this.edited?.get(name)];
    if (!before || !after) return null;
    const positions = counterparts(...[this.base, this.edited].map(({ tokens }) => idsOf(tokens.source)));
    return changeBetween(before, after, (axis) => (/^source(_key)?$/.test(axis) ? positions : null));
  }

  withEdits(words, base = this.base) {
    return this.keep(['edits', base.text, base.inputs, base.target, base.search.beam.num_beams, words], async () => {
      if (!this.canEdit) throw new Error('the edits cannot be made: this file does not include the weights of the model');
      if (!base.hasWeights) return new Trace(await this.server.whatIf(base.contract, words));
      await drawn(); // with "computing"
      return whatIf(base, words);
    });
  }

  /** What `make` returns, kept for Back and Forward. */
  async keep(parts, make) {
    const key = JSON.stringify(parts);
    const found = this.known.get(key) ?? (await make());
    this.known.delete(key);
    this.known.set(key, found);
    if (this.known.size > KEPT) this.known.delete(this.known.keys().next().value);
    return found;
  }

  /** Show a tensor in its panel; a cell is scrolled to. */
  goTo(name, cell = null) {
    const location = locationOf(name);
    const x = this.trace.get(name);
    const head = x?.axes[0] === 'head' && cell ? { head: cell[0] } : {};
    if (location.panel === 'attention' && cell?.length > 1 && cell.at(-2) !== (x.axes.at(-2) === 'source' ? this.state.column : this.row)) head.rows = 'all'; // it would not be in sight
    if (cell) this.windows.set(name, centered(cell.slice(-2)));
    this.reveal = name;
    this.set({ ...location, ...head, gold: name.startsWith('gold.'), tensor: name, cell });
  }
}

/** The first row and column of a window of numbers that has this cell in it. */
const centered = (cell) => (cell.length > 1 ? [cell[0] - 8, cell[1] - 4] : [0, cell[0] - 4]);

const LOCATIONS = [
  [/^(.*\.(self|cross))\.(queries|keys|values)$/, (part) => ({ panel: 'qkv', part })],
  [/^(.*\.(self|cross))\.residual$/, (part) => ({ panel: 'norm', part })],
  [/^(.*\.(self|cross))\.[a-z_]+$/, (part) => ({ panel: 'attention', part, view: 'steps' })],
  [/^(.*\.feed_forward)\.[a-z]+$/, (part) => ({ panel: 'norm', part })],
  [/^(.*\.(self|cross|feed_forward))_norm\.[a-z]+$/, (part) => ({ panel: 'norm', part })],
  [/^((encoder|decoder)_norm)\.[a-z]+$/, (part) => ({ panel: 'norm', part })],
  [/^(source|target)\.[a-z]+$/, (part) => ({ panel: 'embedding', part })],
  [/^(.*(logits|log_probs|losses|smoothed_targets)|.*cop(y|ied)_[a-z]+)$/, () => ({ panel: 'logits', part: 'logits' })],
  [/^(evidence)\.[a-z]+$/, () => ({ panel: 'alignment' })],
];

/** The panel and part in which a tensor is shown. */
function locationOf(name) {
  const plain = name.replace(/^gold\./, '').replace(/_before_edit$|_edit$|_edited$/, '');
  for (const [pattern, location] of LOCATIONS) {
    const found = pattern.exec(plain);
    if (found) return location(found[1]);
  }
  return {};
}
