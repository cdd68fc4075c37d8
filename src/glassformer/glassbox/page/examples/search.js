/** A small search tree whose probabilities can be changed: greedy search loses where the first token is a garden path. */

import { pathOf as pathTo } from 'glassbox/beamtree.js';
import { choices, el, range, row, svg, table } from 'glassbox/dom.js';
import { digits } from 'glassbox/numbers.js';
import { finding, Sheet, sheetOf } from 'glassbox/examples/sheet.js';
import { search as searchBeam } from 'glassbox/search.js';

const TOKENS = ['A', 'B']; // a path is a text of them, such as "BA"

/** All paths of a length. */
const pathsOf = (length) =>
  length === 0 ? [''] : pathsOf(length - 1).flatMap((path) => TOKENS.map((token) => path + token));

/** The product of the probabilities along a path. @param {(path: string) => number} given  that of its last token */
const product = (given, path) => [...path].reduce((p, _, i) => p * given(path.slice(0, i + 1)), 1);

/**
 * Beam search of the page over a table of probabilities; of width 1 it is greedy search.
 *
 * @returns {{answer: object, steps: {path: string, p: number, rank: number, isKept: boolean}[][]}}  candidates by rank
 */
function beam(given, width, length) {
  const pathOf = (ids) => ids.map((id) => TOKENS[id]).join('');
  const nextLogProbs = (ids) => TOKENS.map((token) => Math.log(given(pathOf(ids) + token)));
  const constraints = { eos: null, forbidden: new Set(), maxNewTokens: length, forced: [] };
  const texts = { tokenText: (id) => TOKENS[id], decode: pathOf };
  const { nodes } = searchBeam(nextLogProbs, constraints, { beams: width, alpha: 0, best: width }, texts);
  const candidate = (node) => {
    const path = pathOf(pathTo({ nodes }, node).map(({ token }) => token));
    return { path, p: product(given, path), rank: node.rank, isKept: node.state === 'kept' };
  };
  const steps = range(length).map((step) => nodes.filter((node) => node.step === step).map(candidate));
  return { answer: steps.at(-1)[0], steps };
}

/** The most probable of all paths. */
const bestOf = (given, length) =>
  pathsOf(length)
    .map((path) => ({ path, p: product(given, path) }))
    .reduce((found, one) => (one.p > found.p ? one : found));

/** The probability of A after each path; that of B is the rest. */
const STARTS = {
  2: { '': 0.6, A: 0.5, B: 0.9 },
  3: { '': 0.6, A: 0.55, B: 0.4, AA: 0.5, AB: 0.8, BA: 0.5, BB: 0.95 },
};
const WIDTHS = [1, 2, 3, 4];
const [COLUMN, WIDE, HIGH, GAP, LEFT, TOP] = [154, 128, 74, 8, 58, 24]; // pixels, as in style/examples.css

const other = (path) => path.slice(0, -1) + (path.endsWith('A') ? 'B' : 'A');

function start(length) {
  const sheet = new Sheet(bothOf(STARTS[length]), [0, 1]);
  sheet.follow = (path, p) => ({ [other(path)]: 1 - p });
  return sheet;
}

/** The probabilities of both tokens after each path, from those of A. */
const bothOf = (given) =>
  Object.fromEntries(
    Object.entries(given).flatMap(([path, p]) => [
      [`${path}A`, p],
      [`${path}B`, 1 - p],
    ]),
  );

