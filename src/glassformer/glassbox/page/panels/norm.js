/** Add & norm, feed-forward: the output of a sublayer is added to the residual stream, and each row is normalized. */

import { el, range, row, section, table, wide } from 'glassbox/core/dom.js';
import { at, digits, meanOf, rowOf } from 'glassbox/core/numbers.js';
import { bars } from 'glassbox/panels/attention.js';
import { partSelect, rowOfPart } from 'glassbox/panels/selection.js';
import { pickable } from 'glassbox/views/pick.js';
import { stage, together } from 'glassbox/views/stage.js';

const FEATURES = 12; // of the table of one position

export function norm(app) {
  const parts = partsOf(app.trace);
  const part = parts.includes(app.state.part) ? app.state.part : app.state.attention;
  const isLast = part.endsWith('_norm');
  const tensor = (name) => app.name(`${part}${name}`);
  const normed = (kind) => tensor(`${isLast ? '' : '_norm'}.${kind}`);
  const shown = rowOfPart(app, part);
  const sublayer = isLast
    ? []
    : [
        part.endsWith('feed_forward') ? feedForward(app, tensor, shown) : stage(app, tensor('.output'), shown),
        stage(app, tensor('.residual'), shown),
      ];
  const normStages = [
    together(stage(app, normed('mean')), stage(app, normed('variance'))),
    stage(app, normed('output'), { ...shown, after: means(app, normed('output')) }),
  ];
  return [
    el(
      'p.lead',
      app.trace.isPreNorm
        ? 'This model is pre-norm (the paper is post-norm): each sublayer reads a normalized copy of the ' +
            'residual stream, and the output of the sublayer is added to the stream.'
        : 'This model is post-norm, as in the paper: the output of a sublayer is added to its ' +
            'input, and the sum is normalized for each position separately.',
    ),
    partSelect(app, 'sublayer', parts, part),
    onePosition(app, normed('output'), shown.row),
    app.trace.isPreNorm ? [normStages, sublayer] : [sublayer, normStages],
  ];
}

/** All sublayers, and the final norms of a pre-norm model, in the order of the steps. */
const partsOf = (trace) =>
  trace.steps.flatMap(({ output }) => {
    const found = /^((?:en|de)coder_norm)\.output$|^((?:en|de)coder\.\d+\.\w+)\.residual$/.exec(output);
    return found ? [found[1] ?? found[2]] : [];
  });

function feedForward(app, tensor, shown) {
  const activated = app.trace.get(tensor('.activated'));
  const [rows, width] = activated.shape;
  const zeros = range(rows).map((row) => [
    `${row} ${app.trace.label(activated.axes[0], row)}`,
    rowOf(activated, row).filter((number) => number === 0).length / width,
  ]);
  const fraction = el('details', el('summary', 'fraction of zeros after the activation, by position'), bars(zeros));
  return [
    stage(app, tensor('.hidden'), shown),
    stage(app, tensor('.activated'), { ...shown, after: fraction }),
    stage(app, tensor('.output'), shown),
  ];
}

/** The layer norm of one position: x, x − μ, ÷ √(σ² + ε), · γ, + β. */
function onePosition(app, name, position) {
  const step = app.trace.stepOf.get(name);
  const [x, mean, variance, gain, bias] = step.inputs.map((input) => app.trace.get(input));
  const [mu, sigmaSquared] = [mean.numbers[position], variance.numbers[position]];
  const { eps } = step.attributes;
  const width = x.shape[1];
  const features = range(Math.min(FEATURES, width));
  const cell = (tensor, column) =>
    pickable(app, tensor, [position, column], digits(at(app.trace.get(tensor), [position, column])));
  const weight = (of, column) => (of ? digits(of.numbers[column]) : 'not available');
  const line = (column) => {
    const centered = at(x, [position, column]) - mu;
    const normalized = digits(centered / Math.sqrt(sigmaSquared + eps));
    const [gamma, beta] = [weight(gain, column), weight(bias, column)];
    const input = cell(step.inputs[0], column);
    return row(String(column), input, digits(centered), normalized, gamma, beta, cell(name, column));
  };
  return section(
    'layer norm of one position',
    ['layer norm of one position: ', el('bdi', `${position} ${app.trace.label(x.axes[0], position)}`)],
    { class: 'stage' },
    el(
      'p.size',
      `μ = ${digits(mu)}, σ² = ${digits(sigmaSquared)} (divided by ${width}, not ` +
        `${width - 1}), ε = ${eps}; the first ${features.length} of ${width} features`,
    ),
    wide(table('', ['feature', 'x', 'x − μ', '÷ √(σ² + ε)', 'γ', 'β', 'output'], features.map(line), { class: 'figures' })),
  );
}

/** The means over each row, as in layer norm, and over each column, as in batch norm. */
function means(app, name) {
  const x = app.trace.get(app.trace.stepOf.get(name).inputs[0]);
  const [rows, width] = x.shape;
  const byRow = range(rows).map((i) => meanOf(rowOf(x, i)));
  const byColumn = range(Math.min(rows, width)).map((column) => meanOf(range(rows).map((i) => at(x, [i, column]))));
  const columns = `mean of each column (batch norm, over this text), the first ${byColumn.length}`;
  const lines = [
    row('mean of each row (layer norm)', ...byRow.map(digits)),
    row(columns, ...byColumn.map(digits)),
  ];
  return el(
    'details',
    el('summary', 'layer norm uses the mean of each row; batch norm would use the mean of each column'),
    wide(table('', [], lines, { class: 'figures' })),
  );
}
