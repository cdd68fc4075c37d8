/** Neighbors of a token by cosine, and a − b + c with the rank of an expected token and the differences of two pairs. */

import { bdi, button, el, row, section, select, table } from 'glassbox/dom.js';
import { analogy, cosine, difference, neighbors } from 'glassbox/geometry.js';
import { heatmap } from 'glassbox/heatmap.js';
import { digits, grouped, named } from 'glassbox/numbers.js';
import { visible } from 'glassbox/trace.js';

const NEAREST = 8;
const MAX_LISTED = 1000; // tokens of a list

/** @typedef {{id: number, text: string, unseen: boolean}} Listed  a token that is not special */

const nearestTable = (caption, tokens, found) =>
  table(
    caption,
    ['rank', 'token', 'cosine', ''],
    found.slice(0, NEAREST).map(({ index, cosine: value }, i) => {
      const { text, unseen } = tokens[index];
      return row(String(i + 1), bdi(visible(text)), digits(value), unseen ? 'not in the training data' : '');
    }),
  );

const listed = (tokens) => tokens.slice(0, MAX_LISTED).map((token, at) => [at, visible(token.text)]);

/** @param {Listed[]} tokens  @param {number} picked  of the tokens */
export const tokenSelect = (tokens, picked, label, onPick, key) =>
  select(label, listed(tokens), picked, (at) => onPick(Number(at)), key);

/** @param {Listed[]} tokens  @param {Float64Array[]} rows */
export function nearest(app, name, tokens, rows, picked) {
  const { length } = tokens;
  const inspect = () => app.pick(name, [tokens[picked].id, 0]);
  return section(
    'neighbors',
    ['Neighbors of ', bdi(visible(tokens[picked].text))],
    el('p.hint', 'Select a point on the map, or a token here.'),
    length > MAX_LISTED
      ? el('p.size', `The map and the lists have the first ${grouped(MAX_LISTED)} of ${grouped(length)} tokens.`)
      : null,
    el(
      'div.row',
      tokenSelect(tokens, picked, 'token', (at) => app.set({ picked: at }), 'picked'),
      button('inspect its embedding', inspect, { class: 'link', data: { key: 'inspect-embedding' } }),
    ),
    nearestTable('nearest by cosine', tokens, neighbors(rows, rows[picked], new Set([picked]))),
  );
}

export function arithmetic(app, tokens, rows) {
  const chosen = app.state.analogy ?? [0, 1, 2].map((i) => Math.min(i, tokens.length - 1));
  const pick = (label, i) =>
    tokenSelect(tokens, chosen[i], label, (at) => app.set({ analogy: chosen.with(i, at) }), `analogy-${i}`);
  const query = analogy(...chosen.map((at) => rows[at]));
  const found = neighbors(rows, query, new Set(chosen));
  const own = chosen.map((at) => el('li', bdi(visible(tokens[at].text)), ` ${digits(cosine(rows[at], query))}`));
  return section(
    'arithmetic',
    'a − b + c',
    el('div.row', ['a', '− b', '+ c'].map(pick)),
    nearestTable('nearest to a − b + c (without a, b and c)', tokens, found),
    el('p.size', 'cosines of a, b and c with a − b + c:'),
    el('ul.own', own),
    expectedPart(app, tokens, rows, chosen, found),
    el('p.hint', 'In a small model such sums often have no meaning. Compare the cosines.'),
  );
}

/** The token d that a − b + c should find: its rank, and the differences a − b and d − c. */
function expectedPart(app, tokens, rows, chosen, found) {
  const expected = app.state.expected ?? null;
  const choose = (at) => app.set({ expected: at === '' ? null : Number(at) });
  const field = select('expected d', [['', 'none'], ...listed(tokens)], expected ?? '', choose, 'expected');
  if (expected === null || expected >= tokens.length) return field;
  if (chosen.includes(expected)) return [field, el('p.wrong', 'd is one of a, b and c, which are not candidates.')];
  const pairs = [[chosen[0], chosen[1]], [expected, chosen[2]]];
  const [one, other] = pairs.map(([from, to]) => difference(rows[from], rows[to]));
  const rank = found.findIndex(({ index }) => index === expected);
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
      rows: pairs.map((pair) => pair.map((at) => visible(tokens[at].text)).join(' − ')),
    }),
  ];
}
