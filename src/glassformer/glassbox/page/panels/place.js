/** Where in the architecture a panel looks: an attention, a head, a sublayer. */

import { choices, el, select } from 'glassbox/dom.js';

const NAMES = { self: 'self-attention', cross: 'cross-attention', feed_forward: 'feed-forward' };

/** "decoder.1.cross" as people say it. */
export function spoken(part) {
  const [side, layer, kind] = part.split('.');
  return kind
    ? `${side} layer ${Number(layer) + 1}, ${NAMES[kind]}`
    : ({ encoder_norm: 'encoder, last norm', decoder_norm: 'decoder, last norm' }[part] ?? part);
}

/** Choose attention and head. */
export function attentionPicker(app) {
  const { attention, head } = app.state;
  const heads = Array.from({ length: app.trace.axes.head.length }, (_, i) => [i, String(i)]);
  return el(
    'div.row',
    select(
      'attention',
      app.trace.attentions().map((name) => [name, spoken(name)]),
      attention,
      (part) => app.set({ part }),
    ),
    el(
      'span.field',
      el('span', 'head'),
      choices('head', heads, head, (chosen) => app.set({ head: chosen })),
    ),
  );
}

/** The masks of an attention. */
export function maskOf(app, attention) {
  const kind = attention.split('.').at(-1);
  return app.name(`${attention.startsWith('encoder') ? 'encoder' : 'decoder'}.${kind}_mask`);
}

/** A hint that something cannot be edited here, or nothing. */
export const noEdits = (app) =>
  app.canEdit
    ? null
    : el(
        'p.hint',
        'This file has no weights (the model is large), so that ' +
          'nothing can be changed here: “glassformer serve MODEL” can.',
      );
