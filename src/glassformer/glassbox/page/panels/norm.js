/** Add & norm, feed-forward: what a sublayer says is added to the stream, and each row is normed. */

import { el, select, table } from 'glassbox/dom.js';
import { at, digits, rowOf } from 'glassbox/numbers.js';
import { bars } from 'glassbox/panels/attention.js';
import { spoken } from 'glassbox/panels/place.js';
import { stage } from 'glassbox/stage.js';

const FEATURES = 12; // of the table of one position

export function norm(app) {
  const parts = partsOf(app.trace);
  const part = parts.includes(app.state.part) ? app.state.part : app.state.attention;
  const isEncoder = part.startsWith('encoder');
  const isLast = part.endsWith('_norm');
  const quantity = (name) => app.name(`${part}${name}`);
  const normName = isLast ? '' : '_norm';
  const rows = app.trace.get(quantity(`${normName}.output`)).shape[0];
  const row = isEncoder ? Math.min(app.state.column, rows - 1) : app.row;
  const onRow = (place) => app.set(isEncoder ? { column: place } : { row: place });
  const shown = { row, onRow };
  const inside = isLast
    ? []
    : [
        ...(part.endsWith('feed_forward')
          ? feedForward(app, quantity, shown)
          : [stage(app, quantity('.output'), shown)]),
        stage(app, quantity('.residual'), shown),
      ];
  const normed = normStages(app, quantity, normName, shown);
  return [
    el(
      'p.lead',
      app.trace.isPreNorm
        ? 'This model is pre-norm: each sublayer reads a normed copy of the stream, ' +
            'and what it says is added to the stream itself (a departure from the paper).'
        : 'As in the paper: what the sublayer says is added to what ' +
            'it read, and the sum is normed, each position by itself.',
    ),
    select(
      'sublayer',
      parts.map((name) => [name, spoken(name)]),
      part,
      (chosen) => app.set({ part: chosen }),
    ),
    onePosition(app, quantity(`${normName}.output`), row),
    app.trace.isPreNorm ? [normed, inside] : [inside, normed],
  ];
}

/** All sublayers, and the last norms of a pre-norm model, in the order of the steps. */
const partsOf = (trace) =>
  trace.steps.flatMap(({ output }) => {
    if (/^(encoder|decoder)_norm\.output$/.test(output)) return [output.replace('.output', '')];
    return /^(en|de)coder\.\d+\.\w+\.residual$/.test(output) ? [output.replace('.residual', '')] : [];
  });

function feedForward(app, quantity, shown) {
  const activated = app.trace.get(quantity('.activated'));
  const [rows, width] = activated.shape;
  const zeros = Array.from(
    { length: rows },
    (_, row) => rowOf(activated, row).filter((number) => number === 0).length / width,
  );
  const axis = activated.axes[0];
  const share = el(
    'details',
    el('summary', 'share of zeros after the activation, by position'),
    bars(zeros.map((zero, row) => [`${row} ${app.trace.label(axis, row)}`, zero])),
  );
  return [
    stage(app, quantity('.hidden'), shown),
    stage(app, quantity('.activated'), { ...shown, after: share }),
    stage(app, quantity('.output'), shown),
  ];
}

function normStages(app, quantity, normName, shown) {
  const name = (kind) => quantity(`${normName}.${kind}`);
  return [
    stage(app, name('mean')),
    stage(app, name('variance')),
    stage(app, name('output'), { ...shown, after: means(app, name('output')) }),
  ];
}

/** One position on its way through the norm: x, x − μ, ÷ √(σ² + ε), · γ, + β. */
function onePosition(app, name, row) {
  const step = app.trace.stepOf.get(name);
  const [x, mean, variance, gain, bias] = step.inputs.map((input) => app.trace.get(input));
  const [middle, spread] = [mean.numbers[row], variance.numbers[row]];
  const { eps } = step.attributes;
  const rows = Array.from({ length: Math.min(FEATURES, x.shape[1]) }, (_, column) => {
    const centred = at(x, [row, column]) - middle;
    const scaled = centred / Math.sqrt(spread + eps);
    const cells = [
      at(x, [row, column]),
      centred,
      scaled,
      gain?.numbers[column],
      bias?.numbers[column],
      at(app.trace.get(name), [row, column]),
    ];
    return el(
      'tr',
      el('th', { scope: 'row' }, String(column)),
      cells.map((number) => el('td', number === undefined ? '?' : digits(number))),
    );
  });
  return el(
    'section.stage',
    { 'aria-label': 'one position through the norm' },
    el('h3', 'one position through the norm: ', el('bdi', `${row} ${app.trace.label(x.axes[0], row)}`)),
    el(
      'p.size',
      `μ = ${digits(middle)}, σ² = ${digits(spread)} (divided by ${x.shape[1]}, not ` +
        `${x.shape[1] - 1}), ε = ${eps}; the first ${rows.length} of ${x.shape[1]} features`,
    ),
    el(
      'div.scroller',
      table('', ['feature', 'x', 'x − μ', '÷ √(σ² + ε)', 'γ', 'β', 'out'], rows, { class: 'figures' }),
    ),
  );
}

/** Layer norm has a mean for each row; batch norm would have one for each column. */
function means(app, name) {
  const x = app.trace.get(app.trace.stepOf.get(name).inputs[0]);
  const [rows, width] = x.shape;
  const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
  const byRow = Array.from({ length: rows }, (_, row) => mean(rowOf(x, row)));
  const byColumn = Array.from({ length: Math.min(rows, width) }, (_, column) =>
    mean(Array.from({ length: rows }, (__, row) => at(x, [row, column]))),
  );
  const line = (label, numbers) =>
    el(
      'tr',
      el('th', { scope: 'row' }, label),
      numbers.map((number) => el('td', digits(number))),
    );
  return el(
    'details',
    el('summary', 'per row, not per column: the means of both'),
    el(
      'div.scroller',
      table(
        '',
        [],
        [
          line('mean of each row (layer norm)', byRow),
          line(`mean of each column (batch norm), the first ${byColumn.length}`, byColumn),
        ],
        { class: 'figures' },
      ),
    ),
  );
}
