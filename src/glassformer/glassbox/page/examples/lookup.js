/** Attention as a lookup: a query is compared with keys, and the answer is the weighted mean of their values. */

import { choices, el, row } from 'glassbox/dom.js';
import { digits, dot, percent, sumOf } from 'glassbox/numbers.js';
import { fieldTable, finding, numbersOf, plain, Sheet, sheetOf } from 'glassbox/examples/sheet.js';

const FEATURES = ['love', 'romance', 'ships'];
const FILMS = ['Titanic', 'Notting Hill', 'Master and Commander'];
const KEYS = [
  [1, 1, 1],
  [1, 1, 0],
  [0, 0, 1],
];
const MINUTES = [195, 124, 138];
const QUERIES = {
  'love and ships': [1, 0, 1],
  love: [1, 0, 0],
  ships: [0, 0, 1],
  '10 × love and ships': [10, 0, 10],
  nothing: [0, 0, 0],
};
const LARGE = 30; // above it e to the power of a score is not written out

/**
 * Scaled dot-product attention of one query.
 *
 * @param {number[]} query  @param {number[][]} keys  @param {number[]} values  @param {number} scale
 */
function attend(query, keys, values, scale) {
  const scores = keys.map((key) => dot(query, 0, key, 0, query.length));
  const scaled = scores.map((score) => score / scale);
  const largest = Math.max(...scaled);
  const shift = largest > LARGE || largest < -LARGE ? largest : 0;
  const powers = scaled.map((score) => Math.exp(score - shift));
  const total = sumOf(powers);
  const weights = powers.map((power) => power / total);
  return { scores, scaled, shift, powers, total, weights, answer: dot(weights, 0, values, 0, values.length) };
}

const ofQuery = (numbers) => numbersOf('query', numbers);

function start() {
  const query = ofQuery(QUERIES['love and ships']);
  return new Sheet({ ...query, ...numbersOf('key', KEYS), ...numbersOf('value', MINUTES) }, [-1000, 1000], { isScaled: true });
}

export function lookup(app) {
  const sheet = sheetOf(app, 'lookup', start);
  const scales = [
    [true, `÷ √${FEATURES.length}`],
    [false, 'without the scale'],
  ];
  const fields = (name, label) => FEATURES.map((feature, i) => sheet.field(`${name}-${i}`, `${label}, ${feature}`));
  const film = (name, i) => row(name, ...fields(`key-${i}`, `key of ${name}`), sheet.field(`value-${i}`, `value of ${name}`));
  return [
    el(
      'p.lead',
      'A dictionary returns the value of the one key that is equal to the query. Attention compares the query with all keys ' +
        'and returns a weighted mean of all values: the more similar the key, the larger its weight.',
    ),
    el(
      'p',
      'The key of a film says how much of each feature it has, the query says which features are looked for, and the value is ' +
        'the length of the film in minutes.',
    ),
    fieldTable(
      'films, their features and their minutes; every number can be changed',
      ['', ...FEATURES, 'value'],
      [row('query', ...fields('query', 'query'), ''), FILMS.map(film)],
    ),
    el(
      'div.row',
      el('span.size', 'a query for'),
      Object.entries(QUERIES).map(([name, query]) => sheet.preset(name, ofQuery(query))),
    ),
    el(
      'div.row',
      choices('scale', scales, sheet.options.isScaled, (isScaled) => sheet.choose(app, { isScaled })),
      sheet.preset('numbers of lesson 1', sheet.start),
    ),
    sheet.result(() => computed(sheet)),
  ];
}

function computed(sheet) {
  const width = FEATURES.length;
  const query = sheet.numbers('query', width);
  const keys = FILMS.map((_, film) => sheet.numbers(`key-${film}`, width));
  const values = sheet.numbers('value', FILMS.length);
  const { isScaled } = sheet.options;
  const root = Math.sqrt(width);
  const found = attend(query, keys, values, isScaled ? root : 1);
  const { scores, scaled, shift, powers, total, weights, answer } = found;
  const largest = weights.indexOf(Math.max(...weights));
  const isEqual = Math.max(...weights) - Math.min(...weights) < 1e-9;
  const line = (kind, write) => (film, i) =>
    el('li', { data: { [kind]: String(found[kind][i]) } }, el('span', film), el('span', write(i)));
  const each = (kind, write) => el('ul.lines-of', FILMS.map(line(kind, write)));
  const step = (title, words, ...parts) => el('li', el('h2', title), el('p', words), parts);
  const products = (ones, others) => others.map((other, i) => `${ones(i)} · ${signed(other)}`).join(' + ');
  return [
    finding(
      isEqual ? 'All keys have the same weight. ' : `The largest weight, ${percent(weights[largest])}, is that of ${FILMS[largest]}. `,
      `The answer is ${digits(answer)} minutes.`,
    ),
    el(
      'ol.computation',
      step(
        'Scores',
        'The dot product of the query with each key: products feature by feature, and their sum.',
        each('scores', (i) => [`${products((at) => signed(query[at]), keys[i])} = `, el('b', plain(scores[i]))]),
      ),
      isScaled
        ? step(
            'Scale',
            `Each score is divided by the square root of the number of features, √${width} = ${digits(root)}.`,
            each('scaled', (i) => [`${plain(scores[i])} ÷ ${digits(root)} = `, el('b', digits(scaled[i]))]),
          )
        : null,
      step(
        'Weights: softmax',
        shift
          ? `The largest, ${digits(shift)}, is subtracted first, which changes no weight. Then e to the power of each, over their sum, ${digits(total)}.`
          : `e to the power of each, over their sum, ${digits(total)}. The weights are above 0 and add up to 1.`,
        each('weights', (i) => [
          `${digits(powers[i])} ÷ ${digits(total)} = `,
          el('b', digits(weights[i])),
          el('i.weight', { style: { '--fraction': `${weights[i] * 100}%` } }),
        ]),
      ),
      step(
        'Answer',
        'The sum of the values, each multiplied by its weight.',
        el(
          'p.formula-line',
          { data: { answer: String(answer) } },
          `${products((i) => digits(weights[i]), values)} = `,
          el('b', `${digits(answer)} minutes`),
        ),
      ),
    ),
    el(
      'p.hint',
      'In a Transformer nobody writes the features by hand: queries, keys and values are products of the tokens with three ' +
        'learned matrices. The panels “Q, K, V” and “Attention” have those of this model. Lesson 1 of the course computes the same numbers in Python.',
    ),
  ];
}

const signed = (number) => (number < 0 ? `(${plain(number)})` : plain(number));
