/** Search: greedy search and beam search as a tree; pruned candidates are gray, with their rank and the reason. */

import { bdi, choices, el, svg, table } from 'glassbox/dom.js';
import { digits, grouped } from 'glassbox/numbers.js';
import { visible } from 'glassbox/trace.js';

const [COLUMN, LINE, WIDE, HIGH] = [96, 24, 80, 19];

export function searching(app) {
  const kind = app.state.search ?? 'beam';
  const search = app.trace.search[kind];
  const text = el('p.so-far', { role: 'status' }, 'Point at a node, or move to it with Tab, to see its details here.');
  return [
    el(
      'p.lead',
      'Greedy search keeps the most probable token at each step. Beam search keeps the best hypotheses and ' +
        'prunes the other candidates: they are gray, with the reason why they were pruned.',
    ),
    el(
      'p.row',
      el('span.badge.green', `encoder ran ${search.encoder_runs}×`),
      el('span.badge.gray', `decoder ran ${grouped(search.decoder_runs)}×`),
      choices(
        'search',
        [
          ['greedy', 'greedy'],
          ['beam', `beam width ${app.trace.search.beam.num_beams}`],
        ],
        kind,
        (chosen) => app.set({ search: chosen }),
      ),
    ),
    compared(app),
    el('p.size', `The search stopped: ${search.stopped}.`),
    text,
    el('div.scroller.tree', { tabindex: 0, role: 'region', 'aria-label': 'search tree' }, tree(app, search, text)),
    el(
      'p.hint',
      'Each column is a decoding step, and each node a candidate with the probability of its token. Blue: the path ' +
        'of the best answer. Thick border: finished. Gray with a dashed border: pruned.',
    ),
    depthTable(app, search),
  ];
}

function compared({ trace }) {
  const rows = [
    ...trace.search.beam.answers.map((answer, i) => [`beam search, rank ${i + 1}`, answer]),
    ['greedy search', trace.search.greedy.answers[0]],
  ];
  return table(
    'answers',
    ['search', 'answer', 'log-probability', 'with length penalty', ''],
    rows.map(([name, answer]) =>
      el(
        'tr',
        el('th', { scope: 'row' }, name),
        el('td', bdi(visible(answer.text))),
        [digits(answer.score), digits(answer.rank_score), answer.finished ? '' : 'unfinished'].map((part) =>
          el('td', part),
        ),
      ),
    ),
  );
}

/** Ids of the nodes from the root to the best answer's. */
function bestPath(search) {
  const path = new Set();
  for (let id = search.answers[0].node; id !== null; id = search.nodes[id].parent) path.add(id);
  return path;
}

function textOf(search, node) {
  const pieces = [];
  for (let last = node; last; last = last.parent === null ? null : search.nodes[last.parent])
    pieces.unshift(visible(last.text));
  return pieces.join(' ');
}

function tree(app, search, text) {
  const best = bestPath(search);
  const position = (node) => [node.step * COLUMN + 8, (node.rank - 1) * LINE + 26];
  const steps = Math.max(...search.nodes.map((node) => node.step)) + 1;
  const height = Math.max(...search.nodes.map((node) => node.rank)) * LINE + 34;
  const edges = search.nodes
    .filter((node) => node.parent !== null)
    .map((node) => {
      const [[x1, y1], [x2, y2]] = [position(search.nodes[node.parent]), position(node)];
      const middle = (x1 + WIDE + x2) / 2;
      return svg('path.edge', {
        class: best.has(node.id) ? 'best' : node.state,
        d:
          `M${x1 + WIDE} ${y1 + HIGH / 2} C${middle} ${y1 + HIGH / 2} ` +
          `${middle} ${y2 + HIGH / 2} ${x2} ${y2 + HIGH / 2}`,
      });
    });
  const headings = Array.from({ length: steps }, (_, step) =>
    svg('text.heading', { x: step * COLUMN + 8, y: 14 }, `step ${step}`),
  );
  const nodes = search.nodes.map((node) => nodeBox(app, search, node, position(node), best.has(node.id), text));
  return svg(
    'svg',
    { width: steps * COLUMN + 8, height, role: 'group', 'aria-label': `${search.nodes.length} nodes` },
    headings,
    edges,
    nodes,
  );
}

function nodeBox(app, search, node, [x, y], isBest, text) {
  const words =
    `${textOf(search, node)} · log-probability ${digits(node.log_prob)}, sum ${digits(node.sum)}, ` +
    `with length penalty ${digits(node.rank_score)} · rank ${node.rank}, ${node.state}: ${node.reason}`;
  const describe = () => text.replaceChildren(bdi(words));
  const open = () => app.set({ row: Math.min(node.step, app.rows.inputs.length - 1), panel: 'logits', gold: false });
  const short = visible(node.text);
  return svg(
    'g.node',
    {
      class: isBest ? `best ${node.state}` : node.state,
      role: 'button',
      tabindex: 0,
      'aria-label': words,
      transform: `translate(${x} ${y})`,
      data: { node: node.id, key: `node-${node.id}` },
      on: {
        mouseenter: describe,
        focus: describe,
        click: open,
        keydown: (event) => (event.key === 'Enter' ? open() : null),
      },
    },
    svg('rect', { width: WIDE, height: HIGH, rx: 3 }),
    svg('text', { x: 6, y: 14 }, short.length > 5 ? `${short.slice(0, 4)}…` : short),
    svg(
      'text.probability',
      { x: WIDE - 5, y: 14, 'text-anchor': 'end' },
      Math.exp(node.log_prob) >= 0.01 ? `${Math.round(Math.exp(node.log_prob) * 100)} %` : '< 1 %',
    ),
  );
}

/** The candidates of the selected decoding step as a table. */
function depthTable(app, search) {
  const nodes = search.nodes.filter((node) => node.step === Math.min(app.row, search.nodes.at(-1).step));
  return el(
    'div.scroller',
    table(
      `candidates of step ${nodes[0].step}`,
      ['rank', 'tokens', 'log-probability', 'sum', 'with length penalty', 'state', 'reason'],
      nodes.map((node) =>
        el(
          'tr',
          { class: node.state },
          el('th', { scope: 'row' }, String(node.rank)),
          el('td', bdi(textOf(search, node))),
          [digits(node.log_prob), digits(node.sum), digits(node.rank_score), node.state].map((part) => el('td', part)),
          el('td.reason', node.reason),
        ),
      ),
    ),
  );
}
