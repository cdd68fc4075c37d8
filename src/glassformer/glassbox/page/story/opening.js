/** The opening: the answer writes itself, and halts where a layer changes it; then another text, or a part less. */

import { marked } from 'glassbox/model/differences.js';
import { bdi, button, cut, el, image, range, svg } from 'glassbox/core/dom.js';
import { influence } from 'glassbox/model/evidence.js';
import { figure } from 'glassbox/views/figure.js';
import { warningsOf } from 'glassbox/model/warnings.js';
import { indexOfLargest, largest, percent, rowOf } from 'glassbox/core/numbers.js';
import { layerTitle, titleOf } from 'glassbox/model/labels.js';
import { liveForm } from 'glassbox/story/live.js';
import { calibrated, endOf, label, layOut, quoted, roomOf, sofar, tokenBox } from 'glassbox/story/parts.js';
import { changeIn, crossOf, predictionsOf, readIn, threadOf } from 'glassbox/story/thread.js';
import { visible } from 'glassbox/model/trace.js';

const [TOP, BOX, CHIP, WIDE] = [22, 24, 30, 200];
const [SMALL, LEAST] = [1 / 3, 0.1]; // no line below a third of the largest number of a row, or below a tenth
const [LETTER_TIME, WRITING, HALT, LAYER] = [150, 2400, 500, 600]; // milliseconds
const PARTS =
  'the encoder reads it, and the decoder writes the answer, one token in each step. In attention a step takes something from every ' +
  'token, most from those with the largest weight. Layers count from 1, steps and heads from 0; press a token of the answer to see its step. ' +
  'A line leads to ';
const LINES = {
  occlusion: 'a source token without which the output token is less probable',
  attention: 'a source token on which the cross-attention, as a mean of its heads, has much of its weight',
};
const started = new WeakMap(); // trace -> when its answer began to be written

export const opening = {
  title: 'The model writes its answer',
  draw(app) {
    const { trace, row } = app;
    if (!started.has(trace)) started.set(trace, performance.now());
    const times = timesOf(app);
    const gone = performance.now() - started.get(trace);
    const isMoving = gone < times.end && !matchMedia('(prefers-reduced-motion: reduce), print').matches;
    if (isMoving) app.movingUntil = performance.now() + times.end - gone;
    const { kind, x } = influence(trace);
    const warnings = Object.values(warningsOf(trace)).flat(); // the header, which has them, is not in sight
    return {
      kind: isMoving ? 'moves' : '',
      style: { '--gone': isMoving ? gone : times.end, '--shot': times.shot },
      words: [isEdited(app) ? without(app) : `The text is “${cut(trace.text, 60)}”: ${PARTS}${LINES[kind]}.`, wordsOf(app), calibrated(trace), ...warnings.map((words) => el('span.wrong', words))],
      picture: figure('source tokens of each output token', draw(app, x, times)),
      more: el('div.at', { style: { '--at': times.end - HALT } }, again(app), liveForm(app), switches(app)),
      proof: { label: `Logits: all candidates of step ${row}`, changes: { panel: 'logits' } },
    };
  },
};

const isEdited = ({ trace, base }) => trace !== base;

/** Whether no part of the decoder reads the source, and none of it is copied. */
const cannotRead = (app) => !app.base.stepOf.has('copy_scores') && crossOf(app.base).every((each) => app.words.includes(`attention ${each} off`));

/** When each token is written, each layer speaks and the line shoots, in milliseconds. */
function timesOf({ trace, row, first }) {
  const { length } = trace.tokens.target_out;
  const pace = trace === first ? 1 : 0.4; // another text is not waited for as long
  const letter = Math.min(LETTER_TIME, WRITING / length) * pace;
  const layers = shownLayers(trace, row);
  const halt = layers.length ? HALT * pace : 0;
  const layer = (i) => row * letter + halt + i * LAYER * pace;
  const written = layer(layers.length) + 2 * halt;
  return {
    token: (i) => (i < row ? i * letter : written + (i - row) * letter),
    layer,
    shot: layer(Math.max(0, layers.findIndex((each) => each === changeIn(trace, row)?.layer))) + halt,
    end: written + (length - row) * letter + HALT,
  };
}

