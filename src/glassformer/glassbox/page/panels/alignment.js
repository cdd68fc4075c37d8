/** Alignment: cross-attention, occlusion and gradient × input side by side; attention alone is not an explanation. */

import { button, choices, el, table } from 'glassbox/dom.js';
import { digits, rowOf } from 'glassbox/numbers.js';
import { canMeasure, measure } from 'glassbox/evidence.js';
import { picture } from 'glassbox/picture.js';
import { visible } from 'glassbox/trace.js';

const WORDS = {
  attention: 'Cross-attention weights, mean over layers and heads.',
  occlusion:
    'How much the log-probability of the output token falls when the source token is occluded. ' +
    'The source token with the largest value in a row is the most influential token.',
  gradient:
    'Gradient of the log-probability of the output token with respect to the embedding ' +
    'of the source token, times that embedding: a first-order estimate of its influence.',
};

const NAMES = { attention: 'attention', occlusion: 'occlusion', gradient: 'gradient × input' };

export function alignment(app) {
  const { trace } = app;
  if (!trace.evidence && canMeasure(trace)) measure(trace);
  if (!trace.evidence)
    return el(
      'p.hint',
      app.words.length
        ? 'The alignment is not available: the edit changed the length of the source or of the output, and the ' +
            'page cannot compute gradients. Undo the edits, or use “glassformer explain --edit”.'
        : 'The alignment is not available: this trace was made without it.',
    );
  const shown = app.state.evidence ?? 'all';
  const kinds = (shown === 'all' ? Object.keys(WORDS) : [shown]).filter((kind) => trace.has(trace.evidence[kind]));
  const isOld = trace.evidence.before_edits;
  return [
    el(
      'p.lead',
      'Which source tokens does each output token depend on? Three measures. ' +
        'Attention weights alone are not an explanation: do not trust them where the measures disagree.',
    ),
    choices('evidence', [['all', 'all'], ...Object.entries(NAMES)], shown, (evidence) => app.set({ evidence })),
    isOld
      ? el(
          'p.row',
          el('span.badge.gray', 'computed before the edits'),
          app.base.hasWeights
            ? button('recompute attention and occlusion', () => again(app), { data: { key: 'measure' } })
            : null,
        )
      : null,
    trace.evidence.gradient_before_edits || (trace.evidence.measured_again && trace.has(trace.evidence.gradient))
      ? el('p', el('span.badge.gray', 'gradient × input: computed before the edits'))
      : null,
    kinds.map((kind) => one(app, kind)),
    trace.has(trace.evidence.gradient)
      ? null
      : el('p.hint', 'Gradient × input is not available: this page computed the trace, and it cannot compute gradients.'),
    correlations(app),
  ];
}

function one(app, kind) {
  const x = app.trace.get(app.trace.evidence[kind]);
  const rows = Array.from({ length: x.shape[0] }, (_, row) => rowOf(x, row));
  const labels = (axis) => Array.from({ length: app.trace.axes[axis].length }, (_, i) => app.trace.label(axis, i));
  const outputs = app.trace.tokens.target_out.map((token) => visible(token.text));
  const { occluded_by: by } = app.trace.evidence;
  const how =
    kind !== 'occlusion'
      ? ''
      : by === 'mask'
        ? ' Occluded tokens are masked.'
        : ` Occluded tokens are replaced by ${by}.`;
  return el(
    'section',
    { 'aria-label': kind, data: { evidence: kind } },
    el('p.words', WORDS[kind] + how),
    picture(NAMES[kind], rows, outputs, labels('source_key'), {
      scale: kind === 'attention' ? 1 : undefined,
      row: app.row,
      lights: ['t', 's'],
      onPick: (row, column) => app.pick(app.trace.evidence[kind], [row, column]),
    }),
  );
}

function correlations({ trace, row }) {
  const text = (number) => (number === null ? 'not defined' : digits(number));
  const found = table(
    'rank correlation with attention (Spearman, absolute values)',
    ['', 'all cells', `step ${row}`],
    Object.entries(trace.evidence.correlations).map(([name, { all, rows }]) =>
      el(
        'tr',
        { data: { correlation: name } },
        el('th', { scope: 'row' }, NAMES[name] ?? name),
        el('td', text(all)),
        el('td', text(rows[row] ?? null)),
      ),
    ),
  );
  return [found, el('p.hint', '1: the measure ranks the source tokens as attention does. 0: the two are not related.')];
}

function again(app) {
  measure(app.trace);
  app.notify();
}
