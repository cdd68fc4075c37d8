/** Search: greedy search and beam search as a tree; a click opens the numbers of the hypothesis itself. */

import { beamTree, chance, pathOf } from 'glassbox/views/beamtree.js';
import { bdi, choices, el, row, table, wide } from 'glassbox/core/dom.js';
import { saveButtons } from 'glassbox/views/figure.js';
import { digits, grouped, percent } from 'glassbox/core/numbers.js';
import { pickable } from 'glassbox/views/pick.js';
import { visible } from 'glassbox/model/trace.js';
import { force } from 'glassbox/panels/logits.js';

export function searching(app) {
  const kind = app.state.search;
  const kinds = { greedy: 'greedy', beam: `beam width ${app.trace.search.beam.num_beams}` };
  const search = app.trace.search[kind];
  const readOut = el('div.so-far', { role: 'status' });
  const actions = {
    words: (node) => words(search, node),
    describe: (node) => readOut.replaceChildren(...details(app, search, node)),
    open: (node) => open(app, search, node),
  };
  const drawn = beamTree(search, app.row, actions);
  return [
    el(
      'p.lead',
      'Greedy search keeps the most probable token at each step. Beam search keeps the best hypotheses and prunes the ' +
        'other candidates.',
    ),
    el(
      'p.row',
      choices('search', kinds, kind, (chosen) => app.set({ search: chosen })),
      el('span.badge.green', `encoder ran ${search.encoder_runs}×`),
      el('span.badge.gray', `decoder ran ${grouped(search.decoder_runs)}×`),
    ),
    readOut,
    el('div.scroller.tree', { tabindex: 0, role: 'region', 'aria-label': 'search tree' }, drawn),
    saveButtons(`${kind} search`, drawn),
    el(
      'p.hint',
      'Each column is a decoding step, and each box a candidate; the dot at its left is at the log-probability of all ' +
        'tokens so far. In a box: the token; above, the probability of the token given those before it; below, the ' +
        'probability of all tokens so far. Thick blue: the answer. Double border: finished. Gray, dashed: pruned. ' +
        'Select a box to open the numbers of its hypothesis. A difference of log-probabilities is in nats: 1 nat is a factor of ' +
        'e = 2.72.',
    ),
    el('p.size', `The search stopped: ${search.stopped.replaceAll(/-(?=\d)/g, '−')}.`),
    compared(app),
  ];
}

function compared({ trace }) {
  const answers = [
    ...trace.search.beam.answers.map((answer, i) => [`beam search, rank ${i + 1}`, answer]),
    ['greedy search', trace.search.greedy.answers[0]],
  ];
  const columns = ['search', 'answer', 'score', 'with length penalty', 'end'];
  const lines = answers.map(([name, { text, score, rank_score: ranked, finished }]) => {
    const numbers = [digits(score), digits(ranked)];
    return row(name, bdi(visible(text)), ...numbers, finished ? 'finished' : 'cut off');
  });
  return wide(table('answers', columns, lines));
}

const textOf = (search, node) =>
  pathOf(search, node)
    .map(({ text }) => visible(text))
    .join(' ');

const words = (search, node) =>
  `${textOf(search, node)} · this token ${chance(node.log_prob)}, all so far ${chance(node.sum)}, rank ${node.rank}, ` +
  `${node.state}: ${node.reason}`;

/** The read-out of a node, which has the same height for all of them. */
function details(app, search, node) {
  const pair = (name, value) => el('div', el('dt', name), el('dd', value));
  const count = search.nodes.filter((other) => other.step === node.step).length;
  return [
    el('p.path', el('span.size', `step ${node.step}: `), bdi(textOf(search, node))),
    el(
      'dl',
      pair('this token, given those before', [`${percent(Math.exp(node.log_prob))} · log `, logOf(app, search, node)]),
      pair('all tokens so far', `${percent(Math.exp(node.sum))} · log ${digits(node.sum)}`),
      pair('with length penalty', digits(node.rank_score)),
      pair('rank', `${node.rank} of ${count} shown, ${node.state}`),
    ),
    el('p.reason', `${node.reason}. `, el('span.size', effect(app, search, node))),
  ];
}

/** The log-probability of a token, which is a cell of the page where its hypothesis is the one that is shown. */
const logOf = (app, search, node) =>
  isShown(app, search, node) && !app.state.gold
    ? pickable(app, 'log_probs', [node.step, node.token], digits(node.log_prob))
    : digits(node.log_prob);

/** Whether the hypothesis is the one that the numbers of the page are of. */
const isShown = (app, search, node) =>
  pathOf(search, node).every(({ token }, step) => app.trace.tokens.target_out[step]?.id === token);

function effect(app, search, node) {
  if (isShown(app, search, node)) return 'Select it to open its row.';
  if (app.canEdit) return 'Select it to open its own numbers: its tokens become a forced prefix.';
  return 'Its own numbers are not in this page, which has no weights.';
}

/** Open the row of a node: of the numbers shown, or else of those with the tokens of the node as a forced prefix. */
async function open(app, search, node) {
  const there = { row: node.step, panel: 'logits', gold: false };
  if (isShown(app, search, node)) {
    app.set(there);
    return;
  }
  if (!app.canEdit) return;
  const { eos } = app.trace.vocabularies.target.specials;
  const ids = pathOf(search, node).map(({ token }) => token);
  await force(app, ids.filter((id) => id !== eos));
  if (!app.problem) app.set(there);
}
