/** The first screen: figure 1 of this model, which writes the answer and halts where a layer changes it; then another text. */

import { bdi, button, cut, el } from 'glassbox/core/dom.js';
import { percent } from 'glassbox/core/numbers.js';
import { layerTitle, titleOf } from 'glassbox/model/labels.js';
import { warningsOf } from 'glassbox/model/warnings.js';
import { worded } from 'glassbox/story/glossary.js';
import { liveForm } from 'glassbox/story/live.js';
import { calibrated, quoted, sofar } from 'glassbox/story/parts.js';
import { sceneOf } from 'glassbox/story/scene.js';
import { changeIn, crossOf, predictionsOf, readIn, threadOf } from 'glassbox/story/thread.js';

const COUNTS = ['No', 'One', 'Two', 'Three', 'Four', 'Five', 'Six', 'Seven', 'Eight', 'Nine', 'Ten', 'Eleven'];
const ORDINALS = ['first', 'second', 'third', 'fourth', 'fifth', 'sixth', 'seventh', 'eighth', 'ninth', 'tenth', 'eleventh', 'twelfth'];

export const opening = {
  title: 'The model writes its answer',
  draw(app) {
    const { trace } = app;
    const warnings = Object.values(warningsOf(trace)).flat(); // the header, which has them, is not in sight
    const used = new Set();
    const scene = sceneOf(app);
    const why = el(
      'details.why',
      { open: app.isWhyOpen, on: { toggle: () => (app.isWhyOpen = why.open) } },
      el('summary', 'Why?'),
      [wordsOf(app), LEGEND, calibrated(trace)].filter(Boolean).map((words) => el('p', worded(words, used))),
      switches(app),
    );
    return {
      kind: `first ${(scene.player?.isPlaying ?? scene.isNew) ? '' : 'told'}`,
      words: [
        el('span', introOf(app)),
        el('span.told', worded(surpriseOf(app), used), ' ', button('why?', () => why.toggleAttribute('open') && why.scrollIntoView({ block: 'nearest' }), { class: 'link', data: { key: 'why' } })),
        ...[...warnings, wrongOf(app)].filter(Boolean).map((words) => el('span.wrong', words.charAt(0).toUpperCase() + words.slice(1))),
      ],
      picture: scene.opened(app.state.band),
      more: [el('div.row.controls', again(scene), scrubber(app, scene), liveForm(app), saved(app, scene)), why],
      proof: { label: `Logits: all candidates of step ${app.row}`, changes: { panel: 'logits' } },
    };
  },
};

const LEGEND =
  'A column is a token, and its line is the residual stream: each strip is the numbers of the token at that height, blue above 0, orange ' +
  'below. A band is a sublayer, which adds to the stream. Attention reads other columns: the query (Q) of the column meets the key (K) of each ' +
  'token, and what flows is the value (V), as thick as the weight, which is the mean of the heads.';

const isEdited = ({ trace, base }) => trace !== base;

/** Whether no part of the decoder reads the source, and none of it is copied. */
const cannotRead = (app) => !app.base.stepOf.has('copy_scores') && crossOf(app.base).every((each) => app.words.includes(`attention ${each} off`));

const introOf = (app) => (isEdited(app) ? [without(app), ' '] : 'The encoder reads the text at once; the decoder writes the answer, one token a step. ');

/** Whether no layer changes what the first one said, in any step. */
const isEarly = (trace) => predictionsOf(trace).length > 1 && trace.tokens.target_out.every((_, row) => !changeIn(trace, row));

/** Where a layer changes what the ones before it said, in a sentence; otherwise that none does. */
function surpriseOf({ trace, row }) {
  const change = changeIn(trace, row);
  if (!change && trace.layers('decoder') === 1) return 'Its decoder has one layer.';
  if (!change) return isEarly(trace) ? 'No surprise: all layers agree.' : '';
  const { layer, before } = change;
  const token = trace.tokens.target_out[row];
  const isAll = predictionsOf(trace).slice(0, layer).every((rows) => rows[row].top[0][0] === before[0]);
  const who = isAll ? `${COUNTS[layer] ?? layer} layer${layer > 1 ? 's' : ''}` : `The ${ORDINALS[layer - 1]} layer`;
  const is = isAll && layer > 1 ? 'are' : 'is';
  const says = before[1] === '<eos>' ? (before[2] > 0.9 ? `${is} sure that the answer has ended` : 'would end the answer here') : `would write ${quoted(before[1])}`;
  const isAgain = row && trace.tokens.target_out[row - 1].id === token.id;
  return `${who} ${says}. The ${ORDINALS[layer] ?? `layer ${layer + 1}`} ${token.kind === 'eos' ? 'ends it' : `writes ${isAgain ? 'one more ' : ''}${quoted(token)}`}.`;
}

