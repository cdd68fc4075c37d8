/** Alignment: cross-attention and occlusion; attention alone is not an explanation. */

import { choices, el, range, section } from 'glassbox/core/dom.js';
import { canMeasure, measure } from 'glassbox/model/evidence.js';
import { heatmap } from 'glassbox/views/heatmap.js';
import { visible } from 'glassbox/model/trace.js';

const WORDS = {
  attention: 'Cross-attention weights, mean over layers and heads.',
  occlusion:
    'How much the log-probability of the output token falls when the source token is occluded. ' +
    'The source token with the largest value in a row is the most influential token.',
};

export function alignment(app) {
  const { trace } = app;
  if ((!trace.evidence || trace.evidence.before_edits) && canMeasure(trace)) measure(trace);
  const { evidence } = trace;
  if (!evidence) return el('p.hint', `The alignment is not available: ${whyAbsent(app)}`);
  const shown = app.state.evidence;
  const kinds = shown === 'all' ? Object.keys(WORDS) : [shown];
  return [
    el(
      'p.lead',
      'Which source tokens does each output token depend on? Two measures. ' +
        'Attention weights alone are not an explanation: do not trust them where the measures disagree.',
    ),
    choices('evidence', { all: 'all', attention: 'attention', occlusion: 'occlusion' }, shown, (chosen) => app.set({ evidence: chosen })),
    evidence.before_edits ? el('p.hint', 'Of the text and the model before the edits.') : null,
    kinds.map((kind) => one(app, kind)),
  ];
}

const whyAbsent = (app) =>
  app.words.length
    ? 'the edit changed the length of the source or of the output. Undo the edits, or use “glassformer explain --edit”.'
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
    heatmap(kind, trace.get(name), {
      rows: outputs,
      columns: sources,
      scale: kind === 'attention' ? 1 : undefined,
      row: app.row,
      cellAt: app.state.tensor === name ? app.state.cell : null,
      onPick: (row, column) => app.pick(name, [row, column], `heatmap-${kind}`),
    }),
  );
}
