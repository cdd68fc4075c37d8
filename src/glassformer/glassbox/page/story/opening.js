/** The first screen: figure 1 of this model, which writes the answer and halts where a layer changes it; then another text. */

import { bdi, button, cut, el, range } from 'glassbox/core/dom.js';
import { indexOfLargest, percent, rowOf } from 'glassbox/core/numbers.js';
import { titleOf } from 'glassbox/model/labels.js';
import { marked } from 'glassbox/model/differences.js';
import { meanWeights, stagesOf } from 'glassbox/model/stream.js';
import { visible } from 'glassbox/model/trace.js';
import { warningsOf } from 'glassbox/model/warnings.js';
import { worded } from 'glassbox/story/glossary.js';
import { liveForm } from 'glassbox/story/live.js';
import { calibrated, quoted, sofar } from 'glassbox/story/parts.js';
import { changeIn, crossOf, predictionsOf, readIn, threadOf } from 'glassbox/story/thread.js';
import { layOut } from 'glassbox/views/layout.js';
import { openedBand } from 'glassbox/views/opened.js';
import { PaperFigure } from 'glassbox/views/paperfigure.js';
import { framesOf, Player } from 'glassbox/views/player.js';
import { FOOT, HEIGHT, poster, savePoster, WIDTH } from 'glassbox/views/poster.js';

const MARGIN = 52; // of a panel: the figure has the whole width
const [REST, REST_NARROW, LEAST] = [206, 290, 380]; // pixels: what is around the figure, and its smallest height
const [WIDE, HIGH] = [1440, 640]; // above that the figure is enlarged
const COUNTS = ['No', 'One', 'Two', 'Three', 'Four', 'Five', 'Six', 'Seven', 'Eight', 'Nine', 'Ten', 'Eleven'];
const ORDINALS = ['first', 'second', 'third', 'fourth', 'fifth', 'sixth', 'seventh', 'eighth', 'ninth', 'tenth', 'eleventh', 'twelfth'];
const isStill = () => matchMedia('(prefers-reduced-motion: reduce), print').matches;

const scenes = new WeakMap(); // app -> its scene, which stays the same while it moves

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
      kind: `first ${scene.isMoving ? '' : 'told'}`,
      words: [
        el('span', introOf(app)),
        el('span.told', worded(surpriseOf(app), used), ' ', button('why?', () => why.toggleAttribute('open'), { class: 'link', data: { key: 'why' } })),
        ...[...warnings, wrongOf(app)].filter(Boolean).map((words) => el('span.wrong', words.charAt(0).toUpperCase() + words.slice(1))),
      ],
      picture: scene.opened(app.state.band),
      more: [el('div.row.controls', again(app), scrubber(app), liveForm(app), saved(app)), why],
      proof: { label: `Logits: all candidates of step ${app.row}`, changes: { panel: 'logits' } },
    };
  },
};

const LEGEND =
  'A column is a token, and its line is the residual stream: each strip is the numbers of the token at that height, blue above 0, orange ' +
  'below. A band is a sublayer, which adds to the stream. Attention reads other columns: the query (Q) of the column meets the key (K) of each ' +
  'token, and what flows is the value (V), as thick as the weight, which is the mean of the heads.';

/** The figure in the page, and what it shows. */
class Scene {
  constructor(app, width, height) {
    Object.assign(this, { app, trace: app.trace, width, height, row: app.row, element: el('div.figure1') });
    this.stages = [2 * app.trace.layers('encoder'), 3 * app.trace.layers('decoder')];
    this.last = app.trace.tokens.target_out.length - 1;
    this.draw(app.row);
  }

  /** The figure with this step in sight. */
  draw(row) {
    const [width, height] = [this.width, this.height];
    const scale = Math.max(1, Math.min(width / WIDE, height / HIGH));
    const column = mostRead(this.trace, row);
    this.layout = layOut(this.trace, { width: width / scale, height: height / scale, row, column });
    this.figure = this.figureOf(this.layout);
    this.figure.element.setAttribute('width', width);
    this.figure.element.setAttribute('height', height);
    this.figure.element.addEventListener('click', (event) => press(this.app, event.target));
    this.figure.element.addEventListener('keydown', (event) => (['Enter', ' '].includes(event.key) ? press(this.app, event.target) : null));
    this.element.querySelector('.paper')?.remove();
    this.element.prepend(this.figure.element);
  }

  figureOf(layout) {
    const { app, trace } = this;
    const marks = isEdited(app) ? marked(app.base.tokens.target_out, trace.tokens.target_out)[1] : [];
    return new PaperFigure(trace, layout, { said: (row) => saidIn(trace, row), label: inWords(trace), marks });
  }

  show({ state, kind }) {
    const row = Math.max(0, state.row);
    if (!this.layout.decoder.isShown(row) || (state.row >= 0 && !this.layout.encoder.isShown(mostRead(this.trace, row)))) this.draw(row);
    this.element.classList.toggle('quick', kind === 'quick');
    this.figure.show(state);
    this.element.closest('.story')?.classList.toggle('told', this.isTold(state));
  }

