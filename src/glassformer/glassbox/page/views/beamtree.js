/**
 * The candidates of a search as a tree: steps to the right, log-probability downwards. A box shows its token with the
 * probability of the token given those before it, and the probability of all tokens so far.
 */

import { cut, image, range, svg } from 'glassbox/core/dom.js';
import { powerOfTen, ticks } from 'glassbox/core/numbers.js';
import { visible } from 'glassbox/model/trace.js';

const [COLUMN, WIDE, HIGH, GAP, LEFT, TOP] = [126, 96, 34, 5, 52, 26];
const MIN_HEIGHT = 300; // of the scale

export const chance = (log) => {
  const p = Math.exp(log);
  if (p > 0.995 && p < 1) return '> 99\u00a0%';
  if (p >= 0.01) return `${Math.round(p * 100)}\u00a0%`;
  return p >= 0.001 ? `${(p * 100).toFixed(1)}\u00a0%` : `≈ ${powerOfTen(Math.round(log / Math.LN10))}`;
};

/** The nodes from the first token to this one. */
export function pathOf(search, node) {
  const path = [];
  for (let id = node.id; id !== null; id = search.nodes[id].parent) path.unshift(search.nodes[id]);
  return path;
}

/**
 * @param search  of a trace
 * @param {number} step  whose node of the answer is lit, where no other one is pointed at
 * @param {{describe: (node: object) => void, open: (node: object) => void, words: (node: object) => string}} actions
 */
export function beamTree(search, step, actions) {
  const answer = pathOf(search, search.nodes[search.answers[0].node]);
  const best = new Set(answer.map((node) => node.id));
  const here = answer[Math.min(step, answer.length - 1)];
  const layout = placed(search.nodes);
  const steps = Math.max(...search.nodes.map((node) => node.step)) + 1;
  const [width, height] = [LEFT + steps * COLUMN, layout.height];
  const tree = image(
    width,
    height,
    `${search.nodes.length} candidates in ${steps} steps`,
    { role: 'group' },
    axis(layout, width),
    range(steps).map((i) => svg('text.heading', { x: LEFT + i * COLUMN + 14, y: 14 }, `step ${i}`)),
    search.nodes.map((node) => edge(search, node, layout, best)),
    search.nodes.map((node) => box(node, layout, best, here, actions)),
  );
  const show = (node) => {
    const path = new Set(pathOf(search, node).map(({ id }) => String(id)));
    for (const each of tree.querySelectorAll('[data-node], [data-edge]'))
      each.classList.toggle('trail', path.has(each.dataset.node ?? each.dataset.edge));
    actions.describe(node);
  };
  const nodeAt = (target) => search.nodes[target.closest('[data-node]')?.dataset.node] ?? null;
  tree.addEventListener('pointerover', (event) =>
    show(nodeAt(event.target) ?? nodeAt(document.activeElement) ?? here),
  );
  tree.addEventListener('pointerleave', () => show(nodeAt(document.activeElement) ?? here));
  tree.addEventListener('focusin', (event) => show(nodeAt(event.target) ?? here));
  tree.addEventListener('click', (event) => nodeAt(event.target) && actions.open(nodeAt(event.target)));
  tree.addEventListener('keydown', (event) => move(search, tree, nodeAt(event.target), event, actions));
  show(here);
  return tree;
}

/** Where each box is: at its log-probability, or below the box above it where they would overlap. */
function placed(nodes) {
  const [top, bottom] = [Math.max(...nodes.map((node) => node.sum)), Math.min(...nodes.map((node) => node.sum))];
  const rows = Math.max(...nodes.map((node) => node.rank));
  const scale = Math.max(MIN_HEIGHT, rows * (HIGH + GAP)) / (top - bottom || 1);
  const exact = (sum) => TOP + HIGH / 2 + (top - sum) * scale;
  const places = new Map();
  const ends = new Map(); // of the lowest box of each step
  for (const node of nodes.toSorted((one, other) => one.step - other.step || one.rank - other.rank)) {
    const y = Math.max(exact(node.sum) - HIGH / 2, ends.get(node.step) ?? 0);
    ends.set(node.step, y + HIGH + GAP);
    places.set(node.id, { x: LEFT + node.step * COLUMN + 14, y, exact: exact(node.sum) });
  }
  return { places, exact, top, bottom, height: Math.max(...ends.values()) + 8 };
}

