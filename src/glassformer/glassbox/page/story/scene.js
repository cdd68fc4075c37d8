/** Figure 1 on the first screen: it plays, it shows a step as a still, a band opens in it, and it is saved. */

import { marked } from 'glassbox/model/differences.js';
import { button, cut, el, isolated, pressed, range, slider } from 'glassbox/core/dom.js';
import { indexOfLargest, rowOf } from 'glassbox/core/numbers.js';
import { meanWeights, stagesOf } from 'glassbox/model/stream.js';
import { quoted } from 'glassbox/story/parts.js';
import { changeIn, crossOf, predictionsOf } from 'glassbox/story/thread.js';
import { isTall, layOut } from 'glassbox/views/layout.js';
import { openedBand } from 'glassbox/views/opened.js';
import { PaperFigure } from 'glassbox/views/paperfigure.js';
import { framesOf, Player } from 'glassbox/views/player.js';
import { FOOT, HEIGHT, poster, savePoster, WIDTH } from 'glassbox/views/poster.js';

const [MARGIN, CARD, GAP] = [52, 950, 8]; // pixels: of a panel, whose whole width the figure has; of an opened band, and beside it
const [REST, REST_NARROW, LEAST, WARNING] = [226, 250, 344, 24]; // pixels: what is below the panel's top besides the figure, its smallest height, and a line of words
const [WIDE, NARROW] = [[1440, 640], [400, 560]]; // above that the figure is enlarged
const scenes = new WeakMap(); // app -> its scene, which stays the same while it moves

class Scene {
  constructor(app, width, height) {
    Object.assign(this, { app, trace: app.trace, width, height, row: app.row, element: el('div.figure1', el('h3', headingOf(app.trace))) });
    this.stages = [2 * app.trace.layers('encoder'), 3 * app.trace.layers('decoder')];
    this.last = app.trace.tokens.target_out.length - 1;
    this.again = button('▶', () => this.play(), { class: 'again', data: { key: 'again' } });
    const show = (row) => this.still((app.state.row = row));
    this.scrubber = slider('step', { max: this.last, value: 0 }, show, { key: 'scrub', onChange: (row) => app.set({ row }) });
    this.draw(app.row);
  }

  /** The figure with this step in sight. */
  draw(row) {
    const { width, height, trace } = this;
    const [wide, high] = isTall(width, height) ? NARROW : WIDE;
    const scale = Math.max(1, Math.min(width / wide, height / high));
    this.layout = layOut(trace, { width: width / scale, height: height / scale, row, column: mostRead(trace, row), before: this.layout });
    this.figure = this.figureOf(this.layout);
    const { element } = this.figure;
    for (const [name, pixels] of Object.entries({ width, height })) element.setAttribute(name, pixels);
    for (const [name, act] of Object.entries(pressed((event) => press(this.app, event)))) element.addEventListener(name, act);
    this.element.querySelector('.paper')?.remove();
    this.element.firstChild.after(element);
    this.markOpen();
  }

  markOpen() {
    for (const band of this.element.querySelectorAll('.band')) band.classList.toggle('open', band.dataset.band === this.app.state.band);
  }

  figureOf(layout) {
    const { app, trace } = this;
    const marks = trace === app.base ? [] : marked(app.base.tokens.target_out, trace.tokens.target_out)[1];
    return new PaperFigure(trace, layout, { said: (row) => saidIn(trace, row), label: inWords(trace), marks });
  }

  show({ state, kind }) {
    const row = Math.max(0, state.row);
    if (!this.layout.decoder.isInside(row) || (state.row >= 0 && !this.layout.encoder.isInside(mostRead(this.trace, row)))) this.draw(row);
    this.element.classList.toggle('quick', kind === 'quick');
    this.figure.show(state);
    this.isTold = state.row === this.row && state.level > this.stages[1];
    this.element.closest('.story')?.classList.toggle('told', this.isTold);
    const [, slide, number] = this.scrubber.children;
    slide.value = number.textContent = row;
    const [textContent, title] = this.player?.isPlaying ? ['❚❚', 'pause'] : ['▶', 'play'];
    if (this.again.title !== title) Object.assign(this.again, { textContent, title, ariaLabel: title });
  }

  get frames() {
    const layers = saidIn(this.trace, this.row).map(({ layer }) => layer);
    return framesOf({ stages: this.stages, rows: this.last + 1, row: this.row, layers, isQuick: this.trace !== this.app.first });
  }

  /** Play from the first step, or pause, or go on. */
  play() {
    if (!this.player?.at) this.player = new Player(this.frames, (frame) => this.show(frame));
    this.app.movingUntil = performance.now() + this.player.length;
    this.player.toggle();
  }

  /** Everything is computed, and a step is under way. */
  still(row) {
    this.player?.stop();
    this.app.movingUntil = 0;
    this.row = row;
    this.show({ state: { lit: this.stages[0], row, level: this.stages[1] + 1, end: this.last }, kind: 'slow' });
  }

