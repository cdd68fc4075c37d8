/** Show what an address describes: at the start, and after Back, Forward or a change of the address by hand. */

import { modelOf } from 'glassbox/shell/address.js';
import { panels } from 'glassbox/panels/all.js';
import { SCREENS } from 'glassbox/panels/story.js';
import { Stopped } from 'glassbox/core/server.js';
import { threadOf } from 'glassbox/story/thread.js';
import { traceOf } from 'glassbox/views/typing.js';

/**
 * @param {import('./app.js').App} app
 * @param {import('./address.js').Address} address
 * @param {Function} draw
 */
export async function arrive(app, address, draw) {
  const turn = app.begin(''); // what was computed for another address is dropped
  const before = app.state;
  const panel = Object.hasOwn(panels, address.panel) ? address.panel : Object.keys(panels)[0];
  const { problems } = address;
  if (address.panel && panel !== address.panel) problems.push(`there is no panel “${address.panel.slice(0, 40)}”`);
  const isOther = address.model && address.model !== modelOf(app.base);
  if (isOther)
    problems.push(`it is of another model (${address.model.slice(0, 16)}, not ${modelOf(app.base)}), so only its panel is used`);
  const { state, request, edits } = isOther ? ofPanelAlone(address) : address;
  let [base, edited, words] = [baseOf(app, request), null, edits];
  app.problem = '';
  if (!base || words.length) {
    app.busy = 'computing …';
    app.state = { ...before, panel, tensor: null, cell: null };
    draw();
    try {
      base ??= await attempt(() => traceOf(app, request), problems, app.first);
      edited = words.length ? await attempt(() => app.withEdits(words, base), problems, null) : null;
    } catch (error) {
      if (turn !== app.turn) return;
      Object.assign(app, { state: before, busy: '', problem: error.message });
      draw();
      return;
    }
    if (!edited) words = [];
    if (turn !== app.turn) return;
  }
  Object.assign(app, { base, edited, words, made: words, busy: '', typed: null });
  app.state = { ...app.defaults, tensor: null, cell: null, panel, ...state };
  if (!edited) app.state.compare = 'after';
  checkState(app, problems);
  const { part } = app.state;
  if (state.part && !state.attention && /\.(self|cross)$/.test(part)) app.state.attention = part;
  if (request.target !== null && request.target !== base.target)
    problems.push('this page cannot compute the target of an address');
  const { tensor, cell } = app.state;
  app.dropSelection();
  if (tensor && cell && !app.state.cell) problems.push(`“${tensor}” has no cell ${cell.join(', ')}`);
  if (panel === 'story' && state.row === undefined) Object.assign(app.state, threadOf(app.trace));
  if (app.state.tensor) app.reveal = app.state.tensor;
  app.notice = problems.length ? `The address does not fit this page (model ${modelOf(app.base)}): ${problems.join('; ')}.` : '';
  draw();
}

/** What is left of the address of another model. */
function ofPanelAlone({ state: { depth, question } }) {
  const state = Object.fromEntries(Object.entries({ depth, question }).filter(([, value]) => value !== undefined));
  return { state, edits: [], request: { text: null, inputs: null, target: null, beams: null } };
}

/** In words, what this trace does not have; the state has the default instead. */
function checkState({ trace, rows, state, defaults }, problems) {
  const { axis, specials } = trace.vocabularies[state.map];
  const parts = trace.steps.map(({ output }) => output.replace(/(_norm)?\.\w+$/, ''));
  const below = (length, first = 0) => (number) => number >= first && number < first + length;
  const among = (names) => (name) => names.includes(name);
  const exists = {
    part: ['part', among([...parts, 'source', 'target', 'logits', 'encoder_norm', 'decoder_norm'])],
    attention: ['attention', among(trace.attentions())],
    gold: ['target', (gold) => !gold || trace.tokens.gold !== null],
    tensor: ['tensor', (name) => trace.has(name)],
    head: ['head', below(trace.axes.head.length)],
    row: ['decoding step', below(rows.inputs.length)],
    column: ['source token', below(trace.tokens.source.length)],
    question: ['question', below(SCREENS.length)],
    wave: ['feature', below(trace.axes.d_model.length)],
    time: ['checkpoint', below(trace.training?.checkpoints.length || Infinity)],
    picked: ['token', below(trace.axes[axis].length - new Set(Object.values(specials)).size)],
  };
  for (const [key, [name, test]] of Object.entries(exists)) {
    if (state[key] === null || test(state[key])) continue;
    problems.push(`there is no ${name} “${state[key]}” in this page`);
    state[key] = defaults[key] ?? null;
  }
}

/** The trace of the text of an address, if it is known already. */
function baseOf({ first, base }, { text, inputs, target, beams }) {
  const isOf = (trace) =>
    (inputs ? JSON.stringify(inputs) === JSON.stringify(trace.inputs) : text === trace.text) &&
    (target ?? trace.target) === trace.target &&
    (beams ?? first.search.beam.num_beams) === trace.search.beam.num_beams;
  if (text === null && !inputs) return first;
  return [base, first].find(isOf) ?? null;
}

async function attempt(make, problems, otherwise) {
  try {
    return await make();
  } catch (error) {
    if (error instanceof Stopped) throw error;
    problems.push(error.message);
    return otherwise;
  }
}
