/**
 * Figure 1 of the paper with the numbers of this model: every token is a line that rises through its stack, with its
 * residual stream as strips; bands are the sublayers; a cable leads from the tokens that a step reads to its column.
 */

import { svg } from 'glassbox/core/dom.js';
import { percent, rowOf } from 'glassbox/core/numbers.js';
import { layerTitle, SUBLAYERS, titleOf } from 'glassbox/model/labels.js';
import { cellsOf, copiesOf, meanWeights, stagesOf } from 'glassbox/model/stream.js';
import { visible } from 'glassbox/model/trace.js';
import { rounded, strands } from 'glassbox/views/layout.js';

const [CELLS, SHADES, RADIUS] = [8, 5, 16]; // of a strip; of the corners of a cable
const [LEAST, LEAST_OF_ENCODER] = [0.02, 0.16]; // no line for a smaller weight
const SIDES = ['encoder', 'decoder'];

const nameOf = ([side, , kind]) => `${side === 'decoder' && kind === 'self' ? 'masked ' : ''}${SUBLAYERS[kind]}`;
const text = (x, y, words, anchor = 'middle', more = {}) => svg('text', { x, y, 'text-anchor': anchor, ...more }, words);
const box = (x, y, width, height, rx, more = {}) => svg('rect', { x: x - width / 2, y: y - height / 2, width, height, rx, ...more });

/**
 * A part of the figure, and what classes it has in a state.
 *
 * @typedef {{lit: number, row: number, level: number, end: number}} State  how many stages of the encoder are computed;
 *   the step under way, and how many stages of it are; the last step that is written
 * @typedef {[SVGElement, (state: State) => string]} Part
 */
export class PaperFigure {
  /**
   * @param {import('../model/trace.js').Trace} trace
   * @param layout  see layout.js
   * @param {{said: (row: number) => {layer: number, text: string, p: number, isRight: boolean, isDeciding: boolean}[], label: string, marks: boolean[], here?: string|null}} more
   *   what the layers say in a step; what is drawn, in words; the tokens of the answer that an edit changed; of the map what is lit
   */
  constructor(trace, layout, { said, label, marks, here = null }) {
    Object.assign(this, { trace, layout, said, marks, here, parts: [], stepParts: [], step: svg('g') });
    const { width, height, isNarrow, isMap, decoder, encoder, line } = layout;
    this.stages = Object.fromEntries(SIDES.map((side) => [side, stagesOf(trace, side)]));
    this.half = Object.fromEntries(SIDES.map((side) => [side, Math.min(isNarrow ? 9 : 15, (layout[side].y(0) - layout[side].y(1)) * (isMap ? 0.15 : 0.21))])); // of a strip
    this.answerAt = decoder.top - this.half.decoder - line / 2 - 8;
    this.from = encoder.top - this.half.encoder; // where cables begin
    const draw = (make) => SIDES.map((side) => make.call(this, side, layout[side]));
    this.element = svg(
      'svg.paper',
      { viewBox: `0 0 ${width} ${height}`, width, height, role: 'group', 'aria-label': label, class: isMap ? 'narrow small' : isNarrow ? 'narrow' : '' },
      isMap ? this.places() : draw(this.bands),
      draw(this.stems),
      this.linesOfEncoder(),
      draw(this.strips),
      this.tokens(),
      this.step,
      isMap ? draw(this.bands) : null, // with their names in them, which no line crosses
    );
  }

  part(element, classes) {
    this.parts.push([element, classes]);
    return element;
  }

  /** Show a state: only what is another one is changed. @param {State} state  @param {boolean} isKept  what was there before stays too */
  show(state, isKept = false) {
    if (state.row !== this.row) {
      this.row = state.row;
      const { element, parts } = state.row < 0 ? { element: svg('g'), parts: [] } : this.ofStep(state.row);
      if (isKept) this.step.after(element);
      else this.step.replaceWith(element);
      [this.step, this.stepParts] = [element, parts];
    }
    for (const part of [...this.parts, ...this.stepParts]) {
      const wanted = part[1](state);
      if (part[2] === wanted) continue;
      if (part[2]) part[0].classList.remove(...part[2].split(' '));
      if (wanted) part[0].classList.add(...wanted.split(' '));
      part[2] = wanted;
    }
  }

  /** The middle of the band after a stage, and how high it is. */
  bandOf(side, stage) {
    const { y } = this.layout[side];
    return [(y(stage) + y(stage + 1)) / 2, y(0) - y(1) - 2 * this.half[side] - (this.layout.isNarrow ? 2 : 6)];
  }

