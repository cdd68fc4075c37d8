/** Embedding and position: the row of the embedding matrix, × √d_model, + the position encoding. */

import { button, choices, el, slider } from 'glassbox/dom.js';
import { sinusoid } from 'glassbox/interpreter.js';
import { digits, dot, rowOf } from 'glassbox/numbers.js';
import { lines } from 'glassbox/chart.js';
import { positionTable } from 'glassbox/panels/positiontable.js';
import { noEdits } from 'glassbox/panels/selection.js';
import { stage, together } from 'glassbox/stage.js';

const POSITIONS = 100; // positions of the curves

export function embedding(app) {
  const side = app.state.part === 'target' ? 'target' : 'source';
  const name = (tensor) => app.name(`${side}.${tensor}`);
  const onRow = (row) => app.set(side === 'target' ? { row } : { column: row });
  const row = side === 'target' ? app.row : Math.min(app.state.column, app.trace.axes.source.length - 1);
  const shown = { onRow, row };
  return [
    el(
      'p.lead',
      'Each token has a learned embedding: a row of the embedding matrix. ',
      app.trace.has(name('scaled')) ? 'The embedding is multiplied by √d_model, and a ' : 'A ',
      'vector that depends only on the position is added.',
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
    together(stage(app, name('scale'), { title: 'the scale: √d_model' }), stage(app, name('scaled'), shown)),
    stage(app, name('positions'), shown),
    stage(app, name('input'), shown),
    positionTable(app, name('positions')),
    waves(app, name('positions')),
  ];
}

/** A column of the position encoding as a curve, and PE(p) · PE(p + k), which depends only on k. */
function waves(app, name) {
  const step = app.trace.stepOf.get(name) ?? app.trace.stepOf.get(`${name}_before_edit`);
  if (step?.op !== 'sinusoids') return null;
  const { base, d_model: width } = step.attributes;
  const [wave, products] = [el('div'), el('div')];
  const showWave = (column) => wave.replaceChildren(...waveOf(app, name, step.attributes, column));
  const showProducts = (position) => products.replaceChildren(productsOf(step.attributes, position));
  const [column, here] = [Math.min(app.state.wave ?? 4, width - 1), Math.min(app.state.column, POSITIONS - 1)];
  showWave(column);
  showProducts(here);
  return el(
    'section',
    { 'aria-label': 'sinusoids' },
    el('h2', 'Sinusoids'),
    drawn('feature', { max: width - 1, value: column }, showWave, (chosen) => app.set({ wave: chosen })),
    wave,
    drawn('position p', { max: POSITIONS - 1, value: here }, showProducts, (chosen) => app.set({ column: chosen })),
    products,
    el(
      'p.words',
      'The dot product depends only on the distance between p and q, and it is largest at distance 0. For a ' +
        'fixed k, PE(p + k) is a linear function of PE(p), so that a head can learn to attend by relative position.',
    ),
  );
}

const range = (length) => Array.from({ length }, (_, i) => i);

/** A slider that shows while it moves, and keeps the number when it is released. */
function drawn(label, options, show, keep) {
  const field = slider(label, options, (value) => {
    field.querySelector('output').textContent = value;
    show(value);
  });
  const input = field.querySelector('input');
  input.addEventListener('change', () => keep(Number(input.value)));
  return field;
}

function waveOf(app, name, { base, d_model: width }, column) {
  const recorded = app.trace.get(name);
  const texts = range(Math.min(6, recorded.shape[0])).map((position) => digits(rowOf(recorded, position)[column]));
  const numbers = range(POSITIONS).map((position) => sinusoid(position, column, base, width));
  return [
    lines(`feature ${column} at positions 0 to ${POSITIONS - 1}`, [{ name: column % 2 ? 'cosine' : 'sine', numbers }], {
      axis: 'position',
    }),
    el(
      'p.size',
      `wavelength ${digits(2 * Math.PI * base ** ((2 * Math.floor(column / 2)) / width))} positions; ` +
        `in this trace: ${texts.join(', ')} …`,
    ),
  ];
}

function productsOf({ base, d_model: width }, here) {
  const row = (position) => Float64Array.from(range(width), (i) => sinusoid(position, i, base, width));
  const encoded = row(here);
  const numbers = range(POSITIONS).map((position) => dot(encoded, 0, row(position), 0, width));
  return lines(`PE(${here}) · PE(q) for q from 0 to ${POSITIONS - 1}`, [{ name: 'dot product', numbers }], {
    axis: 'position q',
    mark: here,
  });
}
