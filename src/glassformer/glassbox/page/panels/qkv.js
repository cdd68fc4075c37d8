/** Q, K, V: the queries, keys and values of an attention. */

import { el } from 'glassbox/core/dom.js';
import { attentionPicker } from 'glassbox/panels/selection.js';
import { size } from 'glassbox/views/matrix.js';
import { stage } from 'glassbox/views/stage.js';
import { headTitle } from 'glassbox/model/labels.js';

export function qkv(app) {
  const { attention, head } = app.state;
  const row = attention.startsWith('decoder') ? app.row : undefined;
  return [
    el(
      'p.lead',
      attention.endsWith('.cross')
        ? 'Queries are computed from the decoder, keys and values from the encoder output (the memory). '
        : 'Queries, keys and values are computed from the same rows. ',
      'Every head reads whole rows: the projection matrices are split among the heads, the rows are not.',
    ),
    attentionPicker(app),
    ['queries', 'keys', 'values'].map((kind) => {
      const name = app.name(`${attention}.${kind}`);
      const title = `${kind} of ${headTitle(head)}`;
      return stage(app, name, { head, title, after: shapes(app, name), row: kind === 'queries' ? row : undefined });
    }),
  ];
}

function shapes({ trace }, name) {
  const { inputs, output } = trace.stepOf.get(name);
  const [x, weight] = inputs.map((input) => trace.get(input));
  const [heads, rows, width] = trace.get(output).shape;
  const all = weight ? size(weight) : `${trace.axes.head.length * width} × ${trace.axes.d_model.length}`;
  return el(
    'p.size',
    `x (${size(x)}) times the transpose of ${inputs[1]} (${all}), ` +
      `split into ${heads} ${heads === 1 ? 'head' : 'heads'} of ${rows} × ${width}`,
  );
}
