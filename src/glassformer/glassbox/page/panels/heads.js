/** Heads: the attention weights of all heads; a checkbox switches a head off. */

import { button, el, svg } from 'glassbox/dom.js';
import { at, digits, entropies, headOf } from 'glassbox/numbers.js';
import { noEdits, titleOf } from 'glassbox/panels/selection.js';

const GROUPS = [
  ['encoder, self-attention', /^encoder.*self$/],
  ['decoder, self-attention', /^decoder.*self$/],
  ['cross-attention', /cross$/],
];
const MAX_CELLS = 48; // along one side of a small picture
const SHADES = 20;

export function heads(app) {
  return [
    el(
      'p.lead',
      'All heads of all layers. A row has the attention weights of one position: the stronger the ' +
        'color, the larger the weight. Select a head to open it. Clear its checkbox to switch it off.',
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
  const layer = name.split('.')[1];
  return el(
    'div.head-row',
    el('span.size', `layer ${layer}`),
    Array.from({ length: weights.shape[0] }, (_, head) => tile(app, name, head, headOf(weights, head))),
  );
}

function tile(app, name, head, weights) {
  const off = `head ${name} ${head} off`;
  const isOff = app.words.includes(off);
  const entropy = entropies(weights);
  const mean = entropy.reduce((sum, number) => sum + number, 0) / entropy.length;
  const label = `head ${head} of ${titleOf(name)}, mean entropy ${digits(mean)} nats`;
  const checkbox = el('input', {
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
    el('label', checkbox, ` head ${head}`, el('span.visually-hidden', ` of ${titleOf(name)} is on`)),
    el('small', { title: 'mean entropy of the rows, in nats' }, `H ${digits(mean)}`),
  );
}

/**
 * Weights [rows columns] as squares; of a large matrix the first MAX_CELLS rows and columns. Squares of about the same
 * weight are one path, because a large model has more squares than a page can draw at once.
 */
function picture(weights) {
  const [rows, columns] = weights.shape.map((length) => Math.min(length, MAX_CELLS));
  const paths = new Map();
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const weight = at(weights, [row, column]);
      const opacity = Math.ceil(weight * SHADES) / SHADES;
      if (weight >= 0.02) paths.set(opacity, `${paths.get(opacity) ?? ''}M${column} ${row}h1v1h-1z`);
    }
  }
  return svg(
    'svg',
    { viewBox: `0 0 ${columns} ${rows}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    [...paths].map(([opacity, d]) => svg('path', { d, 'fill-opacity': opacity })),
  );
}
