/** Plays figure 1: the encoder at once, then a column of the decoder in each step; it halts at one step, and writes the rest. */

import { range } from 'glassbox/core/dom.js';

const [ENCODER, FIRST, WRITING, HALT, LAYER, REST] = [750, 750, 1400, 190, 400, 700]; // milliseconds of each part
const QUICK = 0.4; // of another text, which is not waited for as long

/**
 * The states of the figure, each with how long it is shown.
 *
 * @param {{stages: number[], rows: number, row: number, layers: number[], isQuick: boolean}} story  the stages of the
 *   stacks, how many steps there are, the one at which it halts, and the layers of it that speak
 * @returns {{state: import('./paperfigure.js').State, time: number, pace: string}[]}
 */
export function framesOf({ stages: [encoder, decoder], rows, row: halt, layers, isQuick }) {
  const pace = isQuick ? QUICK : 1;
  const frames = [];
  const add = (time, row, level, end = -1, kind = 'quick') => frames.push({ state: { lit: encoder, row, level, end }, time: time * pace, kind });
  range(encoder + 1).forEach((lit) => frames.push({ state: { lit, row: -1, level: 0, end: -1 }, time: (lit ? ENCODER / encoder : 350) * pace, kind: 'slow' }));
  range(halt).forEach((row) => {
    if (row) add(Math.min(150, Math.max(45, WRITING / halt)), row, decoder + 1);
    else range(decoder + 2).forEach((level) => add(level > decoder ? 350 : FIRST / decoder, 0, level, -1, 'slow'));
  });
  const isSaid = (level) => layers.includes(level / 3 - 1);
  range(decoder + 2).forEach((level) => add((HALT + (isSaid(level) ? LAYER : 0)) * (layers.length ? 1 : 0.5), halt, level, -1, 'slow'));
  frames.at(-1).time = 1200 * pace;
  const left = rows - halt - 1;
  range(left).forEach((i) => add(Math.min(120, REST / left), halt, decoder + 1, halt + i + 1));
  return frames;
}

export class Player {
  /** @param {ReturnType<framesOf>} frames  @param {(frame: object) => void} show */
  constructor(frames, show = () => {}) {
    Object.assign(this, { frames, show, request: 0, at: 0, starts: [] });
    this.length = frames.reduce((at, { time }) => (this.starts.push(at), at + time), 0);
  }

  get isPlaying() {
    return this.request !== 0;
  }

  /** Play from where it is, or pause. */
  toggle() {
    const began = performance.now() - (this.at ||= 1);
    let shown = -1;
    const draw = (now) => {
      const before = shown;
      while (this.starts[shown + 1] <= now - began) shown += 1;
      const isOver = shown + 1 === this.frames.length;
      this.at = isOver ? 0 : Math.max(1, now - began);
      this.request = isOver ? 0 : requestAnimationFrame(draw);
      if (shown !== before) this.show(this.frames[shown]);
    };
    if (!this.isPlaying) return void (this.request = requestAnimationFrame(draw));
    this.stop(this.at);
    this.show(this.frames[this.starts.findLastIndex((start) => start <= this.at)]); // with what is paused
  }

  stop(at = 0) {
    cancelAnimationFrame(this.request);
    Object.assign(this, { request: 0, at });
  }
}
