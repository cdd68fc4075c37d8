/** The frame of the panels: source and output above, decoding steps below, tabs, depth, theme. */

import { bdi, button, choices, el, switchLight } from 'glassbox/dom.js';
import { percent } from 'glassbox/numbers.js';
import { visible } from 'glassbox/trace.js';

export function header(app) {
  const { trace } = app;
  const best = trace.search.beam.answers[0];
  const { num_beams: beams, length_alpha: alpha } = trace.search.beam;
  const gold = trace.target ?? app.base.target;
  const isLong = Math.max(trace.text.length, trace.translation.length) > 60;
  return [
    el(
      'div.titles',
      el('strong.brand', 'glassformer'),
      app.server ? null : el('span.size', { title: trace.provenance.model }, modelName(trace)),
    ),
    el(
      'dl.answer',
      { class: isLong ? 'long' : null },
      pair('source', bdi(trace.text)),
      pair(
        `output (${beams === 1 ? 'greedy search' : `beam width ${beams}`})`,
        [
          bdi(trace.translation || '(empty)', 'output'),
          el('small', ` ${percent(Math.exp(best.score))}${best.finished ? '' : ', unfinished'}`),
        ],
        `probability of the output; length penalty α = ${alpha}; the encoder ran ${trace.search.beam.encoder_runs}×`,
      ),
      gold === null
        ? null
        : pair('gold', [bdi(gold), el('small', gold === trace.translation ? ' ✓ equal' : ' ✗ different')]),
    ),
    el(
      'div.tools',
      checks(app),
      trace.tokens.gold ? goldSwitch(app) : null,
      choices(
        'depth',
        [
          ['words', 'Words'],
          ['numbers', 'Numbers'],
          ['formula', 'Formula'],
        ],
        app.state.depth,
        (depth) => app.set({ depth }),
      ),
      button('◐', toggleLight(app), { 'aria-label': 'light or dark theme', data: { key: 'light' } }),
    ),
    edited(app),
  ];
}

const pair = (name, value, title = null) => el('div', { title }, el('dt', name), el('dd', value));

const modelName = (trace) => trace.provenance.model.split('/').slice(-2).join('/');

const goldSwitch = (app) =>
  choices(
    'decoder rows',
    [
      [false, 'output'],
      [true, 'gold'],
    ],
    app.state.gold,
    (gold) => app.set({ gold, row: 0, tensor: null, cell: null }),
  );

/** How many steps this page has recomputed so far, and how many of them are equal to the trace. */
export function checks({ trace }) {
  const found = [...trace.verdicts.values()].map((verdict) => verdict.passed);
  const [right, wrong] = [
    found.filter((passed) => passed === true).length,
    found.filter((passed) => passed === false).length,
  ];
  const kind = wrong ? 'red' : right ? 'green' : 'gray';
  const text = wrong
    ? `✗ ${wrong} of ${trace.steps.length} steps wrong`
    : `✓ ${right} of ${trace.steps.length} steps recomputed`;
  return el(
    `span.badge.${kind}`,
    {
      role: 'status',
      title: 'This page recomputes each step from its inputs and compares the result with the trace.',
      data: { checks: `${right}/${wrong}/${trace.steps.length}` },
    },
    text,
  );
}

function edited(app) {
  if (!app.trace.edits.length && !app.problem && !app.busy) return null;
  return el(
    'div.edited',
    { role: 'status' },
    app.busy ? el('span', 'computing …') : null,
    app.problem ? el('span.wrong', app.problem) : null,
    app.trace.edits.length
      ? [
          el('strong', 'edits: '),
          app.trace.edits.map((words) =>
            app.words.includes(words)
              ? button([words, ' ✕'], () => app.toggleEdit(words), {
                  class: 'pill',
                  'aria-label': `undo: ${words}`,
                  data: { key: `edit-${words}` },
                })
              : el('span.pill', words),
          ),
        ]
      : null,
    app.words.length ? button('undo all', () => app.edit([]), { class: 'link', data: { key: 'edit-none' } }) : null,
  );
}

const toggleLight = (app) => () => {
  switchLight();
  app.notify();
};

export const tabs = (app, panels) =>
  Object.entries(panels).map(([name, { title }]) =>
    button(title, () => app.set({ panel: name }), {
      class: 'tab',
      'aria-current': app.state.panel === name ? 'page' : null,
      data: { key: `tab-${name}`, panel: name },
    }),
  );

/** One button for each decoding step; ← and → select the previous and the next one. */
export function steps(app) {
  const { inputs, targets, kind } = app.rows;
  const buttons = targets.map((token, row) =>
    button([el('small', String(row)), el('bdi', visible(token.text))], () => app.set({ row }), {
      class: `step ${token.kind}`,
      'aria-current': row === app.row ? 'step' : null,
      data: { key: `row-${row}`, row, at: `${app.state.gold ? 'g' : 't'}${row}` },
      title: `step ${row}: decoder input ${inputs[row].text}, ${kind} ${token.text}`,
    }),
  );
  const go = (by) => () => app.set({ row: Math.max(0, Math.min(targets.length - 1, app.row + by)) });
  return [
    el('span.size', app.state.gold ? 'gold target, teacher forcing' : 'decoding steps'),
    button('←', go(-1), { 'aria-label': 'previous step', data: { key: 'step-back' } }),
    el('div.track', { role: 'group', 'aria-label': 'decoding steps' }, buttons),
    button('→', go(1), { 'aria-label': 'next step', data: { key: 'step-on' } }),
  ];
}
