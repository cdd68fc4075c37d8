/** Add & norm, feed-forward: the output of a sublayer is added to the residual stream, and each row is normalized. */

import { el, select, table } from 'glassbox/dom.js';
import { at, digits, rowOf } from 'glassbox/numbers.js';
import { bars } from 'glassbox/panels/attention.js';
import { titleOf } from 'glassbox/panels/selection.js';
import { pickable } from 'glassbox/pick.js';
import { stage, together } from 'glassbox/stage.js';

const FEATURES = 12; // of the table of one position

export function norm(app) {
  const parts = partsOf(app.trace);
  const part = parts.includes(app.state.part) ? app.state.part : app.state.attention;
  const isEncoder = part.startsWith('encoder');
  const isLast = part.endsWith('_norm');
  const tensor = (name) => app.name(`${part}${name}`);
  const normName = isLast ? '' : '_norm';
  const rows = app.trace.get(tensor(`${normName}.output`)).shape[0];
  const row = isEncoder ? Math.min(app.state.column, rows - 1) : app.row;
  const onRow = (chosen) => app.set(isEncoder ? { column: chosen } : { row: chosen });
  const shown = { row, onRow };
  const inside = isLast
    ? []
    : [
        ...(part.endsWith('feed_forward') ? feedForward(app, tensor, shown) : [stage(app, tensor('.output'), shown)]),
        stage(app, tensor('.residual'), shown),
      ];
  const normStage = normStages(app, tensor, normName, shown);
  return [
    el(
      'p.lead',
      app.trace.isPreNorm
        ? 'This model is pre-norm (the paper is post-norm): each sublayer reads a normalized copy of the ' +
            'residual stream, and the output of the sublayer is added to the stream.'
        : 'This model is post-norm, as in the paper: the output of a sublayer is added to its ' +
            'input, and the sum is normalized for each position separately.',
    ),
    select(
      'sublayer',
      parts.map((name) => [name, titleOf(name)]),
      part,
      (chosen) => app.set({ part: chosen }),
    ),
    onePosition(app, tensor(`${normName}.output`), row),
    app.trace.isPreNorm ? [normStage, inside] : [inside, normStage],
  ];
}

/** All sublayers, and the final norms of a pre-norm model, in the order of the steps. */
const partsOf = (trace) =>
  trace.steps.flatMap(({ output }) => {
    if (/^(encoder|decoder)_norm\.output$/.test(output)) return [output.replace('.output', '')];
    return /^(en|de)coder\.\d+\.\w+\.residual$/.test(output) ? [output.replace('.residual', '')] : [];
  });

function feedForward(app, tensor, shown) {
  const activated = app.trace.get(tensor('.activated'));
  const [rows, width] = activated.shape;
  const zeros = Array.from(
    { length: rows },
    (_, row) => rowOf(activated, row).filter((number) => number === 0).length / width,
  );
  const axis = activated.axes[0];
  const fraction = el(
    'details',
    el('summary', 'fraction of zeros after the activation, by position'),
    bars(zeros.map((zero, row) => [`${row} ${app.trace.label(axis, row)}`, zero])),
  );
  return [
    stage(app, tensor('.hidden'), shown),
    stage(app, tensor('.activated'), { ...shown, after: fraction }),
    stage(app, tensor('.output'), shown),
  ];
}

function normStages(app, tensor, normName, shown) {
  const name = (kind) => tensor(`${normName}.${kind}`);
  return [
    together(stage(app, name('mean')), stage(app, name('variance'))),
    stage(app, name('output'), { ...shown, after: means(app, name('output')) }),
  ];
}

/** The layer norm of one position: x, x − μ, ÷ √(σ² + ε), · γ, + β. */
function onePosition(app, name, row) {
  const step = app.trace.stepOf.get(name);
  const [x, mean, variance, gain, bias] = step.inputs.map((input) => app.trace.get(input));
  const [mu, sigmaSquared] = [mean.numbers[row], variance.numbers[row]];
  const { eps } = step.attributes;
  const shownCell = (i, text, column) =>
    ({
      0: () => pickable(app, step.inputs[0], [row, column], text),
      5: () => pickable(app, name, [row, column], text),
    })[i]?.() ?? text;
  const rows = Array.from({ length: Math.min(FEATURES, x.shape[1]) }, (_, column) => {
    const centered = at(x, [row, column]) - mu;
    const scaled = centered / Math.sqrt(sigmaSquared + eps);
    const cells = [
      at(x, [row, column]),
      centered,
      scaled,
      gain?.numbers[column],
      bias?.numbers[column],
      at(app.trace.get(name), [row, column]),
    ];
    return el(
      'tr',
      el('th', { scope: 'row' }, String(column)),
      cells.map((number, i) => el('td', number === undefined ? 'not available' : shownCell(i, digits(number), column))),
    );
  });
  return el(
    'section.stage',
    { 'aria-label': 'layer norm of one position' },
    el('h2', 'layer norm of one position: ', el('bdi', `${row} ${app.trace.label(x.axes[0], row)}`)),
    el(
      'p.size',
      `μ = ${digits(mu)}, σ² = ${digits(sigmaSquared)} (divided by ${x.shape[1]}, not ` +
        `${x.shape[1] - 1}), ε = ${eps}; the first ${rows.length} of ${x.shape[1]} features`,
    ),
    el(
      'div.scroller',
      table('', ['feature', 'x', 'x − μ', '÷ √(σ² + ε)', 'γ', 'β', 'output'], rows, { class: 'figures' }),
    ),
  );
}

/** The means over each row, as in layer norm, and over each column, as in batch norm. */
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
    el('summary', 'layer norm uses the mean of each row; batch norm would use the mean of each column'),
    el(
      'div.scroller',
      table(
        '',
        [],
        [
          line('mean of each row (layer norm)', byRow),
          line(`mean of each column (batch norm, over this text), the first ${byColumn.length}`, byColumn),
        ],
        { class: 'figures' },
      ),
    ),
  );
}
