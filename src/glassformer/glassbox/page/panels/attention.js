/** The computation of attention: Q Kᵀ, ÷ √d_k, mask, softmax, · V, concatenation of the heads, W_O. */

import { choices, el } from 'glassbox/core/dom.js';
import { digits, entropies, headOf, rowOf, sumOf } from 'glassbox/core/numbers.js';
import { attentionPicker, maskOf, rowOfPart } from 'glassbox/panels/selection.js';
import { mistakes } from 'glassbox/panels/mistakes.js';
import { product } from 'glassbox/views/product.js';
import { stage, together } from 'glassbox/views/stage.js';
import { headTitle } from 'glassbox/model/labels.js';

export function attention(app) {
  const { view } = app.state;
  const views = { steps: 'computation', mistakes: 'mistakes lab' };
  return [choices('view', views, view, (chosen) => app.set({ view: chosen })), { steps, mistakes }[view](app)];
}

function steps(app) {
  const { attention: name, head, locked, rows } = app.state;
  const tensor = (kind) => app.name(`${name}.${kind}`);
  const shown = rowOfPart(app, name);
  const options = {
    ...shown,
    head,
    isOneRow: rows === 'one',
    mask: maskOf(app, name),
    column: locked ?? undefined,
    onColumn: (column) => app.set({ locked: column === locked ? null : column, rows: 'all' }),
  };
  const plain = { row: shown.row, isOneRow: options.isOneRow };
  const drawn = (kind) => {
    const step = app.state.compare === 'difference' ? null : app.trace.stepOf.get(tensor(kind)); // a difference is no product
    return step ? product(app, step, head, app.width) : null;
  };
  return [
    el(
      'p.lead',
      'Each row is a query, each column is a key. Softmax turns the scores of a row into weights, ' +
        'and the output of the row is the weighted sum of the values.',
    ),
    attentionPicker(app, choices('rows', { one: 'one row', all: 'all rows' }, rows, (chosen) => app.set({ rows: chosen }))),
    stage(app, tensor('scores'), { ...options, title: `scores of ${headTitle(head)}: Q Kᵀ`, before: drawn('scores') }),
    together(
      stage(app, tensor('scale'), { title: 'the scale: √d_k' }),
      stage(app, tensor('scaled'), { ...options, title: 'scaled scores: ÷ √d_k; hatched cells are masked' }),
    ),
    stage(app, tensor('weights'), { ...options, title: 'weights: softmax over each row', after: facts(app, tensor('weights'), shown.row) }),
    stage(app, tensor('heads'), { ...plain, onRow: shown.onRow, head, title: `output of ${headTitle(head)}: weights · values`, before: drawn('heads') }),
    ['concatenated', 'output'].map((kind) => stage(app, tensor(kind), plain)),
  ];
}

/** The sum of the row, and its entropy: 0 for one key with weight 1, ln n for n equal weights. */
function facts(app, name, row) {
  const weights = headOf(app.trace.get(name), app.state.head);
  const entropy = digits(entropies(weights)[row]);
  return el('p.size', `row ${row}: sum ${digits(sumOf(rowOf(weights, row)))}, entropy ${entropy} nats (maximum ${digits(Math.log(weights.shape[1]))})`);
}