/** That the answer is not the right answer. */
function wrongOf({ trace, base }) {
  return trace === base && base.target !== null && base.target !== trace.translation ? `The answer is wrong: right is “${cut(base.target, 60)}”.` : '';
}

/** What happens in the step, in words. */
function wordsOf(app) {
  const { trace, row } = app;
  const token = trace.tokens.target_out[row];
  const change = changeIn(trace, row);
  const before = row ? `In step ${row}, after ${sofar(trace, row)}, ` : 'In step 0 ';
  if (change) {
    const { key, weight, attention, head } = readIn(trace, crossOf(trace, change.layer), row);
    const reads =
      `In this layer, head ${head} of ${titleOf(trace, attention).split(', ')[1]} has ${percent(weight)} of its weight on ` +
      `${quoted(trace.tokens.source[key])}, source token ${key}.`;
    return (
      `${before}the model would have said ${quoted(change.before[1])} after ${layerTitle(trace, 'decoder', change.layer - 1)} ` +
      `(${percent(change.before[2])}). Layer ${change.layer + 1} changes that to ${quoted(token)} (${percent(change.after[2])}). ${cannotRead(app) ? '' : reads}`
    );
  }
  if (predictionsOf(trace).length < 2)
    return trace.layers('decoder') > 1
      ? `${before}the model says ${quoted(token)}. What each layer would have said is not in this page: the vocabulary is large.`
      : `${before}the model says ${quoted(token)}. Its decoder has one layer, so no layer changes what another one said.`;
  return isEarly(trace)
    ? `No surprise: the first layer of the decoder says what the last one says, in each of the ${trace.tokens.target_out.length} steps of this answer.`
    : `${before}no layer changes what the first one said: ${quoted(token)}.`;
}

/** The answer without what is switched off, or with other edits. */
function without(app) {
  const { trace, base } = app;
  const off = Object.entries(partsOf(app)).filter(([, edits]) => edits.every((words) => app.words.includes(words)));
  const edited = off.length ? `Without ${off.map(([title]) => title).join(' and ')}` : 'With this edit';
  if (trace.translation === base.translation) return `${edited}, the answer is the same${off.length ? ': what is left of the model is enough for it' : ''}.`;
  const [now, before] = [trace, base].map(({ translation }) => (translation ? ['“', bdi(translation), '”'] : 'empty'));
  const why = cannotRead(app) ? ' The decoder cannot read the source now: it writes the same for any text.' : '';
  return [`${edited}, the answer is `, now, ' instead of ', before, `; what is different is marked.${why}`];
}

const again = (scene) => button('▶', () => scene.play(), { class: 'again', title: 'play again', 'aria-label': 'play again', data: { key: 'again' } });

/** Buttons that save the figure. */
function saved(app, scene) {
  const one = (label, title) => button(label, () => scene.save(surpriseOf(app), label === 'PNG'), { class: 'link', title, 'aria-label': title, data: { key: `poster-${label}` } });
  return el('span.save', one('SVG', 'save the figure as an animated SVG'), one('PNG', 'save the figure as a PNG of 1200 × 630 pixels'));
}

/** The steps of the answer on a slider. */
function scrubber(app, scene) {
  const last = app.trace.tokens.target_out.length - 1;
  const output = el('output', `step ${app.row} of ${last}`);
  const input = ({ target }) => {
    app.state.row = Number(target.value);
    output.textContent = `step ${app.row} of ${last}`;
    scene.still(app.row);
  };
  const on = { input, change: () => app.set({ row: app.row }) };
  return el('span.field', el('input', { type: 'range', min: 0, max: last, value: app.row, 'aria-label': 'decoding step', data: { key: 'scrub' }, on }), output);
}

/** What can be switched off -> its edits. */
function partsOf(app) {
  const { attention, head } = threadOf(app.base);
  return {
    'the position encoding': ['positions off'],
    [`head ${head} of ${titleOf(app.base, attention)}`]: [`head ${attention} ${head} off`],
    'the cross-attention': crossOf(app.base).map((each) => `attention ${each} off`),
  };
}

function switches(app) {
  if (!app.canEdit) return null;
  const isOff = (edits) => edits.every((words) => app.words.includes(words));
  const toggle = ([title, edits]) =>
    button(title, () => app.edit(isOff(edits) ? [] : edits), { 'aria-pressed': String(isOff(edits)), data: { key: `without-${edits[0]}` } });
  return el('div.row', { role: 'group', 'aria-label': 'switch off' }, el('span', 'Switch off:'), Object.entries(partsOf(app)).map(toggle));
}