export function search(app) {
  const chosen = sheetOf(app, 'search', () => new Sheet({}, [0, 1], { length: 2, width: 2 }));
  const { length, width } = chosen.options;
  const sheet = sheetOf(app, `search of ${length}`, () => start(length));
  const choose = (name) => (value) => chosen.choose(app, { [name]: value });
  const good = Object.fromEntries(Object.keys(STARTS[length]).map((path) => [path, 0.7])); // for greedy search
  const size = { '--w': `${LEFT + length * COLUMN}px`, '--h': `${heightOf(length)}px` };
  const tree = el('div.editable-tree', { style: size }, el('div.edges'), nodes(sheet, length));
  const draw = () => {
    const found = searched(sheet, width, length);
    decorate(tree, found, length);
    return verdict(found, width, length);
  };
  const result = sheet.result(draw, () => undecided(tree));
  return [
    el(
      'p.lead',
      'A model gives probabilities of the next token only; the probability of an answer is their product. Greedy search takes ' +
        'the most probable token at each step. Beam search keeps the best answers so far, and can therefore find an answer that ' +
        'begins with a less probable token.',
    ),
    el(
      'div.row',
      choices('tokens of an answer', [[2, '2 tokens'], [3, '3 tokens']], length, choose('length')),
      choices('beam width', WIDTHS.map((number) => [number, number === 1 ? 'beam width 1' : String(number)]), width, choose('width')),
    ),
    el('p.size', 'Change a probability. The other one after the same tokens follows, so that the two add up to 1.'),
    el('div.scroller', tree),
    legend(),
    el(
      'div.row',
      sheet.preset(length === 2 ? 'numbers of lesson 7' : 'first numbers', sheet.start),
      sheet.preset('greedy search wins', bothOf(good)),
    ),
    result,
  ];
}

/** At least two digits after the point. */
const probability = (p) => p.toFixed(4).replace(/0{1,2}$/, '');

const heightOf = (length) => TOP + 2 ** length * (HIGH + GAP);

/** The upper left corner of a node: leaves below each other, the others in the middle of theirs. */
function place(path, length) {
  const below = 2 ** (length - path.length);
  const first = [...path].reduce((at, token) => at * 2 + TOKENS.indexOf(token), 0) * below;
  return [LEFT + (path.length - 1) * COLUMN, TOP + (first + (below - 1) / 2) * (HIGH + GAP)];
}

const all = (length) => Array.from({ length }, (_, i) => pathsOf(i + 1)).flat();

function nodes(sheet, length) {
  const steps = Array.from({ length }, (_, i) =>
    el('span.step-name', { style: { '--x': `${LEFT + i * COLUMN}px`, '--y': '0px' } }, `step ${i}`),
  );
  const boxes = all(length).map((path) => {
    const [x, y] = place(path, length);
    const before = path.slice(0, -1);
    const label = before ? `probability of ${path.at(-1)} after ${before}` : `probability of ${path} as the first token`;
    return el(
      'div.choice',
      { style: { '--x': `${x}px`, '--y': `${y}px` }, data: { path } },
      el('div.row', el('b.token', path.at(-1)), sheet.field(path, label)),
      el('small', { data: { of: path } }),
    );
  });
  return [...steps, ...boxes];
}

function searched(sheet, width, length) {
  const given = (path) => sheet.number(path);
  return { given, greedy: beam(given, 1, length), beam: beam(given, width, length), best: bestOf(given, length) };
}

/** The tree without what the searches did. */
function undecided(tree) {
  for (const box of tree.querySelectorAll('[data-path]')) {
    box.className = 'choice';
    box.querySelector('[data-of]').replaceChildren();
  }
  tree.querySelector('.edges').replaceChildren();
}

/** What both searches did, in each box and in the edges. */
function decorate(tree, found, length) {
  const candidates = new Map(found.beam.steps.flat().map((one) => [one.path, one]));
  const states = all(length).map((path) => {
    const one = candidates.get(path);
    const isOf = (answer) => answer.path.startsWith(path);
    return {
      path,
      p: product(found.given, path),
      isGreedy: isOf(found.greedy.answer),
      isBeam: isOf(found.beam.answer),
      words: one ? `${one.isKept ? 'kept' : 'pruned'}, rank ${one.rank}` : 'not reached',
      state: one?.isKept ? 'kept' : 'pruned',
    };
  });
  for (const { path, p, words, state, isGreedy, isBeam } of states) {
    const box = tree.querySelector(`[data-path="${path}"]`);
    box.className = `choice ${state}${isGreedy ? ' greedy' : ''}${isBeam ? ' beam' : ''}`;
    box.querySelector('[data-of]').replaceChildren(`${path}: ${probability(p)}`, el('br'), words);
    Object.assign(box.dataset, { p: String(p), state: words });
  }
  tree.querySelector('.edges').replaceChildren(edges(states, length));
}

