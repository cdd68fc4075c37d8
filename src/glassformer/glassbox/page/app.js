/**
 * The state of the page: the trace, the selected part of it, the edits. Panels read it and change it with `set`.
 *
 * `part` is a part of the architecture: "source", "encoder.0.self", "decoder.1.feed_forward", "decoder_norm", "logits".
 */

import { whatIf } from 'glassbox/whatif.js';
import { Trace } from 'glassbox/trace.js';

const QUIET = ['tensor', 'cell', 'terms']; // shown in the inspector only

export class App {
  /** @param contract  a glassformer-trace/1, or a Trace  @param server  see server.js, or null in a file */
  constructor(contract, server = null) {
    this.base = contract instanceof Trace ? contract : new Trace(contract);
    this.trace = this.base;
    this.server = server;
    this.words = [];
    this.problem = '';
    this.busy = false;
    this.windows = new Map();
    this.listeners = [];
    const cross = this.base.attentions().at(-1);
    this.state = {
      panel: 'tokens',
      depth: 'numbers',
      part: cross,
      attention: cross,
      head: 0,
      row: 0,
      column: 0,
      gold: false,
      tensor: null,
      cell: null,
    };
  }

  subscribe(listener) {
    this.listeners.push(listener);
  }

  /** Change the state. Changes that concern only the inspector do not redraw the panel. */
  set(changes) {
    const part = changes.part ?? this.state.part;
    const attention = /\.(self|cross)$/.test(part) ? part : this.state.attention;
    this.state = { ...this.state, ...changes, attention };
    this.notify(Object.keys(changes).every((key) => QUIET.includes(key)));
  }

  notify(isQuiet = false) {
    for (const listener of this.listeners) listener(isQuiet);
  }

  /** Select a cell of a tensor, or with null the whole tensor. */
  pick(tensor, cell) {
    this.set({ tensor, cell });
  }

  /** The name of a tensor: with "gold." where the gold target is selected. */
  name(tensor) {
    const gold = `gold.${tensor}`;
    return this.state.gold && this.trace.has(gold) ? gold : tensor;
  }

  /** The decoder input, the targets of its rows, and the kind of the targets: output tokens or gold target tokens. */
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

  /** Another trace, without edits. */
  open(contract) {
    this.base = new Trace(contract);
    this.trace = this.base;
    this.words = [];
    this.problem = '';
    this.set({ row: 0, column: 0, gold: false, tensor: null, cell: null });
  }

  toggleEdit(words) {
    return this.edit(
      this.words.includes(words) ? this.words.filter((other) => other !== words) : [...this.words, words],
    );
  }

  /** The trace with these edits. An edit that is not valid changes nothing, and `problem` has the reason. */
  async edit(words) {
    this.busy = true;
    this.problem = '';
    this.notify();
    try {
      const edited = words.length ? await this.withEdits(words) : this.base;
      this.trace = edited;
      this.words = words;
    } catch (error) {
      this.problem = error.message;
    }
    this.busy = false;
    this.set({ tensor: this.trace.has(this.state.tensor) ? this.state.tensor : null, cell: null, gold: false });
  }

  async withEdits(words) {
    if (this.base.hasWeights) {
      await new Promise((resolve) => setTimeout(resolve)); // let the browser draw "computing"
      return whatIf(this.base, words);
    }
    return new Trace(await this.server.whatIf(this.base.contract, words));
  }

  /** Show a tensor in its panel. */
  goTo(name, cell = null) {
    const location = locationOf(name);
    const head = this.trace.get(name)?.axes[0] === 'head' && cell ? { head: cell[0] } : {};
    this.set({ ...location, ...head, gold: name.startsWith('gold.'), tensor: name, cell });
  }
}

const LOCATIONS = [
  [/^(.*\.(self|cross))\.(queries|keys|values)$/, (part) => ({ panel: 'qkv', part })],
  [/^(.*\.(self|cross))\.residual$/, (part) => ({ panel: 'norm', part })],
  [/^(.*\.(self|cross))\.[a-z_]+$/, (part) => ({ panel: 'attention', part })],
  [/^(.*\.feed_forward)\.[a-z]+$/, (part) => ({ panel: 'norm', part })],
  [/^(.*\.(self|cross|feed_forward))_norm\.[a-z]+$/, (part) => ({ panel: 'norm', part })],
  [/^((encoder|decoder)_norm)\.[a-z]+$/, (part) => ({ panel: 'norm', part })],
  [/^(source|target)\.[a-z]+$/, (part) => ({ panel: 'embedding', part })],
  [/^(.*(logits|log_probs|losses|smoothed_targets))$/, () => ({ panel: 'logits', part: 'logits' })],
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
