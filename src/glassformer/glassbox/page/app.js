/**
 * What is looked at: the trace, the place in it, the edits. Panels read it and ask for changes.
 *
 * `part` is where in the architecture: "source", "encoder.0.self", "decoder.1.feed_forward", "decoder_norm", "logits".
 */

import { whatIf } from 'glassbox/whatif.js';
import { Trace } from 'glassbox/trace.js';

const QUIET = ['tensor', 'cell']; // what only the inspector shows

export class App {
  /** @param contract  a glassformer-trace/1  @param server  see server.js, or null in a file */
  constructor(contract, server = null) {
    this.base = new Trace(contract);
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

  /** Change the state; what only concerns the inspector draws no panel anew. */
  set(changes) {
    const part = changes.part ?? this.state.part;
    const attention = /\.(self|cross)$/.test(part) ? part : this.state.attention;
    this.state = { ...this.state, ...changes, attention };
    this.tell(Object.keys(changes).every((key) => QUIET.includes(key)));
  }

  tell(isQuiet = false) {
    for (const listener of this.listeners) listener(isQuiet);
  }

  /** Look at a cell of a tensor, or with null at all of it. */
  pick(tensor, cell) {
    this.set({ tensor, cell });
  }

  /** The name of a quantity: of the given target where that is what is looked at. */
  name(quantity) {
    const gold = `gold.${quantity}`;
    return this.state.gold && this.trace.has(gold) ? gold : quantity;
  }

  /** Decoder rows that are looked at: tokens fed, and asked for. */
  get rows() {
    const { target_in: fed, target_out: asked, gold_in: goldFed, gold } = this.trace.tokens;
    return this.state.gold && gold ? { fed: goldFed, asked: gold } : { fed, asked };
  }

  get row() {
    return Math.min(this.state.row, this.rows.fed.length - 1);
  }

  /** Whether what-if can be computed: here with weights, or by the server. */
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
    return this.edit(this.words.includes(words) ? this.words.filter((each) => each !== words) : [...this.words, words]);
  }

  /** The trace with these edits; where one does not fit, the edits stay as they were and `problem` says why. */
  async edit(words) {
    this.busy = true;
    this.problem = '';
    this.tell();
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
      await new Promise((resolve) => setTimeout(resolve)); // let "computing" be seen
      return whatIf(this.base, words);
    }
    return new Trace(await this.server.whatIf(this.base.contract, words));
  }

  /** Show a quantity where it belongs. */
  goTo(name, cell = null) {
    const place = placeOf(name);
    const head = this.trace.get(name)?.axes[0] === 'head' && cell ? { head: cell[0] } : {};
    this.set({ ...place, ...head, gold: name.startsWith('gold.'), tensor: name, cell });
  }
}

const PLACES = [
  [/^(.*\.(self|cross))\.(queries|keys|values)$/, (part) => ({ panel: 'qkv', part })],
  [/^(.*\.(self|cross))\.residual$/, (part) => ({ panel: 'norm', part })],
  [/^(.*\.(self|cross))\.[a-z_]+$/, (part) => ({ panel: 'attention', part })],
  [/^(.*\.feed_forward)\.[a-z]+$/, (part) => ({ panel: 'norm', part })],
  [/^(.*\.(self|cross|feed_forward))_norm\.[a-z]+$/, (part) => ({ panel: 'norm', part })],
  [/^((encoder|decoder)_norm)\.[a-z]+$/, (part) => ({ panel: 'norm', part })],
  [/^(source|target)\.[a-z]+$/, (part) => ({ panel: 'embedding', part })],
  [/^(.*(logits|log_probs|losses|wanted))$/, () => ({ panel: 'logits', part: 'logits' })],
  [/^(evidence)\.[a-z]+$/, () => ({ panel: 'alignment' })],
];

/** The panel and part where a quantity is shown. */
export function placeOf(name) {
  const plain = name.replace(/^gold\./, '').replace(/_before_edit$|_edit$|_edited$/, '');
  for (const [pattern, place] of PLACES) {
    const found = pattern.exec(plain);
    if (found) return place(found[1]);
  }
  return {};
}