function edges(states, length) {
  const line = ({ path, state, isGreedy, isBeam }) => {
    const [x, y] = place(path, length);
    const [fromX, fromY] = path.length > 1 ? place(path.slice(0, -1), length) : [LEFT - COLUMN, (heightOf(length) - HIGH + TOP - GAP) / 2];
    const from = path.length > 1 ? fromX + WIDE : 40;
    const draw = (kind, by) =>
      svg(`path.${kind}`, { d: `M${from} ${fromY + HIGH / 2 + by}C${(from + x) / 2} ${fromY + HIGH / 2 + by} ${(from + x) / 2} ${y + HIGH / 2 + by} ${x} ${y + HIGH / 2 + by}` });
    return [draw(state, 0), isBeam ? draw('beam', isGreedy ? -3 : 0) : null, isGreedy ? draw('greedy', isBeam ? 3 : 0) : null];
  };
  const middle = (heightOf(length) + TOP - GAP) / 2;
  return svg(
    'svg',
    { width: LEFT + length * COLUMN, height: heightOf(length), 'aria-hidden': 'true' },
    states.map(line),
    svg('text', { x: 0, y: middle + 4 }, '<bos>'),
  );
}

const legend = () =>
  el(
    'p.size.tree-key',
    el('span.key-beam', 'answer of beam search'),
    el('span.key-greedy', 'answer of greedy search'),
    el('span.key-pruned', 'pruned or not reached'),
  );

function verdict(found, width, length) {
  const [greedy, beamed] = [found.greedy.answer, found.beam.answer];
  const of = ({ path, p }) => `${path} with ${probability(p)}`;
  const rows = [
    ['greedy search', greedy],
    [`beam search, width ${width}`, beamed],
    [`best of all ${2 ** length}`, found.best],
  ];
  const isLess = (one, than) => one.p < than.p - 1e-12;
  return [
    finding(
      `Greedy search finds ${of(greedy)}, beam search of width ${width} finds ${of(beamed)}. `,
      isLess(greedy, beamed) ? `Greedy search loses: ${whyLost(found.greedy, beamed)} ` : '',
      isLess(beamed, greedy) ? 'Here greedy search is the better one. ' : '',
      isLess(beamed, found.best)
        ? `Beam search misses ${of(found.best)}: ${whyLost(found.beam, found.best)}`
        : 'No answer is more probable than that of beam search.',
    ),
    el(
      'div.scroller',
      table(
        '',
        ['search', 'answer', 'product', 'probability', 'sum of logarithms'],
        rows.map(([name, { path, p }]) => {
          const factors = [...path].map((_, i) => probability(found.given(path.slice(0, i + 1)))).join(' · ');
          const data = { search: name, answer: path, p: String(p) };
          return row({ data }, name, path, factors, probability(p), p > 0 ? digits(Math.log(p)) : '−∞');
        }),
      ),
    ),
    el(
      'p.hint',
      'The panel “Search” has the tree of this model. Lesson 7 of the course computes the same numbers in Python, and adds the length penalty.',
    ),
  ];
}

/** At which step a search pruned the beginning of an answer, and what it kept in its place. */
function whyLost({ steps }, lost) {
  for (const [step, candidates] of steps.entries()) {
    const own = candidates.find(({ path }) => lost.path.startsWith(path));
    if (!own || own.isKept) continue;
    const last = candidates.findLast(({ isKept }) => isKept);
    return `at step ${step} it kept ${last.path} with ${probability(last.p)} and pruned ${own.path} with ${probability(own.p)}.`;
  }
  return '';
}
