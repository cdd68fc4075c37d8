/** Attention as a lookup: a query is compared with keys, and the answer is the weighted mean of their values. */

import { choices, el } from 'glassbox/dom.js';
import { digits, dot, percent } from 'glassbox/numbers.js';
import { finding, plain, Sheet, sheetOf } from 'glassbox/examples/sheet.js';

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
export function attend(query, keys, values, scale) {
  const scores = keys.map((key) => dot(query, 0, key, 0, query.length));
  const scaled = scores.map((score) => score / scale);
  const largest = Math.max(...scaled);
  const shift = largest > LARGE || largest < -LARGE ? largest : 0;
  const powers = scaled.map((score) => Math.exp(score - shift));
  const total = powers.reduce((sum, power) => sum + power, 0);
  const weights = powers.map((power) => power / total);
  return { scores, scaled, shift, powers, total, weights, answer: dot(weights, 0, values, 0, values.length) };
}

const ofQuery = (numbers) => Object.fromEntries(numbers.map((number, i) => [`query-${i}`, number]));

function start() {
  const keys = KEYS.flatMap((key, film) => key.map((number, i) => [`key-${film}-${i}`, number]));
  const values = MINUTES.map((minutes, film) => [`value-${film}`, minutes]);
  const sheet = new Sheet({ ...ofQuery(QUERIES['love and ships']), ...Object.fromEntries([...keys, ...values]) }, [-1000, 1000]);
  sheet.options = { isScaled: true };
  return sheet;
}

export function lookup(app) {
  const sheet = sheetOf(app, 'lookup', start);
  const row = (name, cells, value) => el('tr', el('th', { scope: 'row' }, name), cells.map((cell) => el('td', cell)), el('td', value));
  const fields = el(
    'table.sheet',
    el('caption', 'films, their features and their minutes; every number can be changed'),
    el('thead', el('tr', el('td'), [...FEATURES, 'value'].map((name) => el('th', { scope: 'col' }, name)))),
    el(
      'tbody',
      row('query', FEATURES.map((name, i) => sheet.field(`query-${i}`, `query, ${name}`)), ''),
      FILMS.map((film, at) =>
        row(
          film,
          FEATURES.map((name, i) => sheet.field(`key-${at}-${i}`, `key of ${film}, ${name}`)),
          sheet.field(`value-${at}`, `value of ${film}`),
        ),
      ),
    ),
  );
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
    el('div.scroller', fields),
    el('div.row', el('span.size', 'a query for'), Object.entries(QUERIES).map(([name, query]) => sheet.preset(name, ofQuery(query)))),
    el(
      'div.row',
      choices(
        'scale',
        [
          [true, `÷ √${FEATURES.length}`],
          [false, 'without the scale'],
        ],
        sheet.options.isScaled,
        (isScaled) => {
          sheet.options.isScaled = isScaled;
          app.notify(false, null);
        },
      ),
      sheet.preset('numbers of lesson 1', { ...sheet.start }),
    ),
    sheet.result(() => computed(sheet)),
  ];
}

function computed(sheet) {
  const numbers = (prefix) => FEATURES.map((_, i) => sheet.number(`${prefix}-${i}`));
  const [query, keys] = [numbers('query'), FILMS.map((_, film) => numbers(`key-${film}`))];
  const values = FILMS.map((_, film) => sheet.number(`value-${film}`));
  const { isScaled } = sheet.options;
  const found = attend(query, keys, values, isScaled ? Math.sqrt(query.length) : 1);
  const { scores, scaled, shift, powers, total, weights, answer } = found;
  const largest = weights.indexOf(Math.max(...weights));
  const isEqual = Math.max(...weights) - Math.min(...weights) < 1e-9;
  const each = (kind, write) =>
    el(
      'ul.lines-of',
      FILMS.map((film, i) => el('li', { data: { [kind]: String(found[kind][i]) } }, el('span', film), el('span', write(i)))),
    );
  const step = (title, words, ...parts) => el('li', el('h2', title), el('p', words), parts);
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
        each('scores', (i) => [`${keys[i].map((number, at) => `${signed(query[at])} · ${signed(number)}`).join(' + ')} = `, el('b', plain(scores[i]))]),
      ),
      isScaled
        ? step(
            'Scale',
            `Each score is divided by the square root of the number of features, √${query.length} = ${digits(Math.sqrt(query.length))}.`,
            each('scaled', (i) => [`${plain(scores[i])} ÷ ${digits(Math.sqrt(query.length))} = `, el('b', digits(scaled[i]))]),
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
          `${weights.map((weight, i) => `${digits(weight)} · ${signed(values[i])}`).join(' + ')} = `,
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
