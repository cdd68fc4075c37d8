/** A number outside a matrix that is a cell of a tensor: a button that opens it in the inspector. */

import { button } from 'glassbox/core/dom.js';
import { place, tensorTitle } from 'glassbox/model/labels.js';

/** The text as a button, or as it is where the trace does not have the tensor. */
export function pickable(app, name, cell, text) {
  if (!app.trace.has(name)) return text;
  const title = `${tensorTitle(app.trace, name)} · ${place(app.trace, app.trace.get(name).axes, cell)}`;
  const key = `number-${name}-${cell.join('-')}`;
  return button(text, () => app.pick(name, cell, key), {
    class: 'number',
    title,
    'aria-label': `${text}: ${title}`,
    data: { key, pick: `${name}@${cell.join()}` },
  });
}
