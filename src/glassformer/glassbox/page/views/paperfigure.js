/**
 * Figure 1 of the paper with the numbers of this model: every token is a line that rises through its stack, with its
 * residual stream as strips; bands are the sublayers; a cable leads from the tokens that a step reads to its column.
 */

import { range, svg } from 'glassbox/core/dom.js';
import { SUBLAYERS, titleOf } from 'glassbox/model/labels.js';
import { percent, rowOf } from 'glassbox/core/numbers.js';
import { cellsOf, copiesOf, meanWeights, stagesOf } from 'glassbox/model/stream.js';
import { visible } from 'glassbox/model/trace.js';
import { rounded, strands } from 'glassbox/views/layout.js';

const [CELLS, SHADES] = [8, 5]; // of a strip
const [LEAST, LEAST_OF_ENCODER] = [0.02, 0.16]; // no line for a smaller weight
const RADIUS = 16;

const nameOf = (part) => part.replace(/^(\w+)\.\d+\.(\w+)$/, (_, side, kind) => `${side === 'decoder' && kind === 'self' ? 'masked ' : ''}${SUBLAYERS[kind]}`);

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
    Object.assign(this, { trace, layout, said, marks, here });
    this.stages = { encoder: stagesOf(trace, 'encoder'), decoder: stagesOf(trace, 'decoder') };
    this.parts = [];
    const { width, height, isNarrow } = layout;
    const sides = ['encoder', 'decoder'];
    this.step = svg('g');
    this.stepParts = [];
    this.element = svg(
      'svg.paper',
      { viewBox: `0 0 ${width} ${height}`, width, height, role: 'group', 'aria-label': label, class: layout.isMap ? 'narrow small' : isNarrow ? 'narrow' : '' },
      layout.isMap ? this.places() : null,
      sides.map((side) => this.bands(side)),
      sides.map((side) => this.stems(side)),
      this.linesOfEncoder(),
      sides.map((side) => this.strips(side)),
      this.tokens(),
      this.step,
      layout.isMap ? sides.map((side) => this.names(side)) : null,
    );
  }

  /** What the map opens besides the bands: a row for the tokens, the embedding, each norm, the logits and the answer. */
  places() {
    const { encoder, decoder, line, odds, lane } = this.layout;
    const place = (stack, key, y, high) =>
      svg('rect.place', { x: stack.left - 4, y: y - high / 2, width: stack.right - stack.left + 8, height: high, rx: 4, ...this.current(key) });
    const half = this.heightOf(encoder) / 2;
    const below = (stack) => stack.bottom + half + line / 2 + 4;
    const answer = decoder.top - half - line / 2 - 8;
    const rows = ['encoder', 'decoder'].flatMap((side) =>
      this.stages[side].map(({ part }, stage) => place(this.layout[side], part ? `norm-${part}` : `embedding-${side === 'encoder' ? 'source' : 'target'}`, this.layout[side].y(stage), 2 * half + 4)),
    );
    return svg(
      'g',
      rows,
      place(encoder, 'tokens-source', below(encoder), line + 4),
      place(decoder, 'tokens-target', below(decoder), line + 4),
      place(decoder, 'output', answer, line + 4),
      place(decoder, 'logits', answer - line / 2 - 6 - odds / 2, odds),
      this.trace.isPreNorm ? [place(encoder, 'norm-encoder_norm', lane(0) + 10, 8), place(decoder, 'norm-decoder_norm', decoder.top - half - 5, 7)] : null,
    );
  }

  /** What a part of the map opens, and whether the panel is about it. */
  current(key) {
    return { 'aria-current': this.here === key ? 'location' : null, data: { flow: key, key: `map-${key}` } };
  }

  /** The names of the sublayers, in their bands. */
  names(side) {
    const per = side === 'encoder' ? 2 : 3;
    return svg(
      'g.names',
      this.stages[side].slice(1).map(({ part }, stage) => {
        const name = nameOf(part);
        return svg('text', { x: this.layout[side].left + 2, y: this.bandOf(side, stage)[0] + 3.5, class: this.here === `band-${part}` ? 'here' : '' }, stage % per ? name : `${stage / per + 1} · ${name}`);
      }),
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

  /** How high a strip is. */
  heightOf(stack) {
    return Math.min(30, (stack.y(0) - stack.y(1)) * (this.layout.isMap ? 0.3 : 0.42));
  }

  /** The middle of the band after a stage, and how high it is. */
  bandOf(side, stage) {
    const stack = this.layout[side];
    return [(stack.y(stage) + stack.y(stage + 1)) / 2, stack.y(0) - stack.y(1) - this.heightOf(stack) - (this.layout.isNarrow ? 2 : 6)];
  }

  bands(side) {
    const { layout, trace } = this;
    const stack = layout[side];
    const per = side === 'encoder' ? 2 : 3;
    const layers = trace.layers(side);
    const isDense = stack.y(0) - stack.y(1) < 40;
    const [x, anchor] = side === 'encoder' ? [stack.left - 14, 'end'] : [stack.right + 14, 'start'];
    const isLit = (stage) => (side === 'encoder' ? ({ lit, row }) => (row < 0 && lit === stage + 1 ? 'now' : '') : ({ level }) => (level === stage + 1 ? 'now' : ''));
    return svg(
      'g',
      layout.isNarrow ? null : svg('text.stack', { x, y: layout.decoder.top - this.heightOf(layout.decoder) / 2 - layout.line / 2 - 3, 'text-anchor': anchor }, side),
      this.stages[side].slice(1).map(({ part }, stage) => {
        const [y, high] = this.bandOf(side, stage);
        const kind = part.split('.')[2];
        const of = `${side} layer ${Math.floor(stage / per) + 1} of ${layers}`;
        const rect = svg('rect', { x: stack.left - 4, y: y - high / 2, width: stack.right - stack.left + 8, height: high, rx: Math.min(9, high / 2) });
        return this.part(
          svg(
            'g.band',
            { role: 'button', tabindex: 0, 'aria-label': `${of}, ${SUBLAYERS[kind]}: open`, ...(layout.isMap ? this.current(`band-${part}`) : { data: { band: part, key: `band-${part}` } }) },
            rect,
            layout.isNarrow ? null : svg('text', { x, y: y + 4, 'text-anchor': anchor }, `${isDense && stage % per === 0 ? `${stage / per + 1} · ` : ''}${nameOf(part)}`),
            layout.isNarrow || isDense || stage % per ? null : svg('text.of', { x, y: y - 11, 'text-anchor': anchor }, `layer ${stage / per + 1} of ${layers}`),
            svg('title', titleOf(part)),
          ),
          isLit(stage),
        );
      }),
    );
  }

  columns(side) {
    const { from, to } = this.layout[side];
    return range(to - from).map((i) => i + from);
  }

  stems(side) {
    const stack = this.layout[side];
    return svg('g.stems', this.columns(side).map((i) => svg('line', { x1: stack.x(i), x2: stack.x(i), y1: stack.bottom, y2: stack.top })));
  }

  /** The numbers of the residual stream of each column in each stage. */
  strips(side) {
    const stack = this.layout[side];
    const classes = (i, stage) =>
      side === 'encoder'
        ? ({ lit }) => (lit >= stage ? 'on' : '')
        : ({ row, level, end }) => (i === row && level >= stage ? 'on' : i !== row && i < Math.max(row, end + 1) ? 'on past' : '');
    return svg(
      'g.strips',
      this.stages[side].map(({ name }, stage) => {
        const x = this.trace.get(name);
        if (!x) return null;
        const rows = this.columns(side).map((i) => cellsOf(rowOf(x, i), CELLS));
        const scale = Math.max(...rows.flat().map(Math.abs)) || 1;
        return rows.map((cells, at) => this.part(this.strip(stack, at + stack.from, stage, cells, scale, name), classes(at + stack.from, stage)));
      }),
    );
  }

  strip(stack, i, stage, cells, scale, name) {
    const high = this.heightOf(stack);
    const wide = Math.min(16, stack.width(i) * 0.44);
    const [left, top, each] = [stack.x(i) - wide / 2, stack.y(stage) - high / 2, high / cells.length];
    const paths = new Map();
    cells.forEach((number, k) => {
      const shade = Math.ceil((Math.min(1, Math.abs(number) / scale) ** 1.3) * SHADES) / SHADES;
      const key = `${number < 0 ? 'minus' : 'plus'} ${shade}`;
      paths.set(key, `${paths.get(key) ?? ''}M${left.toFixed(1)} ${(top + k * each).toFixed(1)}h${wide.toFixed(1)}v${each.toFixed(1)}h${(-wide).toFixed(1)}z`);
    });
    const fills = [...paths].map(([key, d]) => svg('path', { class: key.split(' ')[0], d, 'fill-opacity': key.split(' ')[1] }));
    return svg('g.strip', { data: { tensor: name, at: i } }, svg('rect', { x: left, y: top, width: wide, height: high }), fills);
  }

  /** A token in its box. */
  token(stack, i, y, which, { data, kind = '', ...more }) {
    const { line } = this.layout;
    const size = stack.sizeOf(i, which);
    const text = stack.texts[which][i];
    const wide = stack.width(i) - (this.layout.isNarrow ? 2 : 4);
    return svg(
      'g.token',
      { class: kind, data, ...more },
      svg('rect', { x: stack.x(i) - wide / 2, y: y - line / 2, width: wide, height: line, rx: 6 }),
      svg('text', { x: stack.x(i), y: y + size * 0.35, 'text-anchor': 'middle', style: { 'font-size': `${size.toFixed(1)}px` } }, text),
    );
  }

  tokens() {
    const { layout, trace } = this;
    const { encoder, decoder, line } = layout;
    const { source, target_in: inputs, target_out: outputs } = trace.tokens;
    const below = (stack) => stack.bottom + this.heightOf(stack) / 2 + line / 2 + 4;
    this.answerAt = decoder.top - this.heightOf(decoder) / 2 - line / 2 - 8;
    const walk = (i) => (i && decoder.isShown(i - 1) ? { '--dx': `${decoder.x(i - 1) - decoder.x(i)}px`, '--dy': `${this.answerAt - below(decoder)}px` } : {});
    return svg(
      'g.tokens',
      this.columns('encoder').map((i) => this.token(encoder, i, below(encoder), 0, { kind: `${source[i].kind} on`, data: { source: i, at: `s${i}` } })),
      this.columns('decoder').flatMap((i) => [
        this.part(
          this.token(decoder, i, below(decoder), 0, { kind: `in ${inputs[i].kind}`, data: { step: i }, style: walk(i) }),
          ({ row, end }) => (i <= Math.max(row, end) ? (i === row ? 'on walk' : 'on') : ''),
        ),
        this.part(
          this.token(decoder, i, this.answerAt, 1, { kind: `out ${outputs[i].kind} ${this.marks[i] ? 'changed' : ''}`, data: { step: i, at: `t${i}` } }),
          ({ row, level, end }) => (i === row ? (level > decoder.stages ? 'on here' : '') : i < row || i <= end ? 'on' : ''),
        ),
      ]),
      this.more(encoder, source.length),
      this.more(decoder, outputs.length),
    );
  }

  /** How many columns are not in sight, on each side. */
  more(stack, count) {
    const at = (x, anchor, number) => (number > 0 ? svg('text.more', { x, y: stack.top - this.heightOf(stack) / 2 - 4, 'text-anchor': anchor }, `${number} more`) : null);
    const [first, last] = [stack.from, count - stack.to];
    return [at(stack.left, 'start', stack.isRtl ? last : first), at(stack.right, 'end', stack.isRtl ? first : last)];
  }

  /** Self-attention of the encoder: all rows at once. */
  linesOfEncoder() {
    const { encoder } = this.layout;
    return this.stages.encoder.slice(1).map(({ part }, stage) => {
      const weights = part.endsWith('.self') ? meanWeights(this.trace, part) : null;
      if (!weights) return null;
      const [low, high] = [encoder.y(stage) - this.heightOf(encoder) / 2, encoder.y(stage + 1) + this.heightOf(encoder) / 2];
      const middle = (low + high) / 2;
      const lines = this.columns('encoder').flatMap((to) =>
        this.columns('encoder').flatMap((from) => {
          const weight = rowOf(weights, to)[from];
          if (weight < LEAST_OF_ENCODER) return [];
          const [a, b] = [encoder.x(from).toFixed(1), encoder.x(to).toFixed(1)];
          return svg('path', { d: `M${a} ${low}C${a} ${middle} ${b} ${middle} ${b} ${high}`, 'stroke-width': (0.6 + weight * 4).toFixed(1), pathLength: 1 });
        }),
      );
      return this.part(svg('g.lines', lines), ({ lit, row }) => (row < 0 && lit === stage + 1 ? 'on' : lit > stage ? 'on past' : ''));
    });
  }

  /** What belongs to one step: what it reads, what its layers say, and what is probable next. @returns {{element: SVGElement, parts: Part[]}} */
  ofStep(row) {
    const before = this.parts;
    this.parts = [];
    const { decoder, line, odds } = this.layout;
    const said = this.said(row);
    const deciding = said.find(({ isDeciding }) => isDeciding)?.layer ?? null;
    const wide = decoder.width(row);
    const [top, bottom] = [this.answerAt - line / 2 - 6, decoder.bottom + this.heightOf(decoder) / 2 + line + 8];
    const element = svg(
      'g.step',
      svg('rect.column', { x: decoder.x(row) - wide / 2 - 1, y: top, width: wide + 2, height: bottom - top, rx: 9 }),
      this.stages.decoder.slice(1).map(({ part }, stage) => {
        const kind = part.split('.')[2];
        const layer = Math.floor(stage / 3);
        const drawn = kind === 'cross' ? this.cable(part, row, stage, layer) : kind === 'self' ? this.ownCable(part, row, stage) : this.work(row, stage);
        const quiet = deciding !== null && layer !== deciding ? ' quiet' : '';
        return drawn && this.part(drawn, ({ level }) => (level > stage ? `on${quiet}` : ''));
      }),
      this.copies(row),
      said.map((each) => this.speech(row, each)),
      this.odds(row, odds),
    );
    const parts = this.parts;
    this.parts = before;
    return { element, parts };
  }

  /** From the memory to the column that asks: a strand for each source token, as thick as its weight. */
  cable(part, row, stage, layer) {
    const { encoder, decoder, strand, isNarrow, lane, bus } = this.layout;
    const weights = meanWeights(this.trace, part);
    if (!weights) return null;
    const keys = this.keysOf(rowOf(weights, row), encoder).sort((one, other) => (isNarrow ? other.x - one.x : one.x - other.x));
    const offsets = strands(keys.map(({ weight }) => weight), strand);
    const sign = isNarrow ? 1 : -1;
    const [y] = this.bandOf('decoder', stage);
    const from = encoder.top - this.heightOf(encoder) / 2;
    const paths = keys.map(({ key, x, weight }, i) => {
      const o = offsets[i];
      const corners = [[x, from], [x, lane(layer) - o], [bus(layer) + o, lane(layer) - o], [bus(layer) + o, y + sign * o], [decoder.x(row), y + sign * o]]; // prettier-ignore
      return this.strand(corners, [RADIUS, RADIUS + (isNarrow ? -o : o), RADIUS - o], weight, strand, { part, row, key, token: this.trace.tokens.source[key] });
    });
    const most = keys.reduce((one, other) => (other.weight > one.weight ? other : one));
    return svg('g.cable', { data: { cable: part } }, paths, this.letter('k', most.x, from - 9), this.letter('v', bus(layer), isNarrow ? lane(layer) - 26 : (lane(layer) + y) / 2), this.letter('q', decoder.x(row), y));
  }

  /** Masked self-attention: strands from the columns before, and from the column itself. */
  ownCable(part, row, stage) {
    const { decoder, strand } = this.layout;
    const weights = meanWeights(this.trace, part);
    if (!weights) return null;
    const numbers = rowOf(weights, row).map((weight, key) => (key <= row || weight > 0 ? weight : 0));
    const to = decoder.x(row);
    const keys = this.keysOf(numbers, decoder).sort((one, other) => Math.abs(other.x - to) - Math.abs(one.x - to));
    const offsets = strands(keys.map(({ weight }) => weight), strand * 0.8);
    const [y] = this.bandOf('decoder', stage);
    const from = decoder.y(stage) - this.heightOf(decoder) / 2;
    const paths = keys.map(({ key, x, weight }, i) => {
      const corners = key === row ? [[x, from], [x, y]] : [[x, from], [x, y - offsets[i]], [to, y - offsets[i]]]; // prettier-ignore
      return this.strand(corners, [RADIUS / 2], weight, strand * 0.8, { part, row, key, token: this.trace.tokens.target_in[key] });
    });
    return svg('g.cable.own', { data: { cable: part } }, paths, this.letter('q', to, y));
  }

  keysOf(weights, stack) {
    const least = Math.min(LEAST, Math.max(...weights) / 2); // of equal weights of many tokens none would be drawn
    return [...weights].flatMap((weight, key) => (weight > 0 && weight >= least ? { key, weight, x: stack.x(key) } : []));
  }

  strand(corners, radii, weight, width, { part, row, key, token }) {
    return svg(
      'path.strand',
      { d: rounded(corners, radii), 'stroke-width': Math.max(0.7, weight * width - 0.4).toFixed(2), pathLength: 1, data: { line: part, row, from: key, weight } },
      svg('title', `“${visible(token.text)}” ${percent(weight)}: mean of the heads`),
    );
  }

  /** Q, K or V in its color. */
  letter(kind, x, y) {
    const r = this.layout.isNarrow ? 5 : 8;
    return svg('g', { class: `letter ${kind}` }, svg('circle', { cx: x, cy: y, r }), svg('text', { x, y: y + r * 0.44, 'text-anchor': 'middle', style: { 'font-size': `${r * 1.25}px` } }, kind.toUpperCase()));
  }

  /** The feed-forward network of a column: wide in the middle. */
  work(row, stage) {
    const { decoder } = this.layout;
    const [y, high] = this.bandOf('decoder', stage);
    const [x, wide, tall] = [decoder.x(row), Math.min(17, decoder.width(row) * 0.44), Math.min(18, high / 2 + 2)];
    const [up, down, near] = [y - tall, y + tall, wide * 0.32];
    return svg('path.work', { d: `M${x - near} ${down}L${x - wide} ${y}L${x - near} ${up}h${2 * near}L${x + wide} ${y}L${x + near} ${down}z` });
  }

  /** A copied token comes from the memory too, past all layers. */
  copies(row) {
    const weights = copiesOf(this.trace, row);
    if (!weights) return null;
    const { encoder, decoder, strand, lane, bus, isNarrow } = this.layout;
    const [layers, y] = [this.trace.layers('decoder'), decoder.top - this.heightOf(decoder) / 2 - 5];
    const from = encoder.top - this.heightOf(encoder) / 2;
    const side = isNarrow ? bus(layers - 1) - 4 : bus(layers - 1) + strand;
    const paths = this.keysOf(weights, encoder).map(({ key, x, weight }) =>
      this.strand([[x, from], [x, isNarrow ? lane(layers - 1) + 6 : y], [side, isNarrow ? lane(layers - 1) + 6 : y], [side, y], [decoder.x(row), y]], [RADIUS, RADIUS, 4], weight, strand, { part: 'copy', row, key, token: this.trace.tokens.source[key] }),
    ); // prettier-ignore
    return this.part(svg('g.cable.copy', paths), ({ level }) => (level > decoder.stages ? 'on' : ''));
  }

  /** What a layer would say if it were the last one. */
  speech(row, { layer, text, p, isRight }) {
    const { decoder, isNarrow } = this.layout;
    const [high, letter] = isNarrow ? [17, 5.9] : [26, 8.6];
    const words = `\u2068${visible(text)}\u2069  ${percent(p)}`; // isolated, where it is written from right to left
    const wide = (words.length - 2) * letter + high * 0.7;
    const [x, y] = [decoder.x(row), decoder.y(3 * layer + 3)];
    const [before, after] = [x - decoder.width(row) / 2 - 6 - wide, x + decoder.width(row) / 2 + 6];
    const left = before < decoder.left - 10 && (before < 2 || after + wide < decoder.right) ? after : before;
    return this.part(
      svg('g.speech', { class: isRight ? 'right' : 'different', data: { layer } }, svg('rect', { x: left, y: y - high / 2, width: wide, height: high, rx: high / 2 }), svg('text', { x: left + wide / 2, y: y + high * 0.18, 'text-anchor': 'middle' }, words)),
      ({ level }) => (level > 3 * layer + 2 ? 'on' : ''),
    ); // prettier-ignore
  }

  /** The most probable tokens of the step. */
  odds(row, height) {
    const { decoder, isMap, isNarrow, width, line } = this.layout;
    const count = isMap ? 1 : isNarrow ? 2 : 3;
    const [each, wide] = [height / count, isNarrow ? 54 : 96];
    const top = this.trace.predictions.logits[row].top.slice(0, count);
    const names = top.map(([, text]) => visible(text).slice(0, 12));
    const left = Math.max(12 + 8 * Math.max(...names.map(({ length }) => length)), Math.min(decoder.x(row) - wide / 2, width - wide - (isNarrow ? 52 : 64)));
    const above = this.answerAt - line / 2 - height - 8;
    const bars = top.map(([id, , p], i) => {
      const y = above + i * each;
      const kind = id === this.trace.tokens.target_out[row].id ? 'right' : '';
      return svg(
        'g',
        { class: kind },
        svg('text', { x: left - 7, y: y + each * 0.68, 'text-anchor': 'end' }, names[i]),
        svg('rect', { x: left, y: y + each * 0.14, width: Math.max(1.5, wide * p), height: each * 0.66, rx: 3 }),
        svg('text.p', { x: left + wide * p + 6, y: y + each * 0.68 }, percent(p)),
      );
    });
    return this.part(svg('g.odds', bars), ({ level }) => (level > decoder.stages ? 'on' : ''));
  }
}
