/** What stands around the panels: source and output above, decoding steps below, tabs, depth, light. */

import { bdi, button, choices, el } from 'glassbox/dom.js';
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
        `output (beam of ${beams})`,
        [
          bdi(trace.translation || '(nothing)', 'output'),
          el('small', ` ${percent(Math.exp(best.score))}${best.finished ? '' : ', unfinished'}`),
        ],
        `length penalty α = ${alpha}; the encoder ran ${trace.search.beam.encoder_runs}×`,
      ),
      gold === null
        ? null
        : pair('gold', [bdi(gold), el('small', gold === trace.translation ? ' ✓ equal' : ' ✗ differs')]),
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
      button('◐', toggleLight(app), { 'aria-label': 'light or dark', data: { key: 'light' } }),
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
      [false, 'answer'],
      [true, 'gold'],
    ],
    app.state.gold,
    (gold) => app.set({ gold, row: 0, tensor: null, cell: null }),
  );

/** How many steps this page has redone so far, and how many are right. */
export function checks({ trace }) {
  const found = [...trace.verdicts.values()].map((verdict) => verdict.passed);
  const [right, wrong] = [
    found.filter((passed) => passed === true).length,
    found.filter((passed) => passed === false).length,
  ];
  const kind = wrong ? 'red' : right ? 'green' : 'grey';
  const text = wrong ? `✗ ${wrong} steps wrong` : `✓ ${right} of ${trace.steps.length} steps redone`;
  return el(
    `span.badge.${kind}`,
    {
      role: 'status',
      title: 'each step, redone by this page from the numbers it shows',
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
          el('strong', 'edited: '),
          app.trace.edits.map((words) =>
            app.words.includes(words)
              ? button([words, ' ✕'], () => app.toggleEdit(words), {
                  class: 'pill',
                  'aria-label': `take back: ${words}`,
                  data: { key: `edit-${words}` },
                })
              : el('span.pill', words),
          ),
        ]
      : null,
    app.words.length
      ? button('take all back', () => app.edit([]), { class: 'link', data: { key: 'edit-none' } })
      : null,
  );
}

function toggleLight(app) {
  return () => {
    const root = document.documentElement;
    const isDark = getComputedStyle(root).getPropertyValue('color-scheme').trim() === 'dark';
    root.dataset.light = isDark ? 'light' : 'dark';
    app.tell();
  };
}

export const tabs = (app, panels) =>
  Object.entries(panels).map(([name, { title }]) =>
    button(title, () => app.set({ panel: name }), {
      class: 'tab',
      'aria-current': app.state.panel === name ? 'page' : null,
      data: { key: `tab-${name}`, panel: name },
    }),
  );

/** One button for each decoder row; ← and → go along them. */
export function steps(app) {
  const { fed, asked } = app.rows;
  const buttons = asked.map((token, row) =>
    button([el('small', String(row)), el('bdi', visible(token.text))], () => app.set({ row }), {
      class: `step ${token.kind}`,
      'aria-current': row === app.row ? 'step' : null,
      data: { key: `row-${row}`, row },
      title: `row ${row}: fed ${fed[row].text}, asked for ${token.text}`,
    }),
  );
  const go = (by) => () => app.set({ row: Math.max(0, Math.min(asked.length - 1, app.row + by)) });
  return [
    el('span.size', app.state.gold ? 'gold, teacher-forced' : 'decoding steps'),
    button('←', go(-1), { 'aria-label': 'the step before', data: { key: 'step-back' } }),
    el('div.track', { role: 'group', 'aria-label': 'decoding steps' }, buttons),
    button('→', go(1), { 'aria-label': 'the next step', data: { key: 'step-on' } }),
  ];
}
