/** Search: the greedy trail and the beam as a tree; pruned candidates are grey, with their rank and reason. */

import { bdi, choices, el, svg, table } from 'glassbox/dom.js';
import { digits, grouped } from 'glassbox/numbers.js';
import { visible } from 'glassbox/trace.js';

const [COLUMN, LINE, WIDE, HIGH] = [96, 24, 80, 19];

export function searching(app) {
  const kind = app.state.search ?? 'beam';
  const search = app.trace.search[kind];
  const text = el('p.so-far', { role: 'status' }, 'Move over a node, or Tab to it, to read the text so far.');
  return [
    el(
      'p.lead',
      'Greedy search takes the likeliest token at each step. A beam keeps the ' +
        'best few starts, and forgets the others: here they are still, grey.',
    ),
    el(
      'p.row',
      el('span.badge.green', `encoder ran ${search.encoder_runs}×`),
      el('span.badge.grey', `decoder ran ${grouped(search.decoder_runs)}×`),
      choices(
        'search',
        [
          ['greedy', 'greedy'],
          ['beam', `beam of ${app.trace.search.beam.num_beams}`],
        ],
        kind,
        (chosen) => app.set({ search: chosen }),
      ),
    ),
    compared(app),
    el('p.size', `it stopped: ${search.stopped}`),
    text,
    el(
      'div.scroller.tree',
      { tabindex: 0, role: 'region', 'aria-label': 'tree of the search' },
      tree(app, search, text),
    ),
    el(
      'p.hint',
      'Columns are steps. ▣ on the best path · □ kept · ■ finished ' +
        '· ┄ pruned. A node shows the probability of its token.',
    ),
    depthTable(app, search),
  ];
}

function compared({ trace }) {
  const rows = [
    ...trace.search.beam.answers.map((answer, i) => [`beam, place ${i + 1}`, answer]),
    ['greedy', trace.search.greedy.answers[0]],
  ];
  return table(
    'what was found',
    ['search', 'answer', 'log-probability', 'after the length penalty', ''],
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

function soFar(search, node) {
  const pieces = [];
  for (let each = node; each; each = each.parent === null ? null : search.nodes[each.parent])
    pieces.unshift(visible(each.text));
  return pieces.join(' ');
}

function tree(app, search, text) {
  const best = bestPath(search);
  const place = (node) => [node.step * COLUMN + 8, (node.rank - 1) * LINE + 26];
  const steps = Math.max(...search.nodes.map((node) => node.step)) + 1;
  const height = Math.max(...search.nodes.map((node) => node.rank)) * LINE + 34;
  const edges = search.nodes
    .filter((node) => node.parent !== null)
    .map((node) => {
      const [[x1, y1], [x2, y2]] = [place(search.nodes[node.parent]), place(node)];
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
  const nodes = search.nodes.map((node) => nodeBox(app, search, node, place(node), best.has(node.id), text));
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
    `${soFar(search, node)} · log-probability ${digits(node.log_prob)}, sum ${digits(node.sum)}, ` +
    `after the penalty ${digits(node.normalised)} · rank ${node.rank}, ${node.state}: ${node.reason}`;
  const tell = () => text.replaceChildren(bdi(words));
  const open = () => app.set({ row: Math.min(node.step, app.rows.fed.length - 1), panel: 'logits', gold: false });
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
      on: { mouseenter: tell, focus: tell, click: open, keydown: (event) => (event.key === 'Enter' ? open() : null) },
    },
    svg('rect', { width: WIDE, height: HIGH, rx: 3 }),
    svg('text', { x: 6, y: 14 }, short.length > 5 ? `${short.slice(0, 4)}…` : short),
    svg(
      'text.share',
      { x: WIDE - 5, y: 14, 'text-anchor': 'end' },
      Math.exp(node.log_prob) >= 0.01 ? `${Math.round(Math.exp(node.log_prob) * 100)} %` : '< 1 %',
    ),
  );
}

/** The nodes of the step that is looked at, in words. */
function depthTable(app, search) {
  const nodes = search.nodes.filter((node) => node.step === Math.min(app.row, search.nodes.at(-1).step));
  return el(
    'div.scroller',
    table(
      `candidates of step ${nodes[0].step}`,
      ['rank', 'text so far', 'log-probability', 'sum', 'after the penalty', 'state', 'reason'],
      nodes.map((node) =>
        el(
          'tr',
          { class: node.state },
          el('th', { scope: 'row' }, String(node.rank)),
          el('td', bdi(soFar(search, node))),
          [digits(node.log_prob), digits(node.sum), digits(node.normalised), node.state, node.reason].map((part) =>
            el('td', part),
          ),
        ),
      ),
    ),
  );
}
