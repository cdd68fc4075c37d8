/** Embedding map: tokens in the plane of the first two principal components. */

import { bdi, button, choices, cut, el, image, pressed, svg } from 'glassbox/core/dom.js';
import { principal } from 'glassbox/core/geometry.js';
import { saveButtons } from 'glassbox/views/figure.js';
import { grouped, percent, rowOf } from 'glassbox/core/numbers.js';
import { ordinary, visible } from 'glassbox/model/trace.js';

const [MAX_WIDTH, HEIGHT, EDGE] = [760, 420, 26];
const MAX_TOKENS = 1000; // in the plane
const MAX_LABEL = 24; // characters

export function space(app) {
  const side = app.state.map;
  const name = app.trace.stepOf.get(`${side}.embedded`).inputs[1];
  const matrix = app.trace.get(name);
  const both = choices('vocabulary', { source: 'source', target: 'target' }, side, (map) => app.set({ map, picked: null }));
  if (!matrix)
    return [
      both,
      el(
        'p.hint',
        `The embedding matrix is not available: this page does not include ${name}. ` +
          'In Python, “glassformer.explain(model, text, weights=True)” includes the weights.',
      ),
    ];
  const tokens = ordinary(app.trace, side).map(({ id, text, count }) => ({ id, text, unseen: count === 0 }));
  const rows = tokens.map(({ id }) => rowOf(matrix, id));
  const picked = Math.min(app.state.picked ?? 0, tokens.length - 1);
  return [
    el(
      'p.lead',
      'The embedding of each token is a vector of d_model numbers. The map shows the first two principal components. ' +
        'Tokens that are close here can be far apart in all dimensions.',
    ),
    both,
    plane(app, name, tokens, rows, picked),
    el(
      'p',
      bdi(visible(tokens[picked].text)),
      ' ',
      button('inspect its embedding', () => app.pick(name, [tokens[picked].id, 0]), { class: 'link', data: { key: 'inspect-embedding' } }),
    ),
  ];
}

function plane(app, name, tokens, rows, picked) {
  const shown = tokens.slice(0, MAX_TOKENS);
  const width = Math.min(MAX_WIDTH, app.width);
  const key = `plane of ${name}`;
  if (!app.windows.has(key)) app.windows.set(key, principal(rows.slice(0, MAX_TOKENS)));
  const { points, fractions } = app.windows.get(key);
  const [xs, ys] = [0, 1].map((i) => points.map((point) => point[i]));
  const scale = (all, length) => (number) =>
    EDGE + ((number - Math.min(...all)) / (Math.max(...all) - Math.min(...all) || 1)) * (length - 2 * EDGE);
  const [x, y] = [scale(xs, width), scale(ys, HEIGHT)];
  const spots = points.map(([left, up]) => [x(left), y(-up + Math.max(...ys) + Math.min(...ys))]);
  const texts = shown.map(({ text }) => cut(visible(text), MAX_LABEL)); // the name of a point has all of its token
  const labels = placeLabels(spots, texts, picked, width);
  const marks = shown.map((token, at) => {
    const choose = () => app.set({ picked: at });
    return svg(
      'g.point',
      {
        class: [token.unseen ? 'never' : '', at === picked ? 'here' : '', labels[at] ? '' : 'crowded'].join(' '),
        role: 'option',
        tabindex: at === Math.min(picked, shown.length - 1) ? 0 : -1,
        'aria-selected': String(at === picked),
        'aria-label': `${token.text}${token.unseen ? ', not in the training data' : ''}`,
        transform: `translate(${spots[at][0].toFixed(1)} ${spots[at][1].toFixed(1)})`,
        data: { key: `point-${at}` },
        on: pressed(choose),
      },
      svg('circle', { r: at === picked ? 6 : 3 }),
      svg('text', labels[at] ?? inward(spots[at], width), texts[at]),
    );
  });
  const attributes = { role: 'listbox', on: { keydown: walkOver(spots) } };
  const map = image(width, HEIGHT, `${shown.length} tokens in the plane`, attributes, marks);
  return el(
    'figure.plane',
    map,
    el(
      'figcaption',
      `${grouped(shown.length)} of ${grouped(tokens.length)} tokens; the plane explains ` +
        `${percent(fractions[0] + fractions[1])} of their variance. Hollow and gray: not in the training data.` +
        (labels.includes(null)
          ? ` ${grouped(labels.filter((label) => label === null).length)} labels are hidden where they would overlap: ` +
            'point at a token to see its label.'
          : ''),
      saveButtons(`plane of ${name}`, map),
    ),
  );
}

/** One stop for Tab: ← and → go to the next token along the first component, ↓ and ↑ along the second one. */
function walkOver(spots) {
  const along = [0, 1].map((axis) => [...spots.keys()].sort((one, other) => spots[one][axis] - spots[other][axis] || one - other));
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, -1], ArrowDown: [1, 1] };
  return (event) => {
    const points = [...event.currentTarget.querySelectorAll('.point')];
    const at = points.indexOf(event.target.closest('.point'));
    if (at < 0 || !(steps[event.key] || event.key === ' ')) return;
    event.preventDefault();
    const [axis, by] = steps[event.key] ?? [0, 0];
    const to = points[along[axis][along[axis].indexOf(at) + by]];
    if (!to) return;
    for (const point of points) point.setAttribute('tabindex', point === to ? 0 : -1);
    to.focus();
  };
}

const [LETTER, LINE] = [7.3, 12]; // pixels of a label

/** Where a label is that is shown on demand: on the side where the plane has more room. */
const inward = ([x], width) => (x > width / 2 ? { x: -7, y: 4, 'text-anchor': 'end' } : { x: 7, y: 4 });

/** Where the label of each point is: right, left, above or below, where it overlaps nothing; null: nowhere. */
function placeLabels(spots, texts, picked, all) {
  const taken = spots.map(([x, y]) => [x - 3, y - 3, x + 3, y + 3]);
  const found = spots.map(() => null);
  const overlaps = ([left, top, right, bottom], other) =>
    left < other[2] && right > other[0] && top < other[3] && bottom > other[1];
  const order = [picked, ...spots.keys()].filter((at, i, all) => at < spots.length && all.indexOf(at) === i);
  for (const at of order) {
    const [x, y] = spots[at];
    const width = texts[at].length * LETTER;
    const gap = at === picked ? 11 : 7;
    const tries = [
      { x: gap, y: 4, 'text-anchor': 'start' },
      { x: -gap, y: 4, 'text-anchor': 'end' },
      { x: 0, y: -7, 'text-anchor': 'middle' },
      { x: 0, y: 16, 'text-anchor': 'middle' },
    ];
    for (const place of tries) {
      const left = x + place.x - { start: 0, end: width, middle: width / 2 }[place['text-anchor']];
      const box = [left, y + place.y - LINE + 2, left + width, y + place.y + 2];
      const isInside = box[0] >= 0 && box[2] <= all && box[1] >= 0 && box[3] <= HEIGHT;
      if (!isInside || taken.some((other, i) => i !== at && overlaps(box, other))) continue;
      taken.push(box);
      found[at] = place;
      break;
    }
  }
  return found;
}