  /** The figure, with a band opened in it. */
  opened(part) {
    const { app, element, layout, trace } = this;
    element.querySelector('.opened')?.remove();
    this.markOpen();
    const isOpen = part !== null && stagesOf(trace, part.split('.')[0]).some((stage) => stage.part === part);
    element.classList.toggle('is-open', isOpen);
    if (!isOpen) return element;
    const isEncoder = part.startsWith('encoder');
    const close = () => {
      app.set({ band: null });
      element.querySelector(`[data-band="${part}"]`).focus({ preventScroll: true });
    };
    element.append(openedBand(app, { part, row: isEncoder ? Math.min(app.state.column, trace.tokens.source.length - 1) : app.row, close }));
    const beside = (layout.decoder.x(app.row) - layout.decoder.width(app.row)) * (this.width / layout.width) - CARD; // so that the column is seen
    element.style.setProperty('--left', isEncoder ? '50%' : `${beside}px`);
    requestAnimationFrame(() => besideBand(element));
    return element;
  }

  /** Save the figure in one size, with words below it: as an animated SVG, or as a PNG. */
  save(words, isPng) {
    const { trace, row } = this;
    const layout = layOut(trace, { width: WIDTH, height: HEIGHT - FOOT, row, column: mostRead(trace, row) });
    const lines = [`“${cut(trace.text, 36)}” becomes “${cut(trace.translation, 36)}”: figure 1 of a Transformer, with its own numbers`, words];
    const picture = poster(this.figureOf(layout), new Player(this.frames), lines, !isPng);
    return savePoster(`figure-1-${trace.text}`.replace(/[^\p{L}\p{N}]+/gu, '-').slice(0, 60), picture, isPng);
  }
}

/** The scene of what is shown now; of another text it begins to play. @param {number} nWarnings  lines around it */
export function sceneOf(app, nWarnings) {
  const width = app.width + MARGIN;
  const screen = innerHeight / (Number(getComputedStyle(document.documentElement).zoom) || 1) - document.getElementById('panel').offsetTop;
  const height = Math.max(LEAST, screen - (width < 1000 ? REST_NARROW : REST) - nWarnings * WARNING * (width < 720 ? 2 : 1));
  const known = scenes.get(app);
  if (known?.trace === app.trace && known.width === width && known.height === height) {
    if (known.row !== app.row) known.still(app.row);
    return known;
  }
  const scene = new Scene(app, width, height);
  scenes.set(app, scene);
  known?.player?.stop();
  if (!matchMedia('(prefers-reduced-motion: reduce), print').matches && known?.trace !== app.trace) requestAnimationFrame(() => scene.play());
  else scene.still(app.row);
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
  if (change === undefined) return [];
  return range(all.length)
    .filter((layer) => all.length <= 4 || [0, change - 1, change, all.length - 1].includes(layer))
    .map((layer) => {
      const [id, text, p] = all[layer][row].top[0];
      return { layer, text, p, isRight: id === trace.tokens.target_out[row].id, isDeciding: layer === change };
    });
}

/** Move the card of an opened band to where it does not cover the band, if there is room. */
function besideBand(figure) {
  const [whole, band, card] = [figure, figure.querySelector('.band.open rect'), figure.querySelector('.opened')].map((each) => each?.getBoundingClientRect());
  if (!card || !band) return;
  const [above, below] = [band.top - whole.top - card.height - GAP, band.bottom - whole.top + GAP];
  const top = below + card.height < whole.height ? below : Math.max(GAP, above);
  figure.style.setProperty('--card-top', `${(top * figure.offsetHeight) / whole.height}px`); // the page may be zoomed
}

/** What the figure is: the columns of the model, and the text. */
const headingOf = ({ provenance: { columns }, text }) =>
  `Figure 1 · ${(columns ?? ['text', 'answer']).join(' → ').replace(/ \(column \d+\)/g, '').replace(/ → (?=.* → )/g, ' + ')}: ${text.split(' · ').map((part) => isolated(cut(part, 36))).join(' · ')}`;

/** What is drawn, for those who do not see it. */
function inWords(trace) {
  const { source, target_out: outputs } = trace.tokens;
  const read = outputs.map((token, row) => `${quoted(token)} from ${quoted(source[mostRead(trace, row)])}`);
  const [encoder, decoder] = ['encoder', 'decoder'].map((side) => trace.layers(side));
  return `Figure 1 of this model: an encoder of ${encoder} layers reads ${source.length} tokens, a decoder of ${decoder} layers writes ${outputs.length}: ${read.join(', ')}`;
}

/** A token, a strip, a band or a line was pressed. */
function press(app, event) {
  event.preventDefault();
  const { step, source, tensor, at, line, row, from, band = line } = event.target.closest('[data-step], [data-source], [data-tensor], [data-band], [data-line]')?.dataset ?? {};
  if (step) app.set({ row: Number(step) });
  else if (source) app.set({ panel: 'tokens', column: Number(source), part: 'source' });
  else if (tensor) app.goTo(tensor, [Number(at), 0]);
  else if (line === 'copy') app.goTo('copy_scores', [Number(row), Number(from)]);
  else if (band) {
    app.set({ part: band, band });
    document.querySelector('.opened')?.focus({ preventScroll: true });
  }
}
