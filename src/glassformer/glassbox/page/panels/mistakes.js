/** The mistakes lab: common mistakes, each computed next to the correct version, with the number that reveals it. */

import { bdi, el, range, row, section, table, wide } from 'glassbox/core/dom.js';
import { recompute } from 'glassbox/model/interpreter.js';
import { formula } from 'glassbox/core/mathml.js';
import { at, digits, entropies, headOf, largest, meanOf, named, rowOf, sumOf } from 'glassbox/core/numbers.js';
import { attentionPicker, maskOf } from 'glassbox/panels/selection.js';
import { visible } from 'glassbox/model/trace.js';
import { headTitle, titleOf } from 'glassbox/model/labels.js';

/** Scaled scores of one head with a causal mask: tests/golden/attention.json. */
const SCALED = [
  [-1.5438387, 0.05315955, 1.32578425, 0.84519528],
  [-0.1892687, 0.51444745, -1.40663918, -0.00291401],
  [0.37845046, -1.84311222, 0.35341618, -0.53240191],
  [0.03040275, -0.18430356, 0.06196664, -0.36645295],
];

export const mistakes = (app) => [
  el('p.lead', 'Each of these mistakes runs without an error message. The number that reveals the mistake is red.'),
  attentionPicker(app),
  [columns, wrongIndex, scale, noMask, unitNorm, notShifted].map((mistake) => mistake(app)),
];

const sign = (isRight, text) =>
  el(`span.badge.${isRight ? 'green' : 'red'}`, { data: { right: String(isRight) } }, `${isRight ? '✓' : '✗'} ${text}`);

const lab = (title, words, ...tables) =>
  section(title, title, { class: 'stage', data: { mistake: title } }, el('p.words', words), tables.map((each) => wide(each)));

const softmax = (scores, mask) => recompute({ op: 'softmax', attributes: {} }, [scores, mask]);

/** A matrix and the sum of each of its rows. */
function withSums(caption, weights) {
  const rows = weights.map((numbers, i) => {
    const sum = sumOf(numbers);
    const isOne = Math.abs(sum - 1) < 1e-4;
    return row(String(i), ...numbers.map(digits), el('td', { data: { sum: String(sum) } }, sign(isOne, digits(sum))));
  });
  return table(caption, ['row', ...range(weights[0].length).map(String), 'sum of the row'], rows, { class: 'figures' });
}

function columns() {
  const powers = SCALED.map((scores, t) => scores.map((score, s) => (s <= t ? Math.exp(score) : 0)));
  const sums = powers.map(sumOf);
  return lab(
    'softmax that divides columns by row sums',
    'Without keepdims=True, the row sums are broadcast over the columns: column s ' +
      'is divided by the sum of row s. The weights of each row must add up to 1.',
    withSums(
      'correct: each row is divided by its own sum',
      powers.map((numbers, t) => numbers.map((power) => power / sums[t])),
    ),
    withSums(
      'wrong: each column is divided by the sum of a row',
      powers.map((numbers) => numbers.map((power, s) => power / sums[s])),
    ),
  );
}

/** Σ e_j^x for Σ e^{x_j}, with the scores of docs/mistakes.md. */
function wrongIndex() {
  const scores = [2, 1, 0];
  const powers = scores.map(Math.exp);
  const written = (term) =>
    formula(
      '<math><mfrac><msup><mi>e</mi><msub><mi>x</mi><mi>i</mi></msub></msup>' +
        `<mrow><munder><mo>∑</mo><mi>j</mi></munder>${term}</mrow></mfrac></math>`,
    );
  const line = (term, weights, isRight) => {
    const ratio = digits(Math.max(...weights) / Math.min(...weights));
    return row([`index at ${isRight ? 'x' : 'e'}`, written(term)], ...weights.map(digits), sign(isRight, ratio));
  };
  const right = powers.map((power) => power / sumOf(powers));
  const wrong = powers.map((power) => power / (scores.length * power));
  return lab(
    'wrong index in the softmax’s sum',
    'The sum in the denominator goes over the scores of all keys: j is the index of x. Where it is written at e, each ' +
      'term of the sum has the score of the numerator: all keys get the same weight, 1 ÷ their number. The ' +
      'weights still add up to 1, but the scores 2 and 0 need weights whose ratio is e² = 7.3891.',
    table(
      '',
      ['', ...scores.map((score) => `weight of score ${score}`), 'largest ÷ smallest weight'],
      [
        line('<msup><mi>e</mi><msub><mi>x</mi><mi>j</mi></msub></msup>', right, true),
        line('<msubsup><mi>e</mi><mi>j</mi><mi>x</mi></msubsup>', wrong, false),
      ],
      { class: 'figures' },
    ),
  );
}

