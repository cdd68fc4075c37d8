/** The mistakes lab: common mistakes, each computed next to the correct version, with the number that reveals it. */

import { bdi, el, table } from 'glassbox/dom.js';
import { recompute } from 'glassbox/interpreter.js';
import { formula } from 'glassbox/mathml.js';
import { at, digits, entropies, headOf, named, rowOf } from 'glassbox/numbers.js';
import { attentionPicker, maskOf } from 'glassbox/panels/selection.js';
import { visible } from 'glassbox/trace.js';

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
  columns(),
  wrongIndex(),
  scale(app),
  noMask(app),
  unitNorm(app),
  notShifted(app),
];

const sign = (isRight, text) =>
  el(
    'span.badge',
    { class: isRight ? 'green' : 'red', data: { right: String(isRight) } },
    `${isRight ? '✓' : '✗'} ${text}`,
  );

const lab = (title, words, ...parts) =>
  el('section.stage', { 'aria-label': title, data: { mistake: title } }, el('h2', title), el('p.words', words), parts);

const meanOf = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

const isOne = (sum) => Math.abs(sum - 1) < 1e-4;

/** A matrix and the sum of each of its rows. */
function withSums(caption, weights) {
  return el(
    'div.scroller',
    table(
      caption,
      ['row', ...weights[0].map((_, i) => String(i)), 'sum of the row'],
      weights.map((row, i) => {
        const sum = row.reduce((total, number) => total + number, 0);
        return el(
          'tr',
          el('th', { scope: 'row' }, String(i)),
          row.map((number) => el('td', digits(number))),
          el('td', { data: { sum: String(sum) } }, sign(isOne(sum), digits(sum))),
        );
      }),
      { class: 'figures' },
    ),
  );
}

function columns() {
  const powers = SCALED.map((row, t) => row.map((score, s) => (s <= t ? Math.exp(score) : 0)));
  const sums = powers.map((row) => row.reduce((total, number) => total + number, 0));
  return lab(
    'softmax that divides columns by row sums',
    'Without keepdims=True, the row sums are broadcast over the columns: column s ' +
      'is divided by the sum of row s. The weights of each row must add up to 1.',
    withSums(
      'correct: each row is divided by its own sum',
      powers.map((row, t) => row.map((power) => power / sums[t])),
    ),
    withSums(
      'wrong: each column is divided by the sum of a row',
      powers.map((row) => row.map((power, s) => power / sums[s])),
    ),
  );
}

/** Σ e_j^x for Σ e^{x_j}, with the scores of docs/mistakes.md. */
function wrongIndex() {
  const scores = [2, 1, 0];
  const powers = scores.map(Math.exp);
  const sum = powers.reduce((total, power) => total + power);
  const softmax = (power) =>
    formula(
      '<math><mfrac><msup><mi>e</mi><msub><mi>x</mi><mi>i</mi></msub></msup>' +
        `<mrow><munder><mo>∑</mo><mi>j</mi></munder>${power}</mrow></mfrac></math>`,
    );
  const line = (term, weights, isRight) =>
    el(
      'tr',
      el('th', { scope: 'row' }, `index at ${isRight ? 'x' : 'e'}`, softmax(term)),
      weights.map((weight) => el('td', digits(weight))),
      el('td', sign(isRight, digits(Math.max(...weights) / Math.min(...weights)))),
    );
  return lab(
    'wrong index in the softmax’s sum',
    'The sum in the denominator goes over the scores of all keys: j is the index of x. Where it is written at e, each ' +
      'term of the sum has the score of the numerator: all keys get the same weight, 1 ÷ their number. The ' +
      'weights still add up to 1, but the scores 2 and 0 need weights whose ratio is e² = 7.3891.',
    el(
      'div.scroller',
      table(
        '',
        ['', ...scores.map((score) => `weight of score ${score}`), 'largest ÷ smallest weight'],
        [
          line('<msup><mi>e</mi><msub><mi>x</mi><mi>j</mi></msub></msup>', powers.map((power) => power / sum), true),
          line('<msubsup><mi>e</mi><mi>j</mi><mi>x</mi></msubsup>', powers.map((power) => power / (scores.length * power)), false),
        ],
        { class: 'figures' },
      ),
    ),
  );
}

function scale(app) {
  const { attention, head } = app.state;
  const [scores, mask] = [app.trace.get(app.name(`${attention}.scores`)), app.trace.get(maskOf(app, attention))];
  const { d_k: perHead, d_model: whole } = app.trace.axes;
  const spread = (width) => {
    const scaled = named(
      scores.axes,
      scores.shape,
      scores.numbers.map((score) => score / Math.sqrt(width)),
    );
    const weights = headOf(recompute({ op: 'softmax', attributes: {} }, [scaled, mask]), head);
    const found = entropies(weights);
    return [meanOf(found), Math.max(...weights.numbers)];
  };
  const line = (name, width, isRight) => {
    const [entropy, largest] = spread(width);
    return el(
      'tr',
      el('th', { scope: 'row' }, name),
      [sign(isRight, digits(Math.sqrt(width))), digits(entropy), digits(largest)].map((part) => el('td', part)),
    );
  };
  const isSame = perHead.length === whole.length;
  return lab(
    'dividing by √d_model',
    'The scale is √d_k, where d_k is the width of one head: for d_model = 512 and 8 heads it is √64 = 8, ' +
      'not √512 = 22.6. ' +
      `Here d_k = ${perHead.length} and d_model = ${whole.length}. ` +
      'A divisor that is too large makes the weights of a row too even: their entropy is too high.',
    el(
      'div.scroller',
      table(
        '',
        ['divided by', 'scale', 'mean entropy of the rows', 'largest weight'],
        [line('√d_k', perHead.length, true), line('√d_model', whole.length, isSame)],
      ),
    ),
  );
}

