/** The first screen: figure 1 of this model, which writes the answer and halts where a layer changes it; then another text. */

import { button, cut, el } from 'glassbox/core/dom.js';
import { percent } from 'glassbox/core/numbers.js';
import { titleOf } from 'glassbox/model/labels.js';
import { copiesOf, meanWeights } from 'glassbox/model/stream.js';
import { warningsOf } from 'glassbox/model/warnings.js';
import { worded } from 'glassbox/story/glossary.js';
import { saidIn } from 'glassbox/story/layers.js';
import { liveForm } from 'glassbox/story/live.js';
import { calibrated, quoted } from 'glassbox/story/parts.js';
import { sceneOf } from 'glassbox/story/scene.js';
import { changeIn, crossOf, predictionsOf, readIn } from 'glassbox/story/thread.js';

const COUNTS = ['No', 'One', 'Two', 'Three', 'Four', 'Five', 'Six', 'Seven', 'Eight', 'Nine', 'Ten', 'Eleven'];
const ORDINALS = ['first', 'second', 'third', 'fourth', 'fifth', 'sixth', 'seventh', 'eighth', 'ninth', 'tenth', 'eleventh', 'twelfth'];

export const opening = {
  title: 'The model writes its answer',
  draw(app) {
    const { trace } = app;
    const warnings = [...Object.values(warningsOf(trace)).flat(), wrongOf(app)].filter(Boolean); // the header, which has them, is not in sight
    const used = new Set();
    const scene = sceneOf(app, warnings.length + (app.state.compare === 'difference'));
    const why = el(
      'details.why',
      { open: app.isWhyOpen, on: { toggle: () => (app.isWhyOpen = why.open) } },
      el('summary', 'Why?'),
      [...saidIn(trace, app.row), readHere(app), MORE, copiesOf(trace, app.row) && COPY, calibrated(trace)].filter(Boolean).map((words) => el('p', worded(words, used))),
    );
    const ask = button('why?', () => why.toggleAttribute('open') && why.scrollIntoView({ block: 'nearest' }), { class: 'link', data: { key: 'why' } });
    return {
      kind: `first ${scene.isTold ? 'told' : ''}`,
      words: [
        el('span', introOf(app)),
        el('span.told', worded(surpriseOf(app), used)),
        ...warnings.map((words) => el('span.wrong', words.charAt(0).toUpperCase() + words.slice(1))),
      ],
      picture: scene.opened(app.state.band),
      more: [el('p.reading', LEGEND, ask), el('div.row.controls', scene.again, scene.scrubber, liveForm(app), saved(app, scene)), why],
      proof: { label: `Logits: all candidates of step ${app.row}`, changes: { panel: 'logits' } },
    };
  },
};

const LEGEND = [
  'Column: token · strip: its numbers · band: sublayer, press to open · ',
  ...['Query', 'Key', 'Value'].flatMap((name) => [el(`b.name.${name[0].toLowerCase()}`, name[0]), ` ${name.toLowerCase()} · `]),
];
const MORE = 'A strip is blue above 0, orange below; its line is the residual stream, to which each band adds. What flows is as thick as the weight, the mean of the heads; a K is at the token with the largest. A pill is what a layer would write; what is not of the layer that decides is pale.';
const COPY = 'The line past all layers is what is copied from the source.';

const introOf = ({ trace, base }) =>
  trace === base ? 'The encoder reads the text all at once; the decoder writes the answer, one token a step. ' : 'The answer after the edit; what is different is marked. ';

/** Where a layer changes what the ones before it said, in a sentence; otherwise that none does. */
function surpriseOf({ trace, row }) {
  const change = changeIn(trace, row);
  if (!change) {
    if (trace.layers('decoder') === 1) return 'Its decoder has one layer.';
    const isEarly = predictionsOf(trace).length > 1 && trace.tokens.target_out.every((_, step) => !changeIn(trace, step));
    return isEarly ? 'No surprise: all layers agree.' : '';
  }
  const { layer, before } = change;
  const token = trace.tokens.target_out[row];
  const tops = predictionsOf(trace).slice(0, layer).map((rows) => rows[row].top[0]);
  const isAll = tops.every(([id]) => id === before[0]);
  const isSure = (isAll ? tops : [before]).every(([, , p]) => p >= 0.9);
  const who = isAll ? `${COUNTS[layer] ?? layer} layer${layer > 1 ? 's' : ''}` : `The ${ORDINALS[layer - 1]} layer`;
  const says = before[1] === '<eos>' ? (isSure ? `${isAll && layer > 1 ? 'are' : 'is'} sure that the answer has ended` : 'would stop here') : `would write ${quoted(before[1])}`;
  const isAgain = row && trace.tokens.target_out[row - 1].id === token.id;
  return `${who} ${says}. The ${ORDINALS[layer] ?? `layer ${layer + 1}`} ${token.kind === 'eos' ? 'ends it' : `writes ${isAgain ? 'one more ' : ''}${quoted(token)}`}.`;
}

/** That the answer is not the right answer. */
function wrongOf({ trace, base }) {
  return trace === base && base.target !== null && base.target !== trace.translation ? `The answer is wrong: right is “${cut(base.target, 60)}”.` : '';
}

/** What the layer that changes the token of the step reads, or else any layer. */
function readHere({ trace, row }) {
  const { key, weight, attention, head } = readIn(trace, crossOf(trace, changeIn(trace, row)?.layer), row);
  const source = `${quoted(trace.tokens.source[key])}, source token ${key}`;
  return meanWeights(trace, attention) ? `Head ${head + 1} of ${titleOf(trace, attention)}, has ${percent(weight)} of its weight on ${source}.` : '';
}

/** Buttons that save the figure. */
function saved(app, scene) {
  const one = (label, title) => button(label, () => scene.save(surpriseOf(app), label === 'PNG'), { class: 'link', title, 'aria-label': title, data: { key: `poster-${label}` } });
  return el('span.save', one('SVG', 'save the figure as an animated SVG'), one('PNG', 'save the figure as a PNG of 1200 × 630 pixels'));
}