  /** Whether it has not come to what it halts at. */
  get isMoving() {
    return this.player?.isPlaying ?? this.isNew;
  }

  isTold({ row, level }) {
    return row === this.row && level > this.stages[1];
  }

  get frames() {
    const layers = saidIn(this.trace, this.row).map(({ layer }) => layer);
    return framesOf({ stages: this.stages, rows: this.last + 1, row: this.row, layers, isQuick: this.trace !== this.app.first });
  }

  /** The figure as it is saved: in one size, with its words. */
  poster(isMoving) {
    const { app, trace, row } = this;
    const layout = layOut(trace, { width: WIDTH, height: HEIGHT - FOOT, row, column: mostRead(trace, row) });
    const figure = this.figureOf(layout);
    const said = surpriseOf(app);
    return poster(figure, new Player(this.frames), [`“${cut(trace.text, 40)}” becomes “${cut(trace.translation, 40)}”: ${figure1(trace)}`, said], isMoving);
  }

  play() {
    this.player = new Player(this.frames, (frame) => this.show(frame));
    this.app.movingUntil = performance.now() + this.player.length;
    this.player.play();
  }

  /** The figure, with a band opened in it. */
  opened(part) {
    const { app } = this;
    const close = () => {
      app.set({ band: null });
      this.element.querySelector(`[data-band="${part}"]`)?.focus({ preventScroll: true });
    };
    const row = part?.startsWith('encoder') ? Math.min(app.state.column, this.trace.tokens.source.length - 1) : app.row;
    this.element.querySelector('.opened')?.remove();
    if (part && stagesOf(this.trace, part.split('.')[0]).some((stage) => stage.part === part)) this.element.append(openedBand(app, { part, row, close }));
    this.element.classList.toggle('is-open', this.element.childElementCount > 1);
    const beside = (this.layout.decoder.x(app.row) - this.layout.decoder.width(app.row)) * (this.width / this.layout.width) - 930;
    this.element.style.setProperty('--left', part?.startsWith('encoder') ? '50%' : `${beside}px`);
    return this.element;
  }

  /** Everything is computed, and a step is under way. */
  still(row) {
    this.player?.stop();
    this.app.movingUntil = 0;
    this.row = row;
    this.show({ state: { lit: this.stages[0], row, level: this.stages[1] + 1, end: this.last }, kind: 'slow' });
  }
}

function sceneOf(app) {
  const root = document.documentElement;
  const width = app.width + MARGIN;
  const screen = innerHeight / (Number(getComputedStyle(root).zoom) || 1);
  const height = Math.max(LEAST, screen - (width < 700 ? REST_NARROW : REST));
  const known = scenes.get(app);
  const isSame = known?.trace === app.trace && known.width === width && known.height === height;
  if (isSame && (known.row === app.row || known.still(app.row) === undefined)) return known;
  const scene = new Scene(app, width, height);
  scenes.set(app, scene);
  known?.player?.stop();
  if (isStill() || known?.trace === app.trace) scene.still(app.row);
  else {
    scene.isNew = true;
    requestAnimationFrame(() => scene.play());
  }
  return scene;
}

/** The source token that a step reads most, of all layers. */
function mostRead(trace, row) {
  const weights = crossOf(trace).map((name) => meanWeights(trace, name)).filter(Boolean);
  return weights.length ? indexOfLargest(rowOf(weights[0], row).map((_, key) => weights.reduce((sum, each) => sum + rowOf(each, row)[key], 0))) : 0;
}

/** What the layers say in a step where they do not agree: of many layers the first, the last, and those around the change. */
function saidIn(trace, row) {
  const all = predictionsOf(trace);
  const change = changeIn(trace, row)?.layer;
  if (change === undefined || all.length < 2) return [];
  return range(all.length)
    .filter((layer) => all.length <= 4 || [0, change - 1, change, all.length - 1].includes(layer))
    .map((layer) => {
      const [id, text, p] = all[layer][row].top[0];
      return { layer, text, p, isRight: id === trace.tokens.target_out[row].id, isDeciding: layer === change };
    });
}

/** What is drawn, for those who do not see it. */
function inWords(trace) {
  const { source, target_out: outputs } = trace.tokens;
  const read = outputs.map((token, row) => `${quoted(token)} from ${quoted(source[mostRead(trace, row)])}`);
  return `Figure 1 of this model: an encoder of ${trace.layers('encoder')} layers reads ${source.length} tokens, a decoder of ${trace.layers('decoder')} layers writes ${outputs.length}: ${read.join(', ')}`;
}

