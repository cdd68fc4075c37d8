/** Alignment: cross-attention beside occlusion and gradient × input; attention alone is not an explanation. */

import { button, choices, el, table } from 'glassbox/dom.js';
import { digits, rowOf } from 'glassbox/numbers.js';
import { picture } from 'glassbox/picture.js';
import { correlate } from 'glassbox/ranks.js';
import { occlude } from 'glassbox/whatif.js';
import { visible } from 'glassbox/trace.js';

const WORDS = {
  attention: 'Weights of cross-attention, mean over layers and heads: where the decoder looked.',
  occlusion: 'How much the log-probability of the output token falls without the source token: what it leaned on.',
  gradient:
    'Gradient of that log-probability by the token’s embedding, times the embedding: what a small change would do.',
};

export function alignment(app) {
  const { trace } = app;
  if (!trace.evidence)
    return el(
      'p.hint',
      'There is no evidence for this answer: the edit changed its length, and gradients ' +
        'need PyTorch. Take the edits back, or use “glassformer explain --edit”.',
    );
  const shown = app.state.evidence ?? 'all';
  const kinds = shown === 'all' ? Object.keys(WORDS) : [shown];
  const isOld = trace.evidence.before_edits;
  return [
    el(
      'p.lead',
      'Which source token does each output token rest on? Three ways to ' +
        'ask. Where they disagree, attention alone would have misled you.',
    ),
    choices(
      'evidence',
      [
        ['all', 'all three'],
        ['attention', 'attention'],
        ['occlusion', 'occlusion'],
        ['gradient', 'gradient × input'],
      ],
      shown,
      (evidence) => app.set({ evidence }),
    ),
    isOld
      ? el(
          'p.row',
          el('span.badge.grey', 'evidence of before the edit'),
          app.base.hasWeights
            ? button('measure attention and occlusion again', () => measure(app), { data: { key: 'measure' } })
            : null,
        )
      : null,
    trace.evidence.gradient_before_edits || trace.evidence.measured_again
      ? el('p', el('span.badge.grey', 'gradient × input is of before the edit'))
      : null,
    kinds.map((kind) => one(app, kind)),
    correlations(app),
  ];
}

function one(app, kind) {
  const x = app.trace.get(app.trace.evidence[kind]);
  const rows = Array.from({ length: x.shape[0] }, (_, row) => rowOf(x, row));
  const labels = (axis) => Array.from({ length: app.trace.axes[axis].length }, (_, i) => app.trace.label(axis, i));
  const asked = app.trace.tokens.target_out.map((token) => visible(token.text));
  const { occluded_by: by } = app.trace.evidence;
  const how = kind !== 'occlusion' ? '' : by === 'mask' ? ' (hidden by the masks)' : ` (replaced by ${by})`;
  return el(
    'section',
    { 'aria-label': kind, data: { evidence: kind } },
    el('p.words', WORDS[kind] + how),
    picture(kind, rows, asked, labels('source_key'), { scale: kind === 'attention' ? 1 : undefined, row: app.row }),
  );
}

function correlations({ trace, row }) {
  const text = (number) => (number === null ? 'none' : digits(number));
  return table(
    'rank correlation with attention (Spearman, without signs)',
    ['', 'all cells', `row ${row}`],
    Object.entries(trace.evidence.correlations).map(([name, { all, rows }]) =>
      el(
        'tr',
        { data: { correlation: name } },
        el('th', { scope: 'row' }, name),
        el('td', text(all)),
        el('td', text(rows[row] ?? null)),
      ),
    ),
  );
}

/** Attention and occlusion of the edited model; the gradient stays as it was. */
function measure(app) {
  const { trace } = app;
  const cross = trace
    .attentions()
    .filter((name) => name.endsWith('.cross'))
    .map((name) => trace.get(`${name}.weights`));
  const occlusion = occlude(trace);
  const [heads, rows, keys] = cross[0].shape;
  const attention = { ...occlusion, numbers: new Float64Array(rows * keys) };
  for (const weights of cross)
    weights.numbers.forEach((weight, i) => {
      attention.numbers[i % (rows * keys)] += weight / (heads * cross.length);
    });
  trace.opened.set(trace.evidence.attention, attention);
  trace.opened.set(trace.evidence.occlusion, occlusion);
  trace.evidence = {
    ...trace.evidence,
    before_edits: false,
    measured_again: true,
    correlations: { occlusion: correlate(attention, occlusion) },
  };
  app.tell();
}
