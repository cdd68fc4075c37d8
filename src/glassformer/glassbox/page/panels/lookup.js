/** Attention as a soft lookup: a query is compared with keys; the result is the weighted mean of their values. */

import { el, table } from 'glassbox/dom.js';
import { digits, percent } from 'glassbox/numbers.js';

const KEYS = [
  ['Romantic', [0.9, 0.1, 0.8], 'Titanic', 9],
  ['Funny', [0.1, 0.9, 0.3], 'Airplane!', 7],
  ['Scary', [-0.7, 0.2, 0.4], 'Alien', 8],
  ['Clever', [0.2, 0.4, -0.6], 'Primer', 6],
];
const QUERY = ['Love', [1, 0, 0.9]];

export function lookup(app) {
  const query = app.state.query ?? QUERY[1];
  const scale = Math.sqrt(query.length);
  const scores = KEYS.map(([, key]) => key.reduce((sum, number, i) => sum + number * query[i], 0));
  const powers = scores.map((score) => Math.exp(score / scale));
  const total = powers.reduce((sum, power) => sum + power, 0);
  const weights = powers.map((power) => power / total);
  const mean = weights.reduce((sum, weight, i) => sum + weight * KEYS[i][3], 0);
  const input = (number, i) =>
    el('input', {
      type: 'number',
      step: 0.1,
      value: number,
      'aria-label': `query, feature ${i}`,
      data: { key: `query-${i}` },
      on: {
        change: (event) =>
          app.set({ query: query.map((old, at) => (at === i ? Number(event.target.value) || 0 : old)) }),
      },
    });
  return el(
    'section',
    { 'aria-label': 'lookup' },
    el(
      'p.lead',
      'A dictionary lookup returns the value of one key. Attention returns a weighted mean of ' +
        'all values: the larger the dot product of query and key, the larger the weight.',
    ),
    el('p.row', el('span', `query “${QUERY[0]}”: `), query.map(input)),
    el(
      'div.scroller',
      table(
        '',
        ['key', 'key vector', 'query · key', `÷ √${query.length}`, 'weight', 'value', 'value as a number'],
        KEYS.map(([name, key, value, number], i) =>
          el(
            'tr',
            { class: weights[i] === Math.max(...weights) ? 'lit' : null },
            el('th', { scope: 'row' }, name),
            [
              key.map(digits).join('  '),
              digits(scores[i]),
              digits(scores[i] / scale),
              percent(weights[i]),
              value,
              String(number),
            ].map((part, at) => el('td', at === 4 ? { data: { weight: String(weights[i]) } } : {}, part)),
          ),
        ),
      ),
    ),
    el(
      'p',
      `The weights add up to ${digits(weights.reduce((sum, weight) => sum + weight, 0))}; ` +
        `the output is the weighted mean of the values, ${digits(mean)}.`,
    ),
    el('p.hint', 'These numbers are made up to show the idea. The other views show your model.'),
  );
}