/** A token, a strip, a band or a line was pressed. */
function press(app, target) {
  const { step, source, tensor, at, band, line, row, from } = target.closest('[data-step], [data-source], [data-tensor], [data-band], [data-line]')?.dataset ?? {};
  if (step) app.set({ row: Number(step) });
  else if (source) app.set({ panel: 'tokens', column: Number(source), part: 'source' });
  else if (tensor) app.goTo(tensor, [Number(at), 0]);
  else if (line === 'copy') app.goTo('copy_scores', [Number(row), Number(from)]);
  else if (line) app.goTo(`${line}.weights`, [app.state.head, Number(row), Number(from)]);
  else if (band) app.set({ part: band, band });
}

const isEdited = ({ trace, base }) => trace !== base;

/** Whether no part of the decoder reads the source, and none of it is copied. */
const cannotRead = (app) => !app.base.stepOf.has('copy_scores') && crossOf(app.base).every((each) => app.words.includes(`attention ${each} off`));

const introOf = (app) => (isEdited(app) ? [without(app), ' '] : 'The encoder reads the text at once; the decoder writes the answer, one token a step. ');

/** Where a layer changes what the ones before it said, in a sentence; otherwise that none does. */
function surpriseOf({ trace, row }) {
  const change = changeIn(trace, row);
  if (!change && trace.layers('decoder') === 1) return 'Its decoder has one layer.';
  if (!change) return trace.tokens.target_out.every((_, i) => !changeIn(trace, i)) && predictionsOf(trace).length > 1 ? 'No surprise: all layers agree.' : '';
  const { layer, before } = change;
  const token = trace.tokens.target_out[row];
  const isAll = predictionsOf(trace).slice(0, layer).every((rows) => rows[row].top[0][0] === before[0]);
  const who = isAll ? `${COUNTS[layer] ?? layer} layer${layer > 1 ? 's' : ''}` : `The ${ORDINALS[layer - 1]} layer`;
  const is = isAll && layer > 1 ? 'are' : 'is';
  const says = before[1] === '<eos>' ? (before[2] > 0.9 ? `${is} sure that the answer has ended` : 'would end the answer here') : `would write ${quoted(before[1])}`;
  const isAgain = row && trace.tokens.target_out[row - 1].id === token.id;
  return `${who} ${says}. The ${ORDINALS[layer] ?? `layer ${layer + 1}`} ${token.kind === 'eos' ? 'ends it' : `writes ${isAgain ? 'one more ' : ''}${quoted(token)}`}.`;
}

/** That the answer is not the gold answer. */
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
      `In this layer, head ${head} of ${titleOf(attention).split(', ')[1]} has ${percent(weight)} of its weight on ` +
      `${quoted(trace.tokens.source[key])}, source token ${key}.`;
    return (
      `${before}the model would have said ${quoted(change.before[1])} after layer ${change.layer - 1} of the decoder ` +
      `(${percent(change.before[2])}). Layer ${change.layer} changes that to ${quoted(token)} (${percent(change.after[2])}). ${cannotRead(app) ? '' : reads}`
    );
  }
  if (predictionsOf(trace).length < 2)
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
  const [now, before] = [trace, base].map(({ translation }) => (translation ? ['“', bdi(visible(translation)), '”'] : 'empty'));
  const why = cannotRead(app) ? ' The decoder cannot read the source now: it writes the same for any text.' : '';
  return [`${edited}, the answer is `, now, ' instead of ', before, `; what is different is marked.${why}`];
}

const again = (app) => button('▶', () => scenes.get(app).play(), { class: 'again', title: 'play again', 'aria-label': 'play again', data: { key: 'again' } });

/** How large the model is, in a few words. */
const figure1 = (trace) => `figure 1 of a Transformer with ${trace.layers('encoder')} + ${trace.layers('decoder')} layers`;

/** Buttons that save the figure. */
function saved(app) {
  const save = (isPng) => savePoster(`figure-1-${app.trace.text}`.replace(/[^\p{L}\p{N}]+/gu, '-').slice(0, 60), scenes.get(app).poster(!isPng), isPng);
  const one = (label, isPng, title) => button(label, () => save(isPng), { class: 'link', title, 'aria-label': title, data: { key: `poster-${label}` } });
  return el('span.save', one('SVG', false, 'save the figure as an animated SVG'), one('PNG', true, 'save the figure as a PNG of 1200 × 630 pixels'));
}

/** The steps of the answer on a slider. */
function scrubber(app) {
  const { target_out: outputs } = app.trace.tokens;
  const words = (row) => `step ${row} of ${outputs.length - 1}`;
  const input = (event) => {
    app.state.row = Number(event.target.value);
    output.textContent = words(app.state.row);
    scenes.get(app).still(app.state.row);
  };
  const output = el('output', words(app.row));
  const slide = el('input', { type: 'range', min: 0, max: outputs.length - 1, value: app.row, 'aria-label': 'decoding step', data: { key: 'scrub' }, on: { input, change: () => app.set({ row: app.state.row }) } });
  return el('span.field', slide, output);
}

/** What can be switched off -> its edits. */
function partsOf(app) {
  const { attention, head } = threadOf(app.base);
  return {
    'the position encoding': ['positions off'],
    [`head ${head} of ${titleOf(attention)}`]: [`head ${attention} ${head} off`],
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
