/** Embedding and position: the row of the table, × √d_model, + the waves that say where. */

import { button, choices, el, slider } from 'glassbox/dom.js';
import { sinusoid } from 'glassbox/interpreter.js';
import { digits, dot, rowOf } from 'glassbox/numbers.js';
import { lines } from 'glassbox/chart.js';
import { noEdits } from 'glassbox/panels/place.js';
import { stage } from 'glassbox/stage.js';

const PLACES = 100; // positions of the curves

export function embedding(app) {
  const side = app.state.part === 'target' ? 'target' : 'source';
  const name = (quantity) => app.name(`${side}.${quantity}`);
  const onRow = (row) => app.set(side === 'target' ? { row } : { column: row });
  const row = side === 'target' ? app.row : Math.min(app.state.column, app.trace.axes.source.length - 1);
  const shown = { onRow, row };
  return [
    el(
      'p.lead',
      'Each token has a row of numbers that was learned. It is multiplied ' +
        'by √d_model, and a row that depends on the position alone is added.',
    ),
    el(
      'div.row',
      choices(
        'side',
        [
          ['source', 'source'],
          ['target', 'target'],
        ],
        side,
        (part) => app.set({ part }),
      ),
      app.canEdit
        ? button('positions off', () => app.toggleEdit('positions off'), {
            'aria-pressed': String(app.words.includes('positions off')),
            data: { key: 'positions-off' },
          })
        : null,
    ),
    noEdits(app),
    stage(app, name('embedded'), shown),
    stage(app, name('scale'), { title: 'the scale: √d_model' }),
    stage(app, name('scaled'), shown),
    stage(app, name('positions'), shown),
    stage(app, name('input'), shown),
    waves(app, name('positions')),
  ];
}

/** A column as a wave, and PE(p) · PE(p + k): it depends on k alone. */
function waves(app, name) {
  const step = app.trace.stepOf.get(name) ?? app.trace.stepOf.get(`${name}_before_edit`);
  if (step?.op !== 'sinusoids') return el('p.hint', 'This model has learned positions: there are no waves to draw.');
  const { base, d_model: width } = step.attributes;
  const column = Math.min(app.state.wave ?? 4, width - 1);
  const row = (place) => Float64Array.from({ length: width }, (_, i) => sinusoid(place, i, base, width));
  const range = Array.from({ length: PLACES }, (_, place) => place);
  const here = Math.min(app.state.column, PLACES - 1);
  const near = row(here);
  const products = range.map((place) => dot(near, 0, row(place), 0, width));
  const recorded = app.trace.get(name);
  const first = Array.from({ length: Math.min(6, recorded.shape[0]) }, (_, place) => place);
  const texts = first.map((place) => digits(rowOf(recorded, place)[column]));
  return el(
    'section',
    { 'aria-label': 'waves' },
    el('h2', 'The waves'),
    slider('feature', { max: width - 1, value: column }, (wave) => app.set({ wave })),
    lines(
      `feature ${column} at positions 0 to ${PLACES - 1}`,
      [{ name: column % 2 ? 'cosine' : 'sine', numbers: range.map((place) => sinusoid(place, column, base, width)) }],
      { from: 'position' },
    ),
    el(
      'p.size',
      `wavelength ${digits(2 * Math.PI * base ** ((2 * Math.floor(column / 2)) / width))} positions; ` +
        `in this text: ${texts.join(', ')} …`,
    ),
    slider('position p', { max: PLACES - 1, value: here }, (place) => app.set({ column: place })),
    lines(`PE(${here}) · PE(q) for q from 0 to ${PLACES - 1}`, [{ name: 'dot product', numbers: products }], {
      from: 'position q',
      mark: here,
    }),
    el(
      'p.words',
      'The product depends on the distance alone, and is largest at ' +
        'distance 0: that is how a head can look “two to the left”.',
    ),
  );
}
