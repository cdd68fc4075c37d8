/** The selected part of the architecture: an attention, a head, a row. */

import { button, choices, el, range, select } from 'glassbox/core/dom.js';
import { titleOf } from 'glassbox/model/labels.js';

/** A list of parts to select one from. */
export const partSelect = (app, label, parts, part) =>
  select(label, parts.map((name) => [name, titleOf(app.trace, name)]), part, (chosen) => app.set({ part: chosen }));

/** Controls that select an attention and a head, and more of them. */
export function attentionPicker(app, ...more) {
  const heads = range(app.trace.axes.head.length).map((i) => [i, String(i + 1)]);
  return el(
    'div.row',
    partSelect(app, 'attention', app.trace.attentions(), app.state.attention),
    el('span.field', el('span', 'head'), choices('head', heads, app.state.head, (chosen) => app.set({ head: chosen }))),
    more,
  );
}

/** A button that makes an edit, or takes it back. */
export const editButton = (app, words, label = words) =>
  button(label, () => app.toggleEdit(words), { 'aria-pressed': String(app.words.includes(words)), data: { key: `toggle-${words}` } });

/** The row of a part that is selected: of the encoder a source token, of the decoder a step; and what selects another. */
export function rowOfPart(app, part, isEncoder = part.startsWith('encoder')) {
  const row = isEncoder ? Math.min(app.state.column, app.trace.axes.source.length - 1) : app.row;
  return { row, onRow: (chosen) => app.set(isEncoder ? { column: chosen } : { row: chosen }) };
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
        'Edits are not available: this page does not include the weights of the model. Use “glassformer serve MODEL”.',
      );
