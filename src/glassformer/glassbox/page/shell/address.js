/**
 * The address of what is shown: "#attention?part=decoder.1.cross&row=3&edit=positions+off&text=…&model=1a2b3c4d".
 *
 * No other module writes to the address or the history of the browser. Panels do not call this module: `app.set` changes
 * the state and with it the address, and `app.link(changes)` is the address of another state. A key of the state is in
 * the address if it is listed in KEYS.
 *
 * @typedef {{panel: string, state: Object<string, any>, edits: string[], model: string, problems: string[],
 *   request: {text: string|null, inputs: Object<string, string>|null, target: string|null, beams: number|null}}} Address
 */

import { threadOf } from 'glassbox/story/thread.js';

const WORD = (text) => (/^[\w. ]{1,80}$/.test(text) ? text : undefined);
const NUMBER = (text) => (/^\d{1,7}$/.test(text) ? Number(text) : undefined);
const FLAG = (text) => ({ true: true, false: false })[text];
const one = (...words) => (text) => (words.includes(text) ? text : undefined);

/** Each key of the state that is in the address: its default, and what reads it (undefined: not a value of it). */
export const KEYS = {
  question: [0, NUMBER],
  depth: ['numbers', one('words', 'numbers', 'formula')],
  part: [null, WORD],
  band: [null, WORD],
  attention: [null, WORD],
  head: [0, NUMBER],
  row: [0, NUMBER],
  column: [0, NUMBER],
  gold: [false, FLAG],
  compare: ['after', one('before', 'after', 'difference')],
  locked: [null, NUMBER],
  rows: ['one', one('one', 'all')],
  view: ['steps', one('steps', 'mistakes')],
  search: ['beam', one('beam', 'greedy')],
  order: ['layer', one('layer', 'damage', 'entropy', 'kind')],
  scale: ['linear', one('linear', 'log')],
  loss: ['linear', one('linear', 'log')],
  evidence: ['all', one('all', 'attention', 'occlusion')],
  wave: [4, NUMBER],
  time: [null, NUMBER],
  map: ['source', one('source', 'target')],
  picked: [0, NUMBER],
};

/** A change of one of these is a new entry of the history: Back returns to the state before it. */
const STEPS = ['panel', 'question', 'part', 'band', 'view'];

const LONG = 400; // characters of a text that a file has anyway
const DELAY = 300; // milliseconds: browsers limit how often an address may change

/** The state that a page starts with. */
export const defaults = () => Object.fromEntries(Object.entries(KEYS).map(([key, [value]]) => [key, value]));

export const modelOf = (trace) => trace.provenance.model_hash.slice(0, 8);

/** Read an address. `problems` says in words what is no part of an address. @returns {Address} */
export function read(hash = location.hash) {
  const [panel, ...rest] = hash.replace(/^#/, '').split('?');
  const query = new URLSearchParams(rest.join('?'));
  const address = { panel, state: {}, edits: query.getAll('edit'), model: query.get('model') ?? '', problems: [] };
  const inputs = Object.fromEntries(
    [...query].filter(([key]) => key.startsWith('text.')).map(([key, text]) => [key.slice(5), text]),
  );
  address.request = {
    text: query.get('text'),
    inputs: Object.keys(inputs).length ? inputs : null,
    target: query.get('target'),
    beams: NUMBER(query.get('beams') ?? '') ?? null,
  };
  if (query.has('beams') && address.request.beams === null)
    address.problems.push(`“${query.get('beams').slice(0, 40)}” is not a value of “beams”`);
  for (const [key, [, reads]] of Object.entries(KEYS)) {
    if (!query.has(key)) continue;
    const value = reads(query.get(key));
    if (value === undefined) address.problems.push(`“${query.get(key).slice(0, 40)}” is not a value of “${key}”`);
    else address.state[key] = value;
  }
  const cell = /^([\w.]{1,120})(?:@(\d{1,7}(?:,\d{1,7}){0,2}))?$/.exec(query.get('cell') ?? '');
  if (cell) {
    address.state.tensor = cell[1];
    address.state.cell = cell[2] ? cell[2].split(',').map(Number) : null;
  } else if (query.has('cell')) address.problems.push(`“${query.get('cell').slice(0, 40)}” is not a cell`);
  return address;
}

/** The part of the address after “#” for the state of the page with these changes. */
export function format(app, changes = {}) {
  const state = { ...app.state, row: app.row, ...changes };
  const query = new URLSearchParams();
  const isStory = state.panel === 'story';
  const thread = isStory ? threadOf(app.trace) : {}; // which the story chooses without a row
  const start = Object.keys(thread).every((key) => state[key] === thread[key]) ? { ...app.defaults, ...thread } : app.defaults;
  for (const key of Object.keys(KEYS))
    if (state[key] !== start[key] && state[key] !== null && state[key] !== undefined) query.set(key, state[key]);
  if (isStory && start === app.defaults) query.set('row', state.row);
  if (state.attention === state.part) query.delete('attention');
  if (state.tensor) query.set('cell', state.cell ? `${state.tensor}@${state.cell.join()}` : state.tensor);
  for (const words of changes.edits ?? app.words) query.append('edit', words);
  requestOf(app, query, changes.typed);
  if (query.size) query.set('model', modelOf(app.base));
  return `#${state.panel}${query.size ? `?${query}` : ''}`;
}

/** The text, or what is typed in its field, where the page does not start with it, or where other parts of the address need it. */
function requestOf(app, query, typed) {
  const { base, first, server } = app;
  const { text, inputs } = typed ?? base;
  const { num_beams: beams } = base.search.beam;
  const isFirst = base === first && !server && !typed;
  if (isFirst && (!query.size || base.text.length > LONG)) return;
  if (inputs) for (const [name, cell] of Object.entries(inputs)) query.set(`text.${name}`, cell);
  else query.set('text', text);
  if (base.target !== null && server) query.set('target', base.target);
  if (beams !== first.search.beam.num_beams) query.set('beams', beams);
}

/** The whole address of a state. */
export const link = (app, changes = {}) => location.href.replace(/#.*$/s, '') + format(app, changes);

/** Whether a change of the state is a step that Back undoes. */
export const isStep = (before, after) => STEPS.some((key) => before[key] !== after[key]);

let [timer, pending] = [0, null]; // the address that replaces the last one soon

/** Write the address of the page: as a new entry of the history, or soon in place of the last one. */
export function write(app, isNew) {
  clearTimeout(timer);
  const found = format(app);
  if (isNew) {
    flush();
    if (found !== location.hash) history.pushState(null, '', found);
    return;
  }
  pending = found;
  timer = setTimeout(flush, DELAY);
}

function flush() {
  if (pending !== null && pending !== location.hash) history.replaceState(null, '', pending);
  pending = null;
}

/** Call `onArrive` with the address after Back, Forward, or a change of the address by hand. */
export function listen(onArrive) {
  addEventListener('popstate', () => {
    clearTimeout(timer);
    pending = null; // it belongs to the entry that was left
    onArrive(read());
  });
  addEventListener('pagehide', flush);
}
