/** Show what an address describes: at the start, and after Back, Forward or a change of the address by hand. */

import { check, modelOf } from 'glassbox/address.js';
import { panels } from 'glassbox/panels/all.js';
import { SCREENS } from 'glassbox/panels/story.js';
import { Stopped } from 'glassbox/server.js';
import { traceOf } from 'glassbox/typing.js';

/**
 * @param {import('./app.js').App} app
 * @param {import('./address.js').Address} address
 * @param {Function} draw
 */
export async function arrive(app, address, draw) {
  const turn = app.begin(''); // what was computed for another address is dropped
  const before = app.state;
  check(app, address, panels);
  const { state, request, problems } = address;
  const panel = Object.hasOwn(panels, address.panel) ? address.panel : Object.keys(panels)[0];
  let [base, edited, words] = [baseOf(app, request), null, address.edits];
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
  Object.assign(app, { base, edited, words, busy: '' });
  app.state = { ...app.defaults, tensor: null, cell: null, panel, ...state };
  if (state.part && !state.attention && /\.(self|cross)$/.test(state.part)) app.state.attention = state.part;
  if (!edited) app.state.compare = 'after';
  if (app.state.tensor && !app.trace.has(app.state.tensor)) {
    problems.push(`there is no tensor “${app.state.tensor}” in this page`);
    app.state.tensor = null;
  }
  if (request.target !== null && request.target !== base.target)
    problems.push('this page cannot compute the gold target of an address');
  const { tensor, cell } = app.state;
  app.dropCell();
  if (cell && !app.state.cell) problems.push(`“${tensor}” has no cell ${cell.join(', ')}`);
  checkRanges(app, problems);
  if (panel === 'story' && state.row === undefined) Object.assign(app.state, SCREENS[app.state.screen - 1].choose(app));
  if (app.state.tensor) app.reveal = app.state.tensor;
  app.notice = problems.length ? `The address does not fit this page (model ${modelOf(app.base)}): ${problems.join('; ')}.` : '';
  draw();
}

/** In words, what is beyond the end of this trace; the state has the default instead. */
function checkRanges({ trace, rows, state, defaults }, problems) {
  const { axis, specials } = trace.vocabularies[state.map];
  const ranges = {
    row: ['decoding step', rows.inputs.length],
    column: ['source token', trace.tokens.source.length],
    screen: ['screen', SCREENS.length, 1],
    wave: ['feature', trace.axes.d_model.length],
    time: ['checkpoint', trace.training?.checkpoints.length || Infinity],
    picked: ['token', trace.axes[axis].length - new Set(Object.values(specials)).size],
  };
  for (const [key, [name, length, first = 0]] of Object.entries(ranges)) {
    if (state[key] === null || (state[key] >= first && state[key] < first + length)) continue;
    problems.push(`there is no ${name} ${state[key]}`);
    state[key] = defaults[key];
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
