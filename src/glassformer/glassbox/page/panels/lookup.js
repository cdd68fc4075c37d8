/** Attention as a soft look-up: a query beside keys; each key has a value, and the answer is their mixture. */

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
  const mixed = weights.reduce((sum, weight, i) => sum + weight * KEYS[i][3], 0);
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
    { 'aria-label': 'look-up' },
    el(
      'p.lead',
      'A look-up in a dictionary finds one key. Attention finds all of them a ' +
        'little: the better a key fits the query, the larger the share of its value.',
    ),
    el('p.row', el('span', `query “${QUERY[0]}”: `), query.map(input)),
    table(
      '',
      ['key', 'its numbers', 'query · key', `÷ √${query.length}`, 'weight', 'value', 'its number'],
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
    el(
      'p',
      `The weights add up to ${digits(weights.reduce((sum, weight) => sum + weight, 0))}; ` +
        `the answer is the mixture of the values, ${digits(mixed)}.`,
    ),
    el('p.hint', 'These numbers are made up, to show the idea; the other views are your model.'),
  );
}
