/** Worked examples: mechanisms of the paper on numbers small enough for pencil and paper, which the reader can change. */

import { choices } from 'glassbox/dom.js';
import { lookup } from 'glassbox/examples/lookup.js';
import { norms } from 'glassbox/examples/norms.js';
import { padding } from 'glassbox/examples/padding.js';
import { search } from 'glassbox/examples/search.js';

const EXAMPLES = [
  ['lookup', 'attention as a lookup'],
  ['padding', 'padding'],
  ['norms', 'layer norm, batch norm'],
  ['search', 'greedy and beam search'],
];

export function examples(app) {
  const example = app.state.example ?? 'lookup';
  const draw = { lookup, padding, norms, search }[example];
  return [choices('example', EXAMPLES, example, (chosen) => app.set({ example: chosen })), draw(app)];
}
