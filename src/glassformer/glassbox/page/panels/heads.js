/** Heads: all attention weights at a glance; a tick switches a head off. */

import { button, el, svg } from 'glassbox/dom.js';
import { at, digits, entropies, headOf } from 'glassbox/numbers.js';
import { noEdits, spoken } from 'glassbox/panels/place.js';

const GROUPS = [
  ['encoder, self-attention', /^encoder.*self$/],
  ['decoder, self-attention', /^decoder.*self$/],
  ['cross-attention', /cross$/],
];
const MOST = 48; // cells along one side of a small picture

export function heads(app) {
  return [
    el(
      'p.lead',
      'Every head of every layer. A row is where one position looks; the darker, the ' +
        'larger the share. Choose one to open it; take its tick away to switch it off.',
    ),
    noEdits(app),
    GROUPS.map(([title, pattern]) =>
      el(
        'section',
        { 'aria-label': title },
        el('h2', title),
        el(
          'div.heads',
          app.trace
            .attentions()
            .filter((name) => pattern.test(name))
            .map((name) => row(app, name)),
        ),
      ),
    ),
  ];
}

function row(app, name) {
  const weights = app.trace.get(app.name(`${name}.weights`));
  const layer = Number(name.split('.')[1]) + 1;
  return el(
    'div.head-row',
    el('span.size', `layer ${layer}`),
    Array.from({ length: weights.shape[0] }, (_, head) => tile(app, name, head, headOf(weights, head))),
  );
}

function tile(app, name, head, weights) {
  const off = `head ${name} ${head} off`;
  const isOff = app.words.includes(off);
  const spread = entropies(weights);
  const mean = spread.reduce((sum, entropy) => sum + entropy, 0) / spread.length;
  const label = `head ${head} of ${spoken(name)}, mean entropy ${digits(mean)} nats`;
  const tick = el('input', {
    type: 'checkbox',
    checked: !isOff,
    disabled: !app.canEdit,
    data: { key: off },
    on: { change: () => app.toggleEdit(off) },
  });
  return el(
    'div.tile',
    { class: isOff ? 'off' : null },
    button(picture(weights), () => app.set({ panel: 'attention', part: name, head, view: 'steps' }), {
      class: 'picture',
      'aria-label': label,
      title: label,
      data: { key: `tile-${name}-${head}` },
    }),
    el('label', tick, ` head ${head}`, el('span.visually-hidden', ` of ${spoken(name)} is on`)),
    el('small', { title: 'mean entropy of its rows, in nats' }, `H ${digits(mean)}`),
  );
}

/** Weights [rows columns] as squares; of long ones the first rows and columns. */
function picture(weights) {
  const [rows, columns] = weights.shape.map((length) => Math.min(length, MOST));
  const cells = [];
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const share = at(weights, [row, column]);
      if (share >= 0.02)
        cells.push(svg('rect', { x: column, y: row, width: 1, height: 1, 'fill-opacity': share.toFixed(2) }));
    }
  }
  return svg('svg', { viewBox: `0 0 ${columns} ${rows}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' }, cells);
}