function noMask(app) {
  const name = app.trace.attentions().find((attention) => /^decoder.*self$/.test(attention));
  const inputs = ['scaled', 'weights'].map((kind) => app.trace.get(app.name(`${name}.${kind}`)));
  const mask = app.trace.get(app.name('decoder.self_mask'));
  const open = named(mask.axes, mask.shape);
  const head = app.state.head;
  const future = (weights) => {
    const [rows, keys] = weights.shape;
    let sum = 0;
    for (let row = 0; row < rows; row += 1)
      for (let key = row + 1; key < keys; key += 1) sum += at(weights, [row, key]);
    return sum / rows;
  };
  const line = (label, weights) => {
    const weight = future(headOf(weights, head));
    return el('tr', el('th', { scope: 'row' }, label), el('td', sign(weight < 1e-6, digits(weight))));
  };
  return lab(
    'no causal mask',
    'In training, the decoder reads the whole target at once. Without the causal mask, a row can attend to ' +
      'the token that it must predict: the training loss becomes very low, but translations are wrong.',
    table(
      '',
      [`${name}, head ${head}`, 'mean weight on later positions'],
      [
        line('with the mask', inputs[1]),
        line('without it', recompute({ op: 'softmax', attributes: {} }, [inputs[0], open])),
      ],
    ),
  );
}

function unitNorm(app) {
  const step = app.trace.steps.find(({ op }) => op === 'layer_norm');
  const [x, mean, variance] = step.inputs.map((name) => app.trace.get(name));
  const normalized = [...rowOf(x, 0)].map(
    (number) => (number - mean.numbers[0]) / Math.sqrt(variance.numbers[0] + step.attributes.eps),
  );
  const [low, high] = [Math.min(...normalized), Math.max(...normalized)];
  const [small, large] = [Math.min(...rowOf(x, 0)), Math.max(...rowOf(x, 0))];
  const rescaled = [...rowOf(x, 0)].map((number) => (number - small) / (large - small));
  const line = (label, parts, isRight) =>
    el(
      'tr',
      el('th', { scope: 'row' }, label),
      parts.map((number) => el('td', digits(number))),
      el('td', sign(isRight, isRight ? 'mean 0' : 'mean not 0')),
    );
  return lab(
    '“LayerNorm gives values from 0 to 1”',
    'Before γ and β, each row has mean 0 and variance σ² ÷ (σ² + ε), which is usually close to 1: ' +
      'values below 0 and above 1 are normal. ' +
      `Min-max scaling to the range from 0 to 1 is a different operation. The first row of ${step.output}:`,
    el(
      'div.scroller',
      table(
        '',
        ['', 'smallest', 'largest', 'mean', ''],
        [
          line('layer norm, before γ and β', [low, high, meanOf(normalized)], true),
          line('min-max scaling to 0 … 1', [0, 1, meanOf(rescaled)], false),
        ],
      ),
    ),
  );
}

function notShifted(app) {
  const { inputs, targets } = app.rows;
  const logProbs = app.trace.get(app.name('log_probs'));
  if (!logProbs) return null;
  const loss = (tokens) => tokens.map((token, row) => -at(logProbs, [row, token.id]));
  const [right, wrong] = [loss(targets), loss(inputs)];
  const rows = inputs.slice(0, 8).map((token, row) =>
    el(
      'tr',
      el('th', { scope: 'row' }, String(row)),
      [
        bdi(visible(token.text)),
        bdi(visible(targets[row].text)),
        digits(right[row]),
        bdi(visible(token.text)),
        digits(wrong[row]),
      ].map((part) => el('td', part)),
    ),
  );
  return lab(
    'target not shifted',
    'If the target of a row is its own input token, copying is enough: the training loss falls to 0 and the model ' +
      'learns nothing useful. This model was trained with shifted targets, so unshifted targets have a high loss.',
    el(
      'div.scroller',
      table(
        '',
        ['row', 'decoder input', 'target, shifted', 'loss', 'target, not shifted', 'loss'],
        [
          ...rows,
          el(
            'tr',
            el('th', { scope: 'row' }, 'mean of all rows'),
            el('td'),
            el('td'),
            el('td', sign(true, digits(meanOf(right)))),
            el('td'),
            el('td', sign(meanOf(wrong) <= meanOf(right), digits(meanOf(wrong)))),
          ),
        ],
      ),
    ),
  );
}
