/** The computation of attention: Q Kᵀ, ÷ √d_k, mask, softmax, · V, concatenation of the heads, W_O. */

import { button, choices, el } from 'glassbox/dom.js';
import { digits, entropies, headOf, percent, rowOf } from 'glassbox/numbers.js';
import { lightOf } from 'glassbox/hover.js';
import { attentionPicker, maskOf } from 'glassbox/panels/selection.js';
import { mistakes } from 'glassbox/panels/mistakes.js';
import { product } from 'glassbox/product.js';
import { stage, together } from 'glassbox/stage.js';

const VIEWS = [
  ['steps', 'computation'],
  ['mistakes', 'mistakes lab'],
];

export function attention(app) {
  const view = app.state.view ?? 'steps';
  const draw = { steps, mistakes }[view];
  return [choices('view', VIEWS, view, (chosen) => app.set({ view: chosen })), draw(app)];
}

function steps(app) {
  const { attention: name, head } = app.state;
  const isDecoder = name.startsWith('decoder');
  const tensor = (kind) => app.name(`${name}.${kind}`);
  const options = {
    head,
    mask: maskOf(app, name),
    row: isDecoder ? app.row : undefined,
    column: app.state.locked ?? undefined,
    onRow: isDecoder ? (row) => app.set({ row }) : undefined,
    onColumn: (column) => app.set({ locked: column === app.state.locked ? null : column }),
  };
  const drawn = (kind) => {
    const step = app.trace.stepOf.get(tensor(kind));
    return step ? product(app, step, head, app.width) : null;
  };
  return [
    el(
      'p.lead',
      'Each row is a query, each column is a key. Softmax turns the scores of a row into weights, ' +
        'and the output of the row is the weighted sum of the values.',
    ),
    attentionPicker(app),
    stage(app, tensor('scores'), { ...options, title: `scores of head ${head}: Q Kᵀ`, after: drawn('scores') }),
    together(
      stage(app, tensor('scale'), { title: 'the scale: √d_k' }),
      stage(app, tensor('scaled'), { ...options, title: 'scaled scores: ÷ √d_k; hatched cells are masked' }),
    ),
    stage(app, tensor('weights'), {
      ...options,
      title: 'weights: softmax over each row',
      after: rowFacts(app, tensor('weights')),
    }),
    oneRow(app, tensor('weights')),
    stage(app, tensor('heads'), {
      ...options,
      mask: undefined,
      column: undefined,
      onColumn: undefined,
      title: `output of head ${head}: weights · values`,
      after: drawn('heads'),
    }),
    stage(app, tensor('concatenated'), { row: options.row }),
    stage(app, tensor('output'), { row: options.row }),
  ];
}

/** The sum of each row, and its entropy: 0 for one key with weight 1, log(columns) for equal weights. */
function rowFacts(app, name) {
  const weights = headOf(app.trace.get(name), app.state.head);
  const sums = Array.from({ length: weights.shape[0] }, (_, row) =>
    rowOf(weights, row).reduce((sum, weight) => sum + weight, 0),
  );
  const entropy = entropies(weights);
  const largest = Math.log(weights.shape[1]);
  return el(
    'details',
    el(
      'summary',
      `row sums from ${digits(Math.min(...sums))} to ${digits(Math.max(...sums))}; entropy from ` +
        `${digits(Math.min(...entropy))} to ${digits(Math.max(...entropy))} nats (maximum ${digits(largest)})`,
    ),
    el(
      'ul.facts',
      sums.map((sum, row) =>
        el(
          'li',
          el('bdi', `${row} ${app.trace.label(weights.axes[0], row)}`),
          ` sum ${digits(sum)}, entropy ${digits(entropy[row])}`,
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
  const isEncoder = weights.axes[0] === 'source';
  const row = isEncoder ? Math.min(app.state.column, weights.shape[0] - 1) : app.row;
  const axis = isColumn ? 0 : 1;
  const shown = isColumn
    ? Array.from({ length: weights.shape[0] }, (_, i) => rowOf(weights, i)[locked])
    : [...rowOf(weights, row)];
  const index = isColumn ? locked : row;
  const [whole, other] = [weights.axes[1 - axis], weights.axes[axis]];
  return el(
    'section',
    { 'aria-label': 'one row or column' },
    el(
      'h2',
      isColumn ? 'weights on column ' : 'weights of row ',
      el('bdi', `${index} ${app.trace.label(whole, index)}`),
    ),
    isColumn
      ? button('show a row again', () => app.set({ locked: null }), { class: 'link', data: { key: 'unlock' } })
      : el(
          'p.hint',
          isEncoder
            ? 'The row is the source position that is selected in the panel “Embedding and position”. '
            : 'The row is the selected decoding step. ',
          'Select a column heading to show that column instead.',
        ),
    bars(shown.map((weight, i) => [`${i} ${app.trace.label(other, i)}`, weight, lightOf(other, i)])),
  );
}

/** Numbers from 0 to 1 as bars. @param {[string, number, string?][]} fractions  label, number, what it is in hover.js */
export const bars = (fractions) =>
  el(
    'ul.bars',
    fractions.map(([label, fraction, light]) =>
      el(
        'li',
        light ? { data: { at: light } } : {},
        el('bdi', { title: label }, label),
        el('i', { style: { '--fraction': `${Math.max(0, Math.min(1, fraction)) * 100}%` } }),
        el('span', percent(fraction)),
      ),
    ),
  );
