/** Attention, step by step: Q Kᵀ, ÷ √d_k, mask, softmax, · V, heads side by side, W_O. */

import { button, choices, el } from 'glassbox/dom.js';
import { digits, entropies, headOf, percent, rowOf } from 'glassbox/numbers.js';
import { attentionPicker, maskOf } from 'glassbox/panels/place.js';
import { lookup } from 'glassbox/panels/lookup.js';
import { mistakes } from 'glassbox/panels/mistakes.js';
import { stage } from 'glassbox/stage.js';

const VIEWS = [
  ['steps', 'step by step'],
  ['lookup', 'as a look-up'],
  ['mistakes', 'mistakes lab'],
];

export function attention(app) {
  const view = app.state.view ?? 'steps';
  const draw = { steps, lookup, mistakes }[view];
  return [choices('view', VIEWS, view, (chosen) => app.set({ view: chosen })), draw(app)];
}

function steps(app) {
  const { attention: name, head } = app.state;
  const isDecoder = name.startsWith('decoder');
  const quantity = (kind) => app.name(`${name}.${kind}`);
  const options = {
    head,
    mask: maskOf(app, name),
    row: isDecoder ? app.row : undefined,
    column: app.state.locked ?? undefined,
    onRow: isDecoder ? (row) => app.set({ row }) : undefined,
    onColumn: (column) => app.set({ locked: column === app.state.locked ? null : column }),
  };
  return [
    el(
      'p.lead',
      'Each row asks, each column answers: how well they fit becomes a share, and the shares mix the values.',
    ),
    attentionPicker(app),
    stage(app, quantity('scores'), { ...options, title: `scores of head ${head}: Q Kᵀ` }),
    stage(app, quantity('scale'), { title: 'the scale: √d_k' }),
    stage(app, quantity('scaled'), { ...options, title: 'divided by √d_k; hatched cells are hidden by the mask' }),
    stage(app, quantity('weights'), {
      ...options,
      title: 'weights: softmax over each row',
      after: rowFacts(app, quantity('weights')),
    }),
    oneRow(app, quantity('weights')),
    stage(app, quantity('heads'), {
      ...options,
      mask: undefined,
      column: undefined,
      onColumn: undefined,
      title: `weights · values of head ${head}`,
    }),
    stage(app, quantity('concatenated'), { row: options.row }),
    stage(app, quantity('output'), { row: options.row }),
  ];
}

/** The sum of each row, and its entropy: 0 looks at one place, log(columns) at all alike. */
function rowFacts(app, name) {
  const weights = headOf(app.trace.get(name), app.state.head);
  const sums = Array.from({ length: weights.shape[0] }, (_, row) =>
    rowOf(weights, row).reduce((sum, share) => sum + share, 0),
  );
  const spread = entropies(weights);
  const most = Math.log(weights.shape[1]);
  return el(
    'details',
    el(
      'summary',
      `row sums ${digits(Math.min(...sums))} to ${digits(Math.max(...sums))}; entropy ` +
        `${digits(Math.min(...spread))} to ${digits(Math.max(...spread))} of at most ${digits(most)} nats`,
    ),
    el(
      'ul.facts',
      sums.map((sum, row) =>
        el(
          'li',
          el('bdi', `${row} ${app.trace.label(weights.axes[0], row)}`),
          ` sum ${digits(sum)}, entropy ${digits(spread[row])}`,
        ),
      ),
    ),
  );
}

/** The locked row or column as bars. */
function oneRow(app, name) {
  const weights = headOf(app.trace.get(name), app.state.head);
  const { locked } = app.state;
  const isColumn = locked !== null && locked !== undefined && locked < weights.shape[1];
  const row = weights.axes[0] === 'source' ? Math.min(app.state.column, weights.shape[0] - 1) : app.row;
  const axis = isColumn ? 0 : 1;
  const shares = isColumn
    ? Array.from({ length: weights.shape[0] }, (_, each) => rowOf(weights, each)[locked])
    : [...rowOf(weights, row)];
  const place = isColumn ? locked : row;
  const [whole, other] = [weights.axes[1 - axis], weights.axes[axis]];
  return el(
    'section',
    { 'aria-label': 'one row or column' },
    el(
      'h3',
      isColumn ? 'who looks at ' : 'where ',
      el('bdi', `${place} ${app.trace.label(whole, place)}`),
      isColumn ? '' : ' looks',
    ),
    isColumn
      ? button('unlock the column', () => app.set({ locked: null }), { class: 'link', data: { key: 'unlock' } })
      : el('p.hint', 'The row is that of the decoding step below; choose a column by its heading to lock it.'),
    bars(shares.map((share, i) => [`${i} ${app.trace.label(other, i)}`, share])),
  );
}

/** Shares as bars with their numbers. @param {[string, number][]} shares */
export const bars = (shares) =>
  el(
    'ul.bars',
    shares.map(([label, share]) =>
      el(
        'li',
        el('bdi', { title: label }, label),
        el('i', { style: { '--share': `${Math.max(0, Math.min(1, share)) * 100}%` } }),
        el('span', percent(share)),
      ),
    ),
  );