  bands(side, { left, right, top, bottom }) {
    const { isMap, isNarrow } = this.layout;
    const isDense = isMap || SIDES.some((each) => this.layout[each].y(0) - this.layout[each].y(1) < 40);
    const [x, anchor] = isMap ? [left + 2, 'start'] : side === 'encoder' ? [left - 14, 'end'] : [right + 14, 'start'];
    const isLit = (stage) => (side === 'encoder' ? ({ lit, row }) => (row < 0 && lit === stage + 1 ? 'now' : '') : ({ level }) => (level === stage + 1 ? 'now' : ''));
    const band = ({ part }, stage) => {
      const [y, high] = this.bandOf(side, stage);
      const [, layer, kind] = part.split('.');
      const isFirst = kind === 'self';
      const name = text(x, y + 4, `${isDense && isFirst ? `${Number(layer) + 1} · ` : ''}${nameOf(part.split('.'))}`, anchor);
      const of = layerTitle(this.trace, side, layer);
      const key = isMap ? this.current(`band-${part}`) : { data: { band: part, key: `band-${part}` } };
      const labels = isNarrow && !isMap ? [] : [name, isFirst && !isDense ? text(x, y - 11, of, anchor, { class: 'of' }) : null];
      const rect = box((left + right) / 2, y, right - left + 8, high, Math.min(9, high / 2));
      const group = svg('g.band', { role: 'button', tabindex: 0, 'aria-label': `${side} ${of}, ${SUBLAYERS[kind]}: open`, ...key }, rect, labels, svg('title', titleOf(this.trace, part)));
      return this.part(group, isLit(stage));
    };
    const beside = [right + 14, (top + bottom) / 2]; // where no line is
    const name = isNarrow ? text(...beside, side, 'middle', { class: 'stack', transform: `rotate(-90 ${beside})` }) : text(x, this.answerAt + 5, side, anchor, { class: 'stack' });
    return svg('g', isMap ? null : name, this.stages[side].slice(1).map(band));
  }

  /** What the map opens besides the bands: the tokens, the embedding, each norm, the logits and the answer. */
  places() {
    const { encoder, decoder, line, odds, lane } = this.layout;
    const place = (stack, key, y, high) => box((stack.left + stack.right) / 2, y, stack.right - stack.left + 8, high, 4, { class: 'place', ...this.current(key) });
    const strips = (side, name) =>
      this.stages[side].map(({ part }, stage) => place(this.layout[side], part ? `norm-${part}` : `embedding-${name}`, this.layout[side].y(stage), 2 * this.half[side] + 4));
    return [
      [strips('encoder', 'source'), strips('decoder', 'target')],
      [place(encoder, 'tokens-source', this.below(encoder), line + 4), place(decoder, 'tokens-target', this.below(decoder), line + 4)],
      [place(decoder, 'output', this.answerAt, line + 4), place(decoder, 'logits', this.answerAt - line / 2 - 6 - odds / 2, odds)],
      this.trace.isPreNorm ? [place(encoder, 'norm-encoder_norm', lane(0) + 10, 8), place(decoder, 'norm-decoder_norm', this.answerAt + line / 2 + 3, 7)] : null,
    ];
  }

  /** What a part of the map opens, and whether the panel is about it. */
  current(key) {
    return { 'aria-current': this.here === key ? 'location' : null, data: { flow: key, key: `map-${key}` } };
  }

  stems(_side, stack) {
    return svg('g.stems', stack.columns.map((i) => svg('line', { x1: stack.x(i), x2: stack.x(i), y1: stack.bottom, y2: stack.top })));
  }

  /** The numbers of the residual stream of each column in each stage. */
  strips(side, stack) {
    const classes = (i, stage) =>
      side === 'encoder'
        ? ({ lit }) => (lit >= stage ? 'on' : '')
        : ({ row, level, end }) => (i === row && level >= stage ? 'on' : i !== row && i < Math.max(row, end + 1) ? 'on past' : '');
    const ofStage = ({ name }, stage) => {
      const x = this.trace.get(name);
      if (!x) return null;
      const rows = stack.columns.map((i) => cellsOf(rowOf(x, i), CELLS));
      const scale = Math.max(...rows.flat().map(Math.abs)) || 1;
      return stack.columns.map((i, at) => this.part(this.strip(stack, this.half[side], i, stage, rows[at].map((number) => number / scale), name), classes(i, stage)));
    };
    return svg('g.strips', this.stages[side].map(ofStage));
  }

