/** Q, K, V: the queries, keys and values of an attention. */

import { el } from 'glassbox/dom.js';
import { attentionPicker } from 'glassbox/panels/selection.js';
import { size } from 'glassbox/matrix.js';
import { stage } from 'glassbox/stage.js';

export function qkv(app) {
  const { attention, head } = app.state;
  const isCross = attention.endsWith('.cross');
  return [
    el(
      'p.lead',
      isCross
        ? 'Queries are computed from the decoder, keys and values from the encoder output (the memory). '
        : 'Queries, keys and values are computed from the same rows. ',
      'Every head reads whole rows: the projection matrices are split among the heads, the rows are not.',
    ),
    attentionPicker(app),
    ['queries', 'keys', 'values'].map((kind) => {
      const name = app.name(`${attention}.${kind}`);
      return stage(app, name, {
        head,
        title: `${kind} of head ${head}`,
        after: shapes(app, name),
        row: kind === 'queries' ? rowOf(app) : undefined,
      });
    }),
  ];
}

const rowOf = (app) => (app.state.attention.startsWith('decoder') ? app.row : undefined);

function shapes(app, name) {
  const { inputs, output } = app.trace.stepOf.get(name);
  const [x, weight] = inputs.map((input) => app.trace.get(input));
  const axes = app.trace.axes;
  const all = app.trace.get(output);
  const width = weight ? size(weight) : `${axes.head.length * all.shape[2]} × ${axes.d_model.length}`;
  return el(
    'p.size',
    `x (${size(x)}) times the transpose of ${inputs[1]} (${width}), ` +
      `split into ${all.shape[0]} ${all.shape[0] === 1 ? 'head' : 'heads'} of ${all.shape[1]} × ${all.shape[2]}`,
  );
}
