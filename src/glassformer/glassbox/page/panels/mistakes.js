/** The mistakes lab: what is often got wrong, computed beside what is right, with the sign that gives it away. */

import { bdi, el, table } from 'glassbox/dom.js';
import { redo } from 'glassbox/interpreter.js';
import { at, digits, entropies, headOf, named, rowOf } from 'glassbox/numbers.js';
import { attentionPicker, maskOf } from 'glassbox/panels/place.js';
import { visible } from 'glassbox/trace.js';

/** Scaled scores of one head with a causal mask: tests/golden/attention.json. */
const SCALED = [
  [-1.5438387, 0.05315955, 1.32578425, 0.84519528],
  [-0.1892687, 0.51444745, -1.40663918, -0.00291401],
  [0.37845046, -1.84311222, 0.35341618, -0.53240191],
  [0.03040275, -0.18430356, 0.06196664, -0.36645295],
];

export const mistakes = (app) => [
  el('p.lead', 'Each of these runs, trains a little, and is wrong. The sign that gives it away is red.'),
  attentionPicker(app),
  columns(),
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
  el('section.stage', { 'aria-label': title, data: { mistake: title } }, el('h3', title), el('p.words', words), parts);

const isOne = (sum) => Math.abs(sum - 1) < 1e-4;

/** A matrix beside the sum of each of its rows. */
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
    'Without keepdims, the row sums are spread over the columns: column s ' +
      'is divided by the sum of row s. Shares must add up to 1 in each row.',
    withSums(
      'right: each row by its own sum',
      powers.map((row, t) => row.map((power) => power / sums[t])),
    ),
    withSums(
      'wrong: each column by the sum of a row',
      powers.map((row) => row.map((power, s) => power / sums[s])),
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
    const weights = headOf(redo({ op: 'softmax', attributes: {} }, [scaled, mask]), head);
    const found = entropies(weights);
    return [found.reduce((sum, each) => sum + each, 0) / found.length, Math.max(...weights.numbers)];
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
    'The scale is the root of one head’s width: for 512 features over 8 heads it is √64 = 8, not √512 = 22.6. ' +
      `Here d_k = ${perHead.length} and d_model = ${whole.length}. ` +
      'With the larger root every head looks everywhere at once.',
    table(
      '',
      ['divided by', 'scale', 'mean entropy of the rows', 'largest weight'],
      [line('√d_k', perHead.length, true), line('√d_model', whole.length, isSame)],
    ),
  );
}

function noMask(app) {
  const name = app.trace.attentions().find((each) => /^decoder.*self$/.test(each));
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
    const share = future(headOf(weights, head));
    return el('tr', el('th', { scope: 'row' }, label), el('td', sign(share < 1e-6, digits(share))));
  };
  return lab(
    'no causal mask',
    'In training the decoder is fed the whole target at once. Without the mask each row sees ' +
      'the answer it is asked for: the loss becomes wonderful and the translations do not.',
    table(
      '',
      [`${name}, head ${head}`, 'mean weight on later rows'],
      [
        line('with the mask', inputs[1]),
        line('without it', redo({ op: 'softmax', attributes: {} }, [inputs[0], open])),
      ],
    ),
  );
}

function unitNorm(app) {
  const step = app.trace.steps.find(({ op }) => op === 'layer_norm');
  const [x, mean, variance] = step.inputs.map((name) => app.trace.get(name));
  const normed = [...rowOf(x, 0)].map(
    (number) => (number - mean.numbers[0]) / Math.sqrt(variance.numbers[0] + step.attributes.eps),
  );
  const [low, high] = [Math.min(...normed), Math.max(...normed)];
  const [small, large] = [Math.min(...rowOf(x, 0)), Math.max(...rowOf(x, 0))];
  const squeezed = [...rowOf(x, 0)].map((number) => (number - small) / (large - small));
  const middle = squeezed.reduce((sum, number) => sum + number, 0) / squeezed.length;
  const line = (label, parts, isRight) =>
    el(
      'tr',
      el('th', { scope: 'row' }, label),
      parts.map((number) => el('td', digits(number))),
      el('td', sign(isRight, isRight ? 'mean 0' : 'mean not 0')),
    );
  return lab(
    '“LayerNorm gives values from 0 to 1”',
    'It gives each row mean 0 and variance 1: values below 0 and above 1 are usual. ' +
      `Squeezing into 0 … 1 is another thing. The first row of ${step.output}:`,
    table(
      '',
      ['', 'smallest', 'largest', 'mean', ''],
      [
        line('layer norm', [low, high, normed.reduce((sum, number) => sum + number, 0) / normed.length], true),
        line('squeezed into 0 … 1', [0, 1, middle], false),
      ],
    ),
  );
}

function notShifted(app) {
  const { fed, asked } = app.rows;
  const logProbs = app.trace.get(app.name('log_probs'));
  const loss = (tokens) => tokens.map((token, row) => -at(logProbs, [row, token.id]));
  const mean = (losses) => losses.reduce((sum, number) => sum + number, 0) / losses.length;
  const [right, wrong] = [loss(asked), loss(fed)];
  const rows = fed.slice(0, 8).map((token, row) =>
    el(
      'tr',
      el('th', { scope: 'row' }, String(row)),
      [
        bdi(visible(token.text)),
        bdi(visible(asked[row].text)),
        digits(right[row]),
        bdi(visible(token.text)),
        digits(wrong[row]),
      ].map((part) => el('td', part)),
    ),
  );
  return lab(
    'target not shifted',
    'If a row is asked for the very token that it is fed, copying is enough: the loss falls ' +
      'to 0 and nothing is learned. This model, trained right, finds such targets absurd.',
    el(
      'div.scroller',
      table(
        '',
        ['row', 'fed', 'asked for, shifted', 'loss', 'asked for, not shifted', 'loss'],
        [
          ...rows,
          el(
            'tr',
            el('th', { scope: 'row' }, 'mean of all'),
            el('td'),
            el('td'),
            el('td', sign(true, digits(mean(right)))),
            el('td'),
            el('td', sign(mean(wrong) <= mean(right), digits(mean(wrong)))),
          ),
        ],
      ),
    ),
  );
}
