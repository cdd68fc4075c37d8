/** Embedding map: tokens in the plane of the first two principal components, neighbors by cosine, a − b + c. */

import { bdi, button, choices, el, select, svg, table } from 'glassbox/dom.js';
import { analogy, neighbors, principal } from 'glassbox/geometry.js';
import { saveButtons } from 'glassbox/figure.js';
import { digits, grouped, percent, rowOf } from 'glassbox/numbers.js';
import { visible } from 'glassbox/trace.js';

const [WIDTH, HEIGHT, EDGE] = [640, 420, 26];
const MAX_TOKENS = 1000; // in the plane
const NEAREST = 8;

export function space(app) {
  const side = app.state.map ?? 'source';
  const { axis, counts, specials } = app.trace.vocabularies[side];
  const name = app.trace.stepOf.get(`${side}.embedded`).inputs[1];
  const matrix = app.trace.get(name);
  const both = choices(
    'vocabulary',
    [
      ['source', 'source'],
      ['target', 'target'],
    ],
    side,
    (map) => app.set({ map, picked: null, analogy: null }),
  );
  if (!matrix)
    return [
      both,
      el(
        'p.hint',
        `The embedding matrix is not available: this page does not include ${name}. ` +
          'In Python, “glassformer.explain(model, text, weights=True)” includes the weights.',
      ),
    ];
  const special = new Set(Object.values(specials));
  const ids = app.trace.axes[axis].labels.map((_, id) => id).filter((id) => !special.has(id));
  const rows = ids.map((id) => rowOf(matrix, id));
  const tokens = ids.map((id) => ({ id, text: app.trace.axes[axis].labels[id], unseen: counts[id] === 0 }));
  const picked = Math.min(app.state.picked ?? 0, tokens.length - 1);
  return [
    el(
      'p.lead',
      'The embedding of each token is a vector of d_model numbers. The map shows the first two principal components. ' +
        'Tokens that are close here can be far apart in all dimensions: the cosines below use all of them.',
    ),
    both,
    plane(app, name, tokens, rows, picked),
    el('div.columns', nearest(app, name, tokens, rows, picked), arithmetic(app, tokens, rows)),
  ];
}

function plane(app, name, tokens, rows, picked) {
  const shown = tokens.slice(0, MAX_TOKENS);
  const key = `plane of ${name}`;
  if (!app.windows.has(key)) app.windows.set(key, principal(rows.slice(0, MAX_TOKENS)));
  const { points, fractions } = app.windows.get(key);
  const [xs, ys] = [0, 1].map((i) => points.map((point) => point[i]));
  const scale = (all, length) => (number) =>
    EDGE + ((number - Math.min(...all)) / (Math.max(...all) - Math.min(...all) || 1)) * (length - 2 * EDGE);
  const [x, y] = [scale(xs, WIDTH), scale(ys, HEIGHT)];
  const spots = points.map(([left, up]) => [x(left), y(-up + Math.max(...ys) + Math.min(...ys))]);
  const labels = placeLabels(
    spots,
    shown.map((token) => visible(token.text)),
    picked,
  );
  const marks = shown.map((token, at) => {
    const choose = () => app.set({ picked: at });
    return svg(
      'g.point',
      {
        class: [token.unseen ? 'never' : '', at === picked ? 'here' : '', labels[at] ? '' : 'crowded'].join(' '),
        role: 'button',
        tabindex: 0,
        'aria-label': `${token.text}${token.unseen ? ', not in the training data' : ''}`,
        transform: `translate(${spots[at][0].toFixed(1)} ${spots[at][1].toFixed(1)})`,
        data: { key: `point-${at}` },
        on: { click: choose, keydown: (event) => (event.key === 'Enter' ? choose() : null) },
      },
      svg('circle', { r: at === picked ? 6 : 3 }),
      svg('text', labels[at] ?? { x: 7, y: 4 }, visible(token.text)),
    );
  });
  const image = svg(
    'svg',
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'group', 'aria-label': `${shown.length} tokens in the plane` },
    marks,
  );
  return el(
    'figure.plane',
    image,
    el(
      'figcaption',
      `${grouped(shown.length)} of ${grouped(tokens.length)} tokens; the plane explains ` +
        `${percent(fractions[0] + fractions[1])} of their variance. Hollow and gray: not in the training data.` +
        (labels.includes(null)
          ? ` ${grouped(labels.filter((label) => label === null).length)} labels are hidden where they would overlap: ` +
            'point at a token to see its label.'
          : ''),
      saveButtons(`plane of ${name}`, image, () => [
        ['id', 'token', 'first component', 'second component'],
        ...shown.map(({ id, text }, at) => [id, text, ...points[at]]),
      ]),
    ),
  );
}