  strip(stack, half, i, stage, cells, name) {
    const [wide, each] = [Math.min(16, stack.width(i) * 0.44), (2 * half) / cells.length];
    const paths = new Map();
    cells.forEach((number, k) => {
      const key = `${number < 0 ? 'minus' : 'plus'} ${Math.ceil(Math.abs(number) ** 1.3 * SHADES) / SHADES}`;
      const [x, y] = [stack.x(i) - wide / 2, stack.y(stage) - half + k * each].map((one) => one.toFixed(1));
      paths.set(key, `${paths.get(key) ?? ''}M${x} ${y}h${wide.toFixed(1)}v${each.toFixed(1)}h${(-wide).toFixed(1)}z`);
    });
    const fills = [...paths].map(([key, d]) => svg('path', { class: key.split(' ')[0], d, 'fill-opacity': key.split(' ')[1] }));
    return svg('g.strip', { data: { tensor: name, at: i } }, box(stack.x(i), stack.y(stage), wide, 2 * half, 0), fills);
  }

  /** Where the tokens below a stack are. */
  below = (stack) => stack.bottom + this.half[stack === this.layout.encoder ? 'encoder' : 'decoder'] + this.layout.line / 2 + 4;

  tokens() {
    const { encoder, decoder, line, isNarrow } = this.layout;
    const { source, target_in: inputs, target_out: outputs } = this.trace.tokens;
    const token = (stack, i, y, which, options) => {
      const [x, size] = [stack.x(i), stack.sizeOf(i, which)];
      return svg('g.token', options, box(x, y, stack.width(i) - (isNarrow ? 2 : 4), line, 6), text(x, y + size * 0.35, stack.texts[which][i], 'middle', { style: { 'font-size': `${size.toFixed(1)}px` } }));
    };
    const walk = (i) => (decoder.isShown(i - 1) ? { '--dx': `${decoder.x(i - 1) - decoder.x(i)}px`, '--dy': `${this.answerAt - this.below(decoder)}px` } : {});
    const fed = (i) => token(decoder, i, this.below(decoder), 0, { class: `in ${inputs[i].kind}`, data: { step: i }, style: walk(i) });
    const written = (i) => token(decoder, i, this.answerAt, 1, { class: `out ${outputs[i].kind} ${this.marks[i] ? 'changed' : ''}`, data: { step: i, at: `t${i}` } });
    return svg(
      'g.tokens',
      encoder.columns.map((i) => token(encoder, i, this.below(encoder), 0, { class: `${source[i].kind} on`, data: { source: i, at: `s${i}` } })),
      decoder.columns.map((i) => [
        this.part(fed(i), ({ row, end }) => (i <= Math.max(row, end) ? (i === row ? 'on walk' : 'on') : '')),
        this.part(written(i), ({ row, level, end }) => (i === row ? (level > decoder.stages ? 'on here' : '') : i < row || i <= end ? 'on' : '')),
      ]),
      [this.more('encoder', encoder, source.length), this.more('decoder', decoder, outputs.length)],
    );
  }

  /** How many columns are not in sight, on each side. */
  more(side, { left, right, from, to, isRtl, stages }, count) {
    const [y] = this.bandOf(side, stages - 1);
    const ends = isRtl ? [count - to, from] : [from, count - to];
    return ends.map((number, i) => (number ? text([left, right][i], y + 4, `${number} more`, ['start', 'end'][i], { class: 'more' }) : null));
  }

  /** Self-attention of the encoder: all rows at once. */
  linesOfEncoder() {
    const { encoder } = this.layout;
    return this.stages.encoder.slice(1).map(({ part }, stage) => {
      const weights = part.endsWith('.self') ? meanWeights(this.trace, part) : null;
      if (!weights) return null;
      const [low, high] = [encoder.y(stage) - this.half.encoder, encoder.y(stage + 1) + this.half.encoder];
      const line = (from, to, weight) => {
        const [a, b, middle] = [encoder.x(from).toFixed(1), encoder.x(to).toFixed(1), (low + high) / 2];
        return svg('path', { d: `M${a} ${low}C${a} ${middle} ${b} ${middle} ${b} ${high}`, 'stroke-width': (0.6 + weight * 4).toFixed(1), pathLength: 1 });
      };
      const ofRow = (to) => encoder.columns.filter((from) => rowOf(weights, to)[from] >= LEAST_OF_ENCODER).map((from) => line(from, to, rowOf(weights, to)[from]));
      return this.part(svg('g.lines', encoder.columns.map(ofRow)), ({ lit, row }) => (row < 0 && lit === stage + 1 ? 'on' : lit > stage ? 'on past' : ''));
    });
  }