function axis({ exact, top, bottom }, width) {
  return [
    svg('text.heading', { x: 2, y: 14 }, 'log p'),
    ticks(bottom, top, 8).map((sum) => [
      svg('line.axis', { x1: LEFT - 8, x2: width, y1: exact(sum), y2: exact(sum) }),
      svg('text.heading', { x: LEFT - 12, y: exact(sum) + 4, 'text-anchor': 'end' }, String(sum).replace('-', '−')),
    ]),
  ];
}

/** From the parent's box to the exact log-probability of a node, and from there to its box. */
function edge(search, node, { places }, best) {
  const { x, y, exact } = places.get(node.id);
  const parent = node.parent === null ? null : places.get(node.parent);
  const start = parent ? `M${parent.x + WIDE} ${parent.y + HIGH / 2}` : `M${x - 14} ${exact}`;
  const middle = parent ? (parent.x + WIDE + x - 8) / 2 : x - 8;
  const turn = parent ? `C${middle} ${parent.y + HIGH / 2} ${middle} ${exact} ${x - 8} ${exact}` : `L${x - 8} ${exact}`;
  return svg(
    'g.edge',
    { class: best.has(node.id) ? 'best' : node.state, data: { edge: node.id } },
    svg('path', { d: `${start} ${turn} L${x} ${y + HIGH / 2}` }),
    svg('circle', { cx: x - 8, cy: exact, r: 2.5 }),
  );
}

function box(node, { places }, best, here, actions) {
  const { x, y } = places.get(node.id);
  const short = visible(node.text);
  const isBest = best.has(node.id);
  return svg(
    'g.node',
    {
      class: isBest ? `best ${node.state}` : node.state,
      role: 'button',
      tabindex: node === here ? 0 : -1,
      'aria-current': node === here ? 'step' : null,
      'aria-label': actions.words(node),
      transform: `translate(${x} ${y})`,
      data: { node: node.id, key: `node-${node.id}`, ...(isBest ? { at: `t${node.step}` } : {}) },
    },
    svg('rect.box', { width: WIDE, height: HIGH, rx: 4 }),
    svg('text', { x: 6, y: 14 }, cut(short, 6)),
    svg('text.probability', { x: WIDE - 5, y: 14, 'text-anchor': 'end' }, chance(node.log_prob)),
    svg('rect.total', { x: 6, y: 20, width: WIDE - 58, height: 7 }),
    svg('rect.part', { x: 6, y: 20, width: (WIDE - 58) * Math.exp(node.sum), height: 7 }),
    svg('text.probability', { x: WIDE - 5, y: 28, 'text-anchor': 'end' }, chance(node.sum)),
  );
}

/** ← the node before, → its best continuation, ↑ and ↓ the ranks of its step. */
function move(search, tree, node, event, actions) {
  if (!node) return;
  if (event.key === 'Enter' || event.key === ' ') {
    event.preventDefault();
    actions.open(node);
  }
  const inStep = (rank) => search.nodes.find((other) => other.step === node.step && other.rank === rank);
  const to = {
    ArrowLeft: () => search.nodes[node.parent],
    ArrowRight: () => search.nodes.find((other) => other.parent === node.id),
    ArrowUp: () => inStep(node.rank - 1),
    ArrowDown: () => inStep(node.rank + 1),
  }[event.key]?.();
  if (!to) return;
  event.preventDefault();
  event.stopPropagation();
  tree.querySelector(`[data-node="${to.id}"]`).focus();
}
