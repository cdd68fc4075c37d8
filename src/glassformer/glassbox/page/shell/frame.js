/** The frame of the panels: model and text, source and output, display settings, tabs, decoding steps. */

import { copyButton } from 'glassbox/core/copy.js';
import { bdi, button, choices, el, select, switchLight } from 'glassbox/core/dom.js';
import { digits, percent } from 'glassbox/core/numbers.js';
import { showKeys } from 'glassbox/shell/keys.js';
import { groups } from 'glassbox/panels/all.js';
import { sameSource } from 'glassbox/model/source.js';
import { visible } from 'glassbox/model/trace.js';
import { warningsOf } from 'glassbox/model/warnings.js';

/** The name of the model, and what concerns the whole page. `form` has the form for another text. */
export const bar = (app, form) => [
  el(
    'div.titles',
    el('strong.brand', 'glassformer'),
    app.server ? modelChoice(app) : el('span.size', { title: app.base.provenance.model }, modelName(app.base)),
    app.base.provenance.members > 1 ? el('span.size', `the first of ${app.base.provenance.members} members`) : null,
  ),
  el('div', { id: 'ask' }, form),
  el(
    'div.page-tools',
    copyButton('copy link', () => app.link({ typed: app.typed }), { title: 'copy the address of what is shown', data: { key: 'copy-link' } }),
    button('◐', () => toggleLight(app), { 'aria-label': 'light or dark theme', title: 'light or dark theme', data: { key: 'light' } }),
    button('?', () => showKeys(), { 'aria-label': 'keyboard shortcuts', title: 'keyboard shortcuts', data: { key: 'help' } }),
  ),
];

/** The models of a server that has several. */
function modelChoice(app) {
  const { model, names } = app.server;
  const open = (name) => location.assign(`?model=${encodeURIComponent(name)}#${app.state.panel}`);
  return names.length > 1 ? select('model', names.map((name) => [name, name]), model.name, open) : null;
}

const modelName = (trace) => trace.provenance.model.split('/').slice(-2).join('/');

function toggleLight(app) {
  switchLight();
  app.notify(false, null);
}

/** Source, output and target, with the edits. */
export function header(app) {
  const { trace } = app;
  const best = trace.search.beam.answers[0];
  const { num_beams: beams, length_alpha: alpha } = trace.search.beam;
  const isLong = Math.max(trace.text.length, trace.translation.length) > 60;
  const warnings = warningsOf(trace);
  const warning = (words) => el('small.wrong', ` ${words}`);
  return el(
    'dl.answer',
    { class: isLong ? 'wide' : null },
    pair('source', [sourceOf(app), warnings.source.map(warning)]),
    pair(
      `output (${beams === 1 ? 'greedy search' : `beam width ${beams}`})`,
      [
        bdi(trace.translation || '(empty)', 'output'),
        confidenceOf(trace, best),
        warnings.output.map(warning),
      ],
      `length penalty α = ${alpha}; the encoder ran ${trace.search.beam.encoder_runs}×`,
    ),
    goldOf(app),
  );
}

/** The confidence of the answer, or where it is not known its score. */
function confidenceOf({ confidence }, { score }) {
  const own = digits(score);
  return confidence === null || confidence === undefined
    ? el('small', { title: 'the log-probability of the answer in nats, not whether it is right' }, ` score ${own}`)
    : el(
        'small',
        { title: `calibrated on held-out rows: of answers with 90 %, about nine of ten are right. The score is ${own}`, data: { confidence } },
        ` confidence ${percent(confidence)}`,
      );
}

const pair = (name, value, title = null) => el('div', { title }, el('dt', name), el('dd', value));

/** The text; after an edit of its tokens the tokens, with the edited ones marked. */
function sourceOf({ trace, base }) {
  const isEdited = (token, i) => token.id !== base.tokens.source[i]?.id;
  const { source } = trace.tokens;
  if (trace === base || !source.some(isEdited)) return bdi(trace.text);
  const shown = source.map((token, i) => [token, isEdited(token, i)]).filter(([{ kind }]) => !['bos', 'eos', 'pad'].includes(kind));
  const gap = base.provenance.settings.tokens.source.kind === 'words' ? ' ' : '';
  return el(
    'bdi.token.source-edited',
    { title: `edited; the text was ${base.text}` },
    shown.map(([token, edited]) => [edited ? el('mark', visible(token.text)) : visible(token.text), gap]),
  );
}

/** The target. It is that of the text, so an output of edited tokens is not compared with it. */
function goldOf({ trace, base }) {
  const gold = trace.target ?? base.target;
  if (gold === null) return null;
  if (!sameSource(base, trace)) return pair('target, of the text before the edit', bdi(gold));
  return pair('target', [bdi(gold), el('small', gold === trace.translation ? ' ✓ equal' : ' ✗ different')]);
}

/** How the panels show their numbers. */
export const tools = (app) => [
  checks(app),
  app.trace.tokens.gold
    ? choices('decoder rows', [[false, 'output'], [true, 'target']], app.state.gold, (gold) => app.set({ gold, row: 0, tensor: null, cell: null }))
    : null,
  choices('depth', { words: 'Words', numbers: 'Numbers', formula: 'Formula' }, app.state.depth, (depth) => app.set({ depth })),
];

/** How many steps this page has recomputed so far, and how many of them are equal to the trace. */
export function checks({ trace }) {
  const count = (wanted) => [...trace.verdicts.values()].filter(({ passed }) => passed === wanted).length;
  const [right, wrong] = [count(true), count(false)];
  const recorded = trace.steps.filter(({ output }) => !trace.isDerived(output)).length;
  const kind = wrong ? 'red' : right ? 'green' : 'gray';
  const text = wrong
    ? `✗ ${wrong} of ${recorded} computations wrong`
    : `✓ ${right} of ${recorded} computations checked`;
  return el(
    `span.badge.${kind}`,
    {
      role: 'status',
      title: 'This page recomputes each step from its inputs and compares the result with the trace, where the file has it.',
      data: { checks: `${right}/${wrong}/${recorded}` },
    },
    el('span.long', text),
    el('span.short', { 'aria-hidden': 'true' }, wrong ? `✗ ${wrong} wrong` : `✓ ${right} checked`),
  );
}

/** The tabs of the group that has the panel; each other group is one button, which opens its first panel. */
export const tabs = (app) =>
  Object.entries(groups).map(([group, members]) => {
    const [names, isOpen] = [Object.keys(members), app.state.panel in members];
    const isFolded = names.length > 1 && !isOpen;
    const label = button(group, () => app.set({ panel: names[0] }), {
      class: 'tab group',
      'aria-expanded': String(isOpen),
      data: { key: `group-${group}` },
    });
    const each = Object.entries(members).map(([name, { title }]) =>
      button(title, () => app.set({ panel: name }), {
        class: 'tab',
        hidden: isFolded,
        'aria-current': app.state.panel === name ? 'page' : null,
        data: { key: `tab-${name}`, panel: name },
      }),
    );
    return names.length > 1 ? [label, ...each] : each;
  });

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
    el('span.size', app.state.gold ? 'target, teacher forcing' : 'decoding steps'),
    button('←', go(-1), { 'aria-label': 'previous step', data: { key: 'step-back' } }),
    el('div.track', { role: 'group', 'aria-label': 'decoding steps' }, buttons),
    button('→', go(1), { 'aria-label': 'next step', data: { key: 'step-on' } }),
  ];
}
