/** Embedding and position: the row of the embedding matrix, × √d_model, + the position encoding. */

import { choices, el, range, section, slider } from 'glassbox/core/dom.js';
import { sinusoid } from 'glassbox/model/interpreter.js';
import { digits, rowOf } from 'glassbox/core/numbers.js';
import { lines } from 'glassbox/views/chart.js';
import { positionTable } from 'glassbox/panels/positiontable.js';
import { editButton, noEdits, rowOfPart } from 'glassbox/panels/selection.js';
import { stage, together } from 'glassbox/views/stage.js';

const POSITIONS = 100; // positions of the curves

export function embedding(app) {
  const side = app.state.part === 'target' ? 'target' : 'source';
  const name = (tensor) => app.name(`${side}.${tensor}`);
  const shown = rowOfPart(app, side, side === 'source');
  return [
    el(
      'p.lead',
      'Each token has a learned embedding: a row of the embedding matrix. ',
      app.trace.has(name('scaled')) ? 'The embedding is multiplied by √d_model, and a ' : 'A ',
      'vector that depends only on the position is added.',
    ),
    el(
      'div.row',
      choices('side', { source: 'source', target: 'target' }, side, (part) => app.set({ part })),
      app.canEdit ? editButton(app, 'positions off') : null,
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

/** A column of the position encoding as a curve. */
function waves(app, name) {
  const step = app.trace.stepOf.get(name) ?? app.trace.stepOf.get(`${name}_before_edit`);
  if (step?.op !== 'sinusoids') return null;
  const { base, d_model: width } = step.attributes;
  const wave = el('div');
  const showWave = (column) => wave.replaceChildren(...waveOf(app, app.trace.get(name), base, column));
  const column = Math.min(app.state.wave, width - 1);
  showWave(column);
  const features = { max: width - 1, value: column };
  return section(
    'sinusoids',
    'Sinusoids',
    slider('feature', features, showWave, { onChange: (chosen) => app.set({ wave: chosen }) }),
    wave,
    el(
      'p.words',
      'For a fixed k, PE(p + k) is a linear function of PE(p), so that a head can learn to attend by relative position.',
    ),
  );
}

function waveOf(app, recorded, base, column) {
  const width = recorded.shape[1];
  const texts = range(Math.min(6, recorded.shape[0])).map((position) => digits(rowOf(recorded, position)[column]));
  const numbers = range(POSITIONS).map((position) => sinusoid(position, column, base, width));
  const title = `feature ${column} at positions 0 to ${POSITIONS - 1}`;
  const length = digits(2 * Math.PI * base ** ((2 * Math.floor(column / 2)) / width));
  return [
    lines(title, [{ name: column % 2 ? 'cosine' : 'sine', numbers }], { axis: 'position', width: Math.min(640, app.width) }),
    el('p.size', `wavelength ${length} positions; in this trace: ${texts.join(', ')} …`),
  ];
}
