/** Alignment: cross-attention, occlusion and gradient × input side by side; attention alone is not an explanation. */

import { button, choices, el, range, row as line, section, table } from 'glassbox/dom.js';
import { digits } from 'glassbox/numbers.js';
import { canMeasure, measure } from 'glassbox/evidence.js';
import { heatmap } from 'glassbox/heatmap.js';
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
  const { evidence } = trace;
  if (!evidence) return el('p.hint', `The alignment is not available: ${whyAbsent(app)}`);
  const shown = app.state.evidence;
  const kinds = (shown === 'all' ? Object.keys(WORDS) : [shown]).filter((kind) => trace.has(evidence[kind]));
  const hasGradient = trace.has(evidence.gradient);
  const isOldGradient = evidence.gradient_before_edits || (evidence.measured_again && hasGradient);
  const again = () => {
    measure(trace);
    app.notify();
  };
  return [
    el(
      'p.lead',
      'Which source tokens does each output token depend on? Three measures. ' +
        'Attention weights alone are not an explanation: do not trust them where the measures disagree.',
    ),
    choices('evidence', { all: 'all', ...NAMES }, shown, (chosen) => app.set({ evidence: chosen })),
    evidence.before_edits
      ? el(
          'p.row',
          el('span.badge.gray', 'computed before the edits'),
          app.base.hasWeights ? button('recompute attention and occlusion', again, { data: { key: 'measure' } }) : null,
        )
      : null,
    isOldGradient ? el('p', el('span.badge.gray', 'gradient × input: computed before the edits')) : null,
    kinds.map((kind) => one(app, kind)),
    hasGradient
      ? null
      : el('p.hint', 'Gradient × input is not available: this trace was computed without PyTorch.'),
    correlations(app),
  ];
}

const whyAbsent = (app) =>
  app.words.length
    ? 'the edit changed the length of the source or of the output, and the ' +
      'page cannot compute gradients. Undo the edits, or use “glassformer explain --edit”.'
    : 'this trace was made without it.';

function one(app, kind) {
  const { trace } = app;
  const name = trace.evidence[kind];
  const by = trace.evidence.occluded_by;
  const how = by === 'mask' ? ' Occluded tokens are masked.' : ` Occluded tokens are replaced by ${by}.`;
  const outputs = trace.tokens.target_out.map((token) => visible(token.text));
  const sources = range(trace.axes.source_key.length).map((i) => trace.label('source_key', i));
  return section(
    kind,
    '',
    { data: { evidence: kind } },
    el('p.words', WORDS[kind] + (kind === 'occlusion' ? how : '')),
    heatmap(NAMES[kind], trace.get(name), {
      rows: outputs,
      columns: sources,
      scale: kind === 'attention' ? 1 : undefined,
      row: app.row,
      cellAt: app.state.tensor === name ? app.state.cell : null,
      onPick: (row, column) => app.pick(name, [row, column], `heatmap-${NAMES[kind]}`),
    }),
  );
}

function correlations({ trace, row }) {
  const text = (number) => (number === null ? 'not defined' : digits(number));
  const lines = Object.entries(trace.evidence.correlations).map(([name, { all, rows }]) =>
    line({ data: { correlation: name } }, NAMES[name] ?? name, text(all), text(rows[row] ?? null)),
  );
  return [
    table('rank correlation with attention (Spearman, absolute values)', ['', 'all cells', `step ${row}`], lines),
    el('p.hint', '1: the measure ranks the source tokens as attention does. 0: the two are not related.'),
  ];
}
