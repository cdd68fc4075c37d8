/** Screen 3: heads that do different things. */

import { svg } from 'glassbox/dom.js';
import { figure } from 'glassbox/figure.js';
import { at, entropies, headOf, percent } from 'glassbox/numbers.js';
import { titleOf } from 'glassbox/panels/selection.js';
import { mostNeeded } from 'glassbox/story/query.js';

const [TILE, MAX_CELLS] = [150, 40];

/** Each kind: what it is called, and how well a head fits it, from 0 to 1. */
const KINDS = [
  ['the previous token', (head) => meanOf(head, (row) => row - 1)],
  ['the same position', (head) => meanOf(head, (row) => row)],
  ['the first token', (head) => meanOf(head, () => 0)],
  ['a copy of the output', copying],
  ['all tokens evenly', ({ weights }) => {
    const found = entropies(weights);
    return found.reduce((sum, one) => sum + one, 0) / found.length / (Math.log(weights.shape[1]) || 1);
  }],
];

export const kinds = {
  title: 'Heads that do different things',
  choose: () => ({}),
  draw(app) {
    const heads = headsOf(app.trace);
    const found = KINDS.map(([words, fit]) => {
      const best = heads.map((head) => ({ head, fit: fit(head) ?? -1 })).reduce((one, other) => (other.fit > one.fit ? other : one));
      return { words, ...best };
    }).filter(({ fit }) => fit > 0.25);
    return {
      words: [
        needed(app.base),
        `The model has ${heads.length} heads, and training gave them different patterns. Each picture is the head that attends most to …`,
        found.length
          ? 'The fit is the mean weight on that key (for “evenly” the entropy, as a part of its maximum); a row is a query, a column a key.'
          : 'In this model no head follows one of the usual patterns: previous token, same position, first token, copy.',
      ].filter(Boolean),
      picture: figure('heads of different kinds', draw(app, found), [
        ['kind', 'attention', 'head', 'fit'],
        ...found.map(({ words, head, fit }) => [words, head.name, head.index, fit]),
      ]),
      proof: { label: 'Heads: all of them, with switches', changes: { panel: 'heads' } },
    };
  },
};

/** The head that the model needs most, where that is measured. */
function needed(base) {
  const worst = mostNeeded(base);
  if (!worst) return null;
  return (
    `Without head ${worst.head} of ${titleOf(worst.attention)} exact match falls from ${percent(base.heads.exact_match)} ` +
    `to ${percent(worst.exact_match)}: no other head is needed as much.`
  );
}

const headsOf = (trace) =>
  trace.attentions().flatMap((name) => {
    const all = trace.get(`${name}.weights`);
    return Array.from({ length: all.shape[0] }, (_, index) => ({ trace, name, index, weights: headOf(all, index) }));
  });

/** The mean weight on the key that a row has; rows without one do not count. */
function meanOf({ name, weights }, keyOf) {
  if (name.endsWith('cross') && keyOf(5) !== 0) return null; // positions of two sequences
  const [rows, keys] = weights.shape;
  let [sum, n] = [0, 0];
  for (let row = 1; row < rows; row += 1) {
    const key = keyOf(row);
    if (key < 0 || key >= keys) continue;
    sum += at(weights, [row, key]);
    n += 1;
  }
  return n ? sum / n : null;
}

/** Cross-attention: the weight on source tokens with the text of the output token. */
function copying({ trace, name, weights }) {
  if (!name.endsWith('cross')) return null;
  const { source, target_out: outputs } = trace.tokens;
  let [sum, n] = [0, 0];
  outputs.forEach((output, row) => {
    const same = source.flatMap((token, key) => (token.kind === 'ordinary' && token.text === output.text ? [key] : []));
    if (!same.length) return;
    sum += same.reduce((total, key) => total + at(weights, [row, key]), 0);
    n += 1;
  });
  return n ? sum / n : null;
}

function draw(app, found) {
  const across = Math.max(1, Math.min(found.length, Math.floor((app.width + 20) / (TILE + 34))));
  const down = Math.ceil(found.length / across);
  const [wide, high] = [TILE + 34, TILE + 76];
  return svg(
    'svg',
    {
      viewBox: `0 0 ${across * wide} ${Math.max(1, down * high)}`,
      width: across * wide,
      height: Math.max(1, down * high),
      role: 'img',
      'aria-label': found.map(({ words, head, fit }) => `head ${head.index} of ${titleOf(head.name)} ${words}: ${percent(fit)}`).join('; '),
    },
    found.map((one, i) => tile(app, one, (i % across) * wide, Math.floor(i / across) * high)),
  );
}

function tile(app, { words, head, fit }, x, y) {
  const [rows, columns] = head.weights.shape.map((length) => Math.min(length, MAX_CELLS));
  const [across, down] = [TILE / columns, TILE / rows];
  const cells = Array.from({ length: rows * columns }, (_, i) => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    const weight = at(head.weights, [row, column]);
    if (weight < 0.02) return null;
    return svg('rect.plus', {
      x: x + 14 + column * across,
      y: y + 52 + row * down,
      width: across - 0.6,
      height: down - 0.6,
      'fill-opacity': (0.12 + 0.88 * weight).toFixed(2),
    });
  });
  const open = () => app.set({ panel: 'attention', part: head.name, attention: head.name, head: head.index, view: 'steps' });
  return svg(
    'g.story-tile',
    { on: { click: open } },
    svg('text.story-label.strong', { x, y: y + 13 }, `… ${words}`),
    svg('text.story-label', { x, y: y + 29 }, `${titleOf(head.name).replace('-attention', '').replace('layer ', '')}, head ${head.index}`),
    svg('text.story-label', { x, y: y + 44 }, `fit ${percent(fit)}`),
    svg('rect.ground', { x: x + 14, y: y + 52, width: TILE, height: TILE }),
    cells,
    svg('text.story-label', { x: x + 14, y: y + TILE + 66 }, 'keys →'),
    svg('text.story-label', { x: x + 9, y: y + 52, transform: `rotate(-90 ${x + 9} ${y + 52})`, 'text-anchor': 'end' }, '← queries'),
  );
}
