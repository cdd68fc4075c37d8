/** The selected part of the architecture: an attention, a head, a sublayer. */

import { choices, el, select } from 'glassbox/dom.js';
import { titleOf } from 'glassbox/labels.js';

export { titleOf };

/** Controls that select an attention and a head. */
export function attentionPicker(app) {
  const { attention, head } = app.state;
  const heads = Array.from({ length: app.trace.axes.head.length }, (_, i) => [i, String(i)]);
  return el(
    'div.row',
    select(
      'attention',
      app.trace.attentions().map((name) => [name, titleOf(name)]),
      attention,
      (part) => app.set({ part }),
    ),
    el(
      'span.field',
      { title: 'layers and heads count from 0' },
      el('span', 'head'),
      choices('head', heads, head, (chosen) => app.set({ head: chosen })),
    ),
  );
}

/** The mask of an attention. */
export function maskOf(app, attention) {
  const kind = attention.split('.').at(-1);
  return app.name(`${attention.startsWith('encoder') ? 'encoder' : 'decoder'}.${kind}_mask`);
}

/** A hint if edits are not available, otherwise nothing. */
export const noEdits = (app) =>
  app.canEdit
    ? null
    : el(
        'p.hint',
        'Edits are not available: this page does not include the weights ' +
          'of the model. Use “glassformer serve MODEL”.',
      );