function scale(app) {
  const { attention, head } = app.state;
  const [scores, mask] = [app.trace.get(app.name(`${attention}.scores`)), app.trace.get(maskOf(app, attention))];
  const { d_k: perHead, d_model: whole } = app.trace.axes;
  const line = (name, width, isRight) => {
    const divided = scores.numbers.map((score) => score / Math.sqrt(width));
    const weights = headOf(softmax(named(scores.axes, scores.shape, divided), mask), head);
    const entropy = digits(meanOf(entropies(weights)));
    return row(name, sign(isRight, digits(Math.sqrt(width))), entropy, digits(largest(weights.numbers)));
  };
  return lab(
    'dividing by √d_model',
    'The scale is √d_k, where d_k is the width of one head: for d_model = 512 and 8 heads it is √64 = 8, ' +
      'not √512 = 22.6. ' +
      `Here d_k = ${perHead.length} and d_model = ${whole.length}. ` +
      'A divisor that is too large makes the weights of a row too even: their entropy is too high.',
    table(
      '',
      ['divided by', 'scale', 'mean entropy of the rows', 'largest weight'],
      [line('√d_k', perHead.length, true), line('√d_model', whole.length, perHead.length === whole.length)],
    ),
  );
}

function noMask(app) {
  const name = app.trace.attentions().find((attention) => /^decoder.*self$/.test(attention));
  const [scaled, masked] = ['scaled', 'weights'].map((kind) => app.trace.get(app.name(`${name}.${kind}`)));
  const mask = app.trace.get(app.name('decoder.self_mask'));
  const { head } = app.state;
  const line = (label, all) => {
    const weights = headOf(all, head);
    const [rows, keys] = weights.shape;
    const isLater = (i) => i % keys > Math.floor(i / keys);
    const weight = sumOf(weights.numbers.filter((_, i) => isLater(i))) / rows;
    return row(label, sign(weight < 1e-6, digits(weight)));
  };
  return lab(
    'no causal mask',
    'In training, the decoder reads the whole target at once. Without the causal mask, a row can attend to ' +
      'the token that it must predict: the training loss becomes very low, but translations are wrong.',
    table(
      '',
      [`${titleOf(app.trace, name)}, ${headTitle(head)}`, 'mean weight on later positions'],
      [line('with the mask', masked), line('without it', softmax(scaled, named(mask.axes, mask.shape)))],
    ),
  );
}

function unitNorm(app) {
  const step = app.trace.steps.find(({ op }) => op === 'layer_norm');
  const [x, mean, variance] = step.inputs.map((name) => app.trace.get(name));
  const first = [...rowOf(x, 0)];
  const deviation = Math.sqrt(variance.numbers[0] + step.attributes.eps);
  const [small, large] = [Math.min(...first), Math.max(...first)];
  const line = (label, numbers, isRight) =>
    row(
      label,
      ...[Math.min(...numbers), Math.max(...numbers), meanOf(numbers)].map(digits),
      sign(isRight, isRight ? 'mean 0' : 'mean not 0'),
    );
  const normalized = first.map((number) => (number - mean.numbers[0]) / deviation);
  const rescaled = first.map((number) => (number - small) / (large - small));
  return lab(
    '“LayerNorm gives values from 0 to 1”',
    'Before γ and β, each row has mean 0 and variance σ² ÷ (σ² + ε), which is usually close to 1: ' +
      'values below 0 and above 1 are normal. ' +
      `Min-max scaling to the range from 0 to 1 is a different operation. The first row of ${step.output}:`,
    table(
      '',
      ['', 'smallest', 'largest', 'mean', ''],
      [line('layer norm, before γ and β', normalized, true), line('min-max scaling to 0 … 1', rescaled, false)],
    ),
  );
}

function notShifted(app) {
  const { inputs, targets } = app.rows;
  const logProbs = app.trace.get(app.name('log_probs'));
  if (!logProbs) return null;
  const losses = (tokens) => tokens.map((token, i) => -at(logProbs, [i, token.id]));
  const [right, wrong] = [losses(targets), losses(inputs)];
  const token = ({ text }) => bdi(visible(text));
  const lines = inputs
    .slice(0, 8)
    .map((input, i) => row(String(i), token(input), token(targets[i]), digits(right[i]), token(input), digits(wrong[i])));
  const means = [sign(true, digits(meanOf(right))), sign(meanOf(wrong) <= meanOf(right), digits(meanOf(wrong)))];
  return lab(
    'target not shifted',
    'If the target of a row is its own input token, copying is enough: the training loss falls to 0 and the model ' +
      'learns nothing useful. This model was trained with shifted targets, so unshifted targets have a high loss.',
    table(
      '',
      ['row', 'decoder input', 'target, shifted', 'loss', 'target, not shifted', 'loss'],
      [...lines, row('mean of all rows', '', '', means[0], '', means[1])],
    ),
  );
}
