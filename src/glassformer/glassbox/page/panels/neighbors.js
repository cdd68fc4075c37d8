/** Neighbors of a token by cosine, and a − b + c with the rank of an expected token and the differences of two pairs. */

import { bdi, button, el, select, table } from 'glassbox/dom.js';
import { analogy, cosine, neighbors } from 'glassbox/geometry.js';
import { heatmap } from 'glassbox/heatmap.js';
import { digits, grouped, named } from 'glassbox/numbers.js';
import { visible } from 'glassbox/trace.js';

const NEAREST = 8;
const MAX_LISTED = 1000; // tokens of a list

/** @typedef {{id: number, text: string, unseen: boolean}} Listed  a token that is not special */

const lines = (tokens, found) =>
  found
    .slice(0, NEAREST)
    .map(({ index, cosine: value }, i) =>
      el(
        'tr',
        el('th', { scope: 'row' }, String(i + 1)),
        el('td', bdi(visible(tokens[index].text))),
        el('td', digits(value)),
        el('td', tokens[index].unseen ? 'not in the training data' : ''),
      ),
    );

/** @param {Listed[]} tokens  @param {number} picked  of the tokens */
export function tokenSelect(app, tokens, picked, label, onPick, key) {
  const listed = tokens.slice(0, MAX_LISTED).map((token, at) => [at, visible(token.text)]);
  return select(label, listed, picked, (at) => onPick(Number(at)), key);
}

/** @param {Listed[]} tokens  @param {Float64Array[]} rows */
export function nearest(app, name, tokens, rows, picked) {
  const { length } = tokens;
  return el(
    'section',
    { 'aria-label': 'neighbors' },
    el('h2', 'Neighbors of ', bdi(visible(tokens[picked].text))),
    el('p.hint', 'Select a point on the map, or a token here.'),
    length > MAX_LISTED ? el('p.size', `The map and the lists have the first ${grouped(MAX_LISTED)} of ${grouped(length)} tokens.`) : null,
    el(
      'div.row',
      tokenSelect(app, tokens, picked, 'token', (at) => app.set({ picked: at }), 'picked'),
      button('inspect its embedding', () => app.pick(name, [tokens[picked].id, 0]), { class: 'link', data: { key: 'inspect-embedding' } }),
    ),
    table(
      'nearest by cosine',
      ['rank', 'token', 'cosine', ''],
      lines(tokens, neighbors(rows, rows[picked], new Set([picked]))),
    ),
  );
}

export function arithmetic(app, tokens, rows) {
  const chosen = app.state.analogy ?? [0, 1, 2].map((i) => Math.min(i, tokens.length - 1));
  const expected = app.state.expected ?? null;
  const pick = (i, label) =>
    tokenSelect(app, tokens, chosen[i], label, (at) => app.set({ analogy: chosen.with(i, at) }), `analogy-${i}`);
  const query = analogy(...chosen.map((at) => rows[at]));
  const found = neighbors(rows, query, new Set(chosen));
  const names = chosen.map((at) => visible(tokens[at].text));
  const own = chosen.map((at, i) => el('li', bdi(names[i]), ` ${digits(cosine(rows[at], query))}`));
  return el(
    'section',
    { 'aria-label': 'arithmetic' },
    el('h2', 'a − b + c'),
    el('div.row', pick(0, 'a'), pick(1, '− b'), pick(2, '+ c')),
    table('nearest to a − b + c (without a, b and c)', ['rank', 'token', 'cosine', ''], lines(tokens, found)),
    el('p.size', 'cosines of a, b and c with a − b + c:'),
    el('ul.own', own),
    expectedPart(app, tokens, rows, chosen, expected, found),
    el('p.hint', 'In a small model such sums often have no meaning. Compare the cosines.'),
  );
}

/** The token d that a − b + c should find: its rank, and the differences a − b and d − c. */
function expectedPart(app, tokens, rows, chosen, expected, found) {
  const listed = [['', 'none'], ...tokens.slice(0, MAX_LISTED).map((token, at) => [at, visible(token.text)])];
  const field = select('expected d', listed, expected ?? '', (at) => app.set({ expected: at === '' ? null : Number(at) }), 'expected');
  if (expected === null || expected >= tokens.length) return field;
  if (chosen.includes(expected)) return [field, el('p.wrong', 'd is one of a, b and c, which are not candidates.')];
  const [a, b, c] = chosen.map((at) => rows[at]);
  const difference = (one, other) => one.map((number, i) => number - other[i]);
  const [one, other] = [difference(a, b), difference(rows[expected], c)];
  const rank = found.findIndex(({ index }) => index === expected);
  const label = (i, j) => `${visible(tokens[i].text)} − ${visible(tokens[j].text)}`;
  const value = cosine(one, other);
  return [
    field,
    el(
      'p',
      { data: { expectedRank: rank + 1, differenceCosine: value } },
      bdi(visible(tokens[expected].text)),
      ` has rank ${grouped(rank + 1)} of ${grouped(found.length)}, cosine ${digits(found[rank].cosine)}. `,
      `The cosine between a − b and d − c is ${digits(value)}: 1 if the two differences have the same direction, 0 if they are perpendicular.`,
    ),
    heatmap('the two differences', named(['difference', 'd_model'], [2, one.length], Float64Array.of(...one, ...other)), {
      down: '',
      across: 'feature',
      width: Math.min(app.width, 460),
      height: 110,
      rows: [label(chosen[0], chosen[1]), label(expected, chosen[2])],
    }),
  ];
}