const [LETTER, LINE] = [7.3, 12]; // pixels of a label

/** Where the label of each point is: right, left, above or below, where it overlaps nothing; null: nowhere. */
function placeLabels(spots, texts, picked) {
  const taken = spots.map(([x, y]) => [x - 3, y - 3, x + 3, y + 3]);
  const found = spots.map(() => null);
  const overlaps = ([left, top, right, bottom], other) =>
    left < other[2] && right > other[0] && top < other[3] && bottom > other[1];
  const order = [picked, ...spots.keys()].filter((at, i, all) => at < spots.length && all.indexOf(at) === i);
  for (const at of order) {
    const [x, y] = spots[at];
    const width = texts[at].length * LETTER;
    const tries = [
      { x: 7, y: 4, 'text-anchor': 'start' },
      { x: -7, y: 4, 'text-anchor': 'end' },
      { x: 0, y: -7, 'text-anchor': 'middle' },
      { x: 0, y: 16, 'text-anchor': 'middle' },
    ];
    for (const place of tries) {
      const left = x + place.x - { start: 0, end: width, middle: width / 2 }[place['text-anchor']];
      const box = [left, y + place.y - LINE + 2, left + width, y + place.y + 2];
      const isInside = box[0] >= 0 && box[2] <= WIDTH && box[1] >= 0 && box[3] <= HEIGHT;
      if (!isInside || taken.some((other, i) => i !== at && overlaps(box, other))) continue;
      taken.push(box);
      found[at] = place;
      break;
    }
  }
  return found;
}

const lines = (tokens, found) =>
  found
    .slice(0, NEAREST)
    .map(({ index, cosine }, i) =>
      el(
        'tr',
        el('th', { scope: 'row' }, String(i + 1)),
        el('td', bdi(visible(tokens[index].text))),
        el('td', digits(cosine)),
        el('td', tokens[index].unseen ? 'not in the training data' : ''),
      ),
    );

function nearest(app, name, tokens, rows, picked) {
  return el(
    'section',
    { 'aria-label': 'neighbors' },
    el('h2', 'Neighbors of ', bdi(visible(tokens[picked].text))),
    el('p.hint', 'Select a point on the map.'),
    button('inspect its embedding', () => app.pick(name, [tokens[picked].id, 0]), {
      class: 'link',
      data: { key: 'inspect-embedding' },
    }),
    table(
      'nearest by cosine',
      ['rank', 'token', 'cosine', ''],
      lines(tokens, neighbors(rows, rows[picked], new Set([picked]))),
    ),
  );
}

function arithmetic(app, tokens, rows) {
  const chosen = app.state.analogy ?? [0, 1, 2].map((i) => Math.min(i, tokens.length - 1));
  const listed = tokens.slice(0, MAX_TOKENS).map((token, at) => [at, visible(token.text)]);
  const pick = (i, label) =>
    select(label, listed, chosen[i], (at) => app.set({ analogy: chosen.with(i, Number(at)) }), `analogy-${i}`);
  const query = analogy(...chosen.map((at) => rows[at]));
  return el(
    'section',
    { 'aria-label': 'arithmetic' },
    el('h2', 'a − b + c'),
    el('div.row', pick(0, 'a'), pick(1, '− b'), pick(2, '+ c')),
    table(
      'nearest to a − b + c (without a, b and c)',
      ['rank', 'token', 'cosine', ''],
      lines(tokens, neighbors(rows, query, new Set(chosen))),
    ),
    el('p.hint', 'In a small model such sums often have no meaning. Compare the cosines.'),
  );
}
