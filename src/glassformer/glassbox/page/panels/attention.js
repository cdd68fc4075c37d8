/** The computation of attention: Q Kᵀ, ÷ √d_k, mask, softmax, · V, concatenation of the heads, W_O. */

import { button, choices, el, range, section } from 'glassbox/core/dom.js';
import { digits, entropies, headOf, percent, rowOf, sumOf } from 'glassbox/core/numbers.js';
import { lightOf } from 'glassbox/views/hover.js';
import { attentionPicker, maskOf, rowOfPart } from 'glassbox/panels/selection.js';
import { mistakes } from 'glassbox/panels/mistakes.js';
import { product } from 'glassbox/views/product.js';
import { stage, together } from 'glassbox/views/stage.js';

export function attention(app) {
  const { view } = app.state;
  const views = { steps: 'computation', mistakes: 'mistakes lab' };
  return [choices('view', views, view, (chosen) => app.set({ view: chosen })), { steps, mistakes }[view](app)];
}

function steps(app) {
  const { attention: name, head, locked } = app.state;
  const tensor = (kind) => app.name(`${name}.${kind}`);
  const row = name.startsWith('decoder') ? rowOfPart(app, name) : {};
  const keys = {
    mask: maskOf(app, name),
    column: locked ?? undefined,
    onColumn: (column) => app.set({ locked: column === locked ? null : column }),
  };
  const options = { head, ...row, ...keys };
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
      head,
      ...row,
      title: `output of head ${head}: weights · values`,
      after: drawn('heads'),
    }),
    ['concatenated', 'output'].map((kind) => stage(app, tensor(kind), { row: row.row })),
  ];
}

/** The sum of each row, and its entropy: 0 for one key with weight 1, log(columns) for equal weights. */
function rowFacts(app, name) {
  const weights = headOf(app.trace.get(name), app.state.head);
  const sums = range(weights.shape[0]).map((row) => sumOf(rowOf(weights, row)));
  const entropy = entropies(weights);
  const span = (numbers) => `from ${digits(Math.min(...numbers))} to ${digits(Math.max(...numbers))}`;
  const maximum = digits(Math.log(weights.shape[1]));
  return el(
    'details',
    el('summary', `row sums ${span(sums)}; entropy ${span(entropy)} nats (maximum ${maximum})`),
    el(
      'ul.facts',
      sums.map((sum, row) => {
        const name = el('bdi', `${row} ${app.trace.label(weights.axes[0], row)}`);
        return el('li', name, ` sum ${digits(sum)}, entropy ${digits(entropy[row])}`);
      }),
    ),
  );
}

/** The locked row or column as bars. */
function oneRow(app, name) {
  const weights = headOf(app.trace.get(name), app.state.head);
  const { locked } = app.state;
  const isColumn = locked !== null && locked < weights.shape[1];
  const isEncoder = weights.axes[0] === 'source';
  const { row } = rowOfPart(app, '', isEncoder);
  const shown = isColumn ? range(weights.shape[0]).map((i) => rowOf(weights, i)[locked]) : [...rowOf(weights, row)];
  const index = isColumn ? locked : row;
  const [whole, other] = isColumn ? weights.axes.toReversed() : weights.axes;
  const heading = [isColumn ? 'weights on column ' : 'weights of row ', el('bdi', `${index} ${app.trace.label(whole, index)}`)];
  return section(
    'one row or column',
    heading,
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