  /** What belongs to one step: what it reads, what its layers say, and what is probable next. @returns {{element: SVGElement, parts: Part[]}} */
  ofStep(row) {
    const before = this.parts;
    this.parts = [];
    const { decoder, line } = this.layout;
    const said = this.said(row);
    const deciding = said.find(({ isDeciding }) => isDeciding)?.layer;
    const [top, bottom] = [this.answerAt - line / 2 - 6, this.below(decoder) + line / 2 + 4];
    const ofSublayer = ({ part }, stage) => {
      const [, layer, kind] = part.split('.');
      const drawn = kind === 'feed_forward' ? this.work(row, stage) : kind === 'self' ? this.ownCable(part, row, stage) : this.cable(part, row, stage, Number(layer));
      const quiet = deciding === undefined || Number(layer) === deciding ? '' : ' quiet';
      return drawn && this.part(drawn, ({ level }) => (level > stage ? `on${quiet}` : ''));
    };
    const element = svg(
      'g.step',
      box(decoder.x(row), (top + bottom) / 2, decoder.width(row) + 2, bottom - top, 9, { class: 'column' }),
      this.copies(row), // below the letters of the other cables
      this.stages.decoder.slice(1).map(ofSublayer),
      [said.map((each) => this.speech(row, each)), this.odds(row)],
    );
    const { parts } = this;
    this.parts = before;
    return { element, parts };
  }

  /** The tokens that a row takes something from, each with its weight and where it is. */
  keysOf(weights, stack, order) {
    const least = Math.min(LEAST, Math.max(...weights) / 2); // of equal weights of many tokens none would be drawn
    return [...weights].flatMap((weight, key) => (weight > 0 && weight >= least ? { key, weight, x: stack.x(key) } : [])).sort((one, other) => order(one.x) - order(other.x));
  }

  /** From the memory to the column that asks: a strand for each source token, as thick as its weight. */
  cable(part, row, stage, layer) {
    const weights = meanWeights(this.trace, part);
    if (!weights) return null;
    const { decoder, isNarrow, lane, bus } = this.layout;
    const [y] = this.bandOf('decoder', stage);
    const { keys, paths } = this.fromMemory(rowOf(weights, row), row, [lane(layer), bus(layer), y], part);
    const most = keys.reduce((one, other) => (other.weight > one.weight ? other : one));
    const letters = [this.letter('k', most.x, this.from - 9), this.letter('v', bus(layer), isNarrow ? lane(layer) - 26 : (lane(layer) + y) / 2), this.letter('q', decoder.x(row), y)];
    return svg('g.cable', { data: { cable: part } }, paths, letters);
  }

  fromMemory(weights, row, [lane, bus, y], part) {
    const { encoder, decoder, strand, isNarrow } = this.layout;
    const keys = this.keysOf(weights, encoder, (x) => (isNarrow ? -x : x));
    const [offsets, sign] = [strands(keys.map(({ weight }) => weight), strand), isNarrow ? 1 : -1];
    const paths = keys.map(({ key, x, weight }, i) => {
      const o = offsets[i];
      const corners = [[x, this.from], [x, lane - o], [bus + o, lane - o], [bus + o, y + sign * o], [decoder.x(row), y + sign * o]]; // prettier-ignore
      return this.strand(corners, [RADIUS, RADIUS - sign * o, RADIUS - o], weight, strand, { line: part, row, from: key }, this.trace.tokens.source[key]);
    });
    return { keys, paths };
  }

  /** A copied token comes from the memory too, past all layers. */
  copies(row) {
    const weights = copiesOf(this.trace, row);
    if (!weights) return null;
    const { decoder, strand, lane, bus, isNarrow } = this.layout;
    const [last, y] = [this.trace.layers('decoder') - 1, decoder.top - this.half.decoder - 5];
    const places = isNarrow ? [lane(last) + 6, bus(last) - 4, y] : [y, bus(last) + strand, y];
    return this.part(svg('g.cable.copy', this.fromMemory(weights, row, places, 'copy').paths), ({ level }) => (level > decoder.stages ? 'on' : ''));
  }

