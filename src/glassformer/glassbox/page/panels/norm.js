/** Add & norm, feed-forward: the output of a sublayer is added to the residual stream, and each row is normalized. */

import { el, range, row, section, table, wide } from 'glassbox/core/dom.js';
import { at, digits, percent, rowOf } from 'glassbox/core/numbers.js';
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
    stage(app, normed('output'), shown),
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

/** Fractions as bars. @param {[string, number][]} fractions  label, number */
const bars = (fractions) =>
  el(
    'ul.bars',
    fractions.map(([label, fraction]) => el('li', el('bdi', { title: label }, label), el('i', { style: { '--fraction': `${fraction * 100}%` } }), el('span', percent(fraction)))),
  );

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