/** The layers that are drawn: all of a few, of many the first, the last and those around the change. */
function shownLayers(trace, row) {
  const { length } = predictionsOf(trace);
  const change = changeIn(trace, row)?.layer ?? 0;
  return length < 2 ? [] : range(length).filter((i) => length <= 4 || [0, change - 1, change, length - 1].includes(i));
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
  if (!shownLayers(trace, row).length)
    return trace.layers('decoder') > 1
      ? `${before}the model says ${quoted(token)}. What each layer would have said is not in this page: the vocabulary is large.`
      : `${before}the model says ${quoted(token)}. Its decoder has one layer, so no layer changes what another one said.`;
  const isEarly = trace.tokens.target_out.every((_, i) => !changeIn(trace, i));
  return isEarly
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

const again = (app) =>
  button('▶ again', () => {
    started.delete(app.trace);
    app.notify(false, null);
  }, { class: 'again', data: { key: 'again' } }); // prettier-ignore

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

function draw(app, x, times) {
  const { trace, row: here } = app;
  const { source, target_out: outputs } = trace.tokens;
  const least = Math.max(source.length, outputs.length) * 24 > roomOf(app) ? 16 : 22;
  let [above, below] = [layOut(source, 0, least), layOut(outputs, 0, least)];
  const layers = shownLayers(trace, here);
  const width = Math.max(endOf(above), endOf(below), layers.length ? WIDE : 0);
  if (width <= roomOf(app)) {
    above = layOut(source, (width - endOf(above)) / 2, least);
    below = layOut(outputs, (width - endOf(below)) / 2, least);
  } // otherwise both begin at the left, where the picture is seen first
  const bottom = TOP + BOX + 96 + Math.max(1, layers.length) * CHIP;
  const marks = isEdited(app) ? marked(app.base.tokens.target_out, outputs)[1] : [];
  const sizes = { above, below, bottom, scale: Math.max(1e-9, largest(x.numbers)) };
  const curves = cannotRead(app) ? [] : outputs.flatMap((_, row) => lines(x, row, sizes, row === here ? 'here' : '', times.token(row)));
  return image(
    width + 4,
    bottom + 50,
    outputs.map((token, row) => `${quoted(token)} from ${quoted(source[indexOfLargest(rowOf(x, row))])}`).join(', '),
    label(0, 14, 'source'),
    curves.sort((one, other) => one.matches('.here') - other.matches('.here')),
    above.map((box, i) => tokenBox(box, TOP, source[i].kind, { data: { at: `s${i}` } })),
    speaking(app, layers, sizes, width, times),
    below.map((box, row) =>
      tokenBox(box, bottom, `${outputs[row].kind} pick at ${row === here ? 'here' : ''} ${marks[row] ? 'changed' : ''}`, {
        data: { at: `t${row}` },
        style: { '--at': times.token(row) },
        on: { click: () => app.set({ row }) },
      }),
    ),
    label(0, bottom + 42, 'answer'),
  );
}

const middle = ({ x, width }) => x + width / 2;

function lines(x, row, { above, below, bottom, scale }, kind, time) {
  const numbers = rowOf(x, row);
  const least = Math.max(SMALL * Math.max(...numbers), LEAST);
  const high = (TOP + BOX + bottom) / 2;
  return [...numbers].flatMap((number, i) => {
    if (number < least) return [];
    const [from, to] = [middle(above[i]), middle(below[row])];
    return svg('path.story-arc.at', {
      class: kind,
      d: `M${from} ${TOP + BOX} C${from} ${high} ${to} ${high} ${to} ${bottom}`,
      pathLength: 1,
      'stroke-width': (0.8 + (number / scale) * 5).toFixed(2),
      style: { '--at': time },
    });
  });
}

/** What each layer would have said in the step; the one that changes it is lit, with a line to what it reads. */
function speaking(app, layers, { above, below, bottom }, width, times) {
  const { trace, row } = app;
  const change = changeIn(trace, row);
  const all = predictionsOf(trace);
  const left = Math.max(0, Math.min(width - WIDE, middle(below[row]) - WIDE / 2));
  const y = (i) => bottom - 18 - (layers.length - i) * CHIP;
  const at = layers.indexOf(change?.layer);
  const to = change && !cannotRead(app) ? above[readIn(trace, crossOf(trace, change.layer), row).key] : null;
  const [side, reach] = to && middle(to) > left + WIDE / 2 ? [left + WIDE, 60] : [left, -60];
  return [
    layers.map((layer, i) => {
      const [id, text, p] = all[layer][row].top[0];
      const kind = layer === change?.layer ? 'lit' : id === trace.tokens.target_out[row].id ? '' : 'different';
      return svg(
        'g.story-layer.at',
        { class: kind, style: { '--at': times.layer(i) } },
        svg('rect', { x: left, y: y(i), width: WIDE, height: CHIP - 4, rx: 13 }),
        svg('text', { x: left + WIDE / 2, y: y(i) + 17, 'text-anchor': 'middle' }, `layer ${layer + 1}: ${cut(quoted(text), 10)} ${percent(p)}`),
      );
    }),
    to
      ? svg('path.story-shot.at', {
          d: `M${side} ${y(at) + 13} C${side + reach} ${y(at) + 13} ${middle(to)} ${y(at) - 30} ${middle(to)} ${TOP + BOX + 3}`,
          pathLength: 1,
          style: { '--at': times.shot },
        })
      : null,
  ];
}