  /** Masked self-attention: strands from the columns before, and from the column itself. */
  ownCable(part, row, stage) {
    const { decoder, strand } = this.layout;
    const weights = meanWeights(this.trace, part);
    if (!weights) return null;
    const [to, from, [y]] = [decoder.x(row), decoder.y(stage) - this.half.decoder, this.bandOf('decoder', stage)];
    const keys = this.keysOf(rowOf(weights, row), decoder, (x) => -Math.abs(x - to));
    const offsets = strands(keys.map(({ weight }) => weight), strand * 0.8);
    const paths = keys.map(({ key, x, weight }, i) => {
      const corners = key === row ? [[x, from], [x, y]] : [[x, from], [x, y - offsets[i]], [to, y - offsets[i]]]; // prettier-ignore
      return this.strand(corners, [RADIUS / 2], weight, strand * 0.8, { line: part, row, from: key }, this.trace.tokens.target_in[key]);
    });
    return svg('g.cable.own', { data: { cable: part } }, paths, this.letter('q', to, y));
  }

  strand(corners, radii, weight, width, data, token) {
    const title = svg('title', `“${visible(token.text)}” ${percent(weight)}${data.line === 'copy' ? '' : ': mean of the heads'}`);
    return svg('path.strand', { d: rounded(corners, radii), 'stroke-width': Math.max(0.7, weight * width - 0.4).toFixed(2), pathLength: 1, data: { ...data, weight } }, title);
  }

  /** Q, K or V in its color. */
  letter(kind, x, y) {
    const r = this.layout.isNarrow ? 7 : 8;
    return svg('g', { class: `letter ${kind}` }, svg('circle', { cx: x, cy: y, r }), text(x, y + r * 0.44, kind.toUpperCase(), 'middle', { style: { 'font-size': `${r * 1.3}px` } }));
  }

  /** The feed-forward network of a column: wide in the middle. */
  work(row, stage) {
    const { decoder } = this.layout;
    const [y, high] = this.bandOf('decoder', stage);
    const [x, wide, tall] = [decoder.x(row), Math.min(17, decoder.width(row) * 0.44), Math.min(18, high / 2 + 2)];
    const near = wide * 0.32;
    return svg('path.work', { d: `M${x - near} ${y + tall}L${x - wide} ${y}L${x - near} ${y - tall}h${2 * near}L${x + wide} ${y}L${x + near} ${y + tall}z` });
  }

  /** What a layer would say if it were the last one. */
  speech(row, { layer, text: said, p, isRight }) {
    const { decoder, isNarrow } = this.layout;
    const [high, letter] = isNarrow ? [17, 5.9] : [26, 8.6];
    const words = `\u2068${visible(said)}\u2069  ${percent(p)}`; // isolated, where it is written from right to left
    const wide = (words.length - 2) * letter + high * 0.7;
    const [x, y, aside] = [decoder.x(row), decoder.y(3 * layer + 3), decoder.width(row) / 2 + 6 + wide / 2];
    const isAfter = x - aside - wide / 2 < decoder.left - 10 && (x - aside - wide / 2 < 2 || x + aside + wide / 2 < decoder.right);
    const middle = isAfter ? x + aside : x - aside;
    const group = svg('g.speech', { class: isRight ? 'right' : 'different', data: { layer } }, box(middle, y, wide, high, high / 2), text(middle, y + high * 0.18, words));
    return this.part(group, ({ level }) => (level > 3 * layer + 2 ? 'on' : ''));
  }

  /** The most probable tokens of the step. */
  odds(row) {
    const { decoder, isMap, isNarrow, width, line, odds } = this.layout;
    const [count, wide, after] = isMap ? [1, 54, 52] : isNarrow ? [2, 54, 52] : [3, 96, 64];
    const top = this.trace.predictions.logits[row].top.slice(0, count);
    const names = top.map(([, each]) => visible(each).slice(0, 12));
    const left = Math.max((isNarrow ? 12 : decoder.left) + 8 * Math.max(...names.map(({ length }) => length)), Math.min(decoder.x(row) - wide / 2, width - wide - after));
    const [above, each] = [this.answerAt - line / 2 - odds - 8, odds / count];
    const bars = top.map(([id, , p], i) => {
      const [y, long] = [above + (i + 0.5) * each, Math.max(1.5, wide * p)];
      const kind = id === this.trace.tokens.target_out[row].id ? 'right' : '';
      return svg('g', { class: kind }, text(left - 7, y + 4, names[i], 'end'), box(left + long / 2, y, long, each * 0.66, 3), text(left + long + 6, y + 4, percent(p), 'start', { class: 'p' }));
    });
    return this.part(svg('g.odds', bars), ({ level }) => (level > decoder.stages ? 'on' : ''));
  }
}
