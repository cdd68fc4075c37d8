/**
 * The memory of the model, and its matrix product in WebAssembly with SIMD.
 *
 * Everything is one array of float32, `floats`, and a tensor is its offset in it. Memory is taken with `take` and given
 * back with `release`. `floats` is replaced when the memory grows: read it again after each `take`.
 */

import { assemble } from 'translator/assembler.js';

const PAGE = 65536; // bytes of a page of WebAssembly memory
export const PANEL = 8;
const BLOCKS = [1, 2, 3, 4, 5]; // rows that are multiplied at once; 4 are the fastest, 5 are the beam of one text

/** The width of a row in memory: a whole number of panels. */
export const padded = (width) => Math.ceil(width / PANEL) * PANEL;

export class Arena {
  constructor() {
    this.used = 0;
    this.memory = new WebAssembly.Memory({ initial: 1 });
    this.floats = new Float32Array(this.memory.buffer);
    const module = new WebAssembly.Module(assemble(BLOCKS));
    this.functions = new WebAssembly.Instance(module, { page: { memory: this.memory } }).exports;
  }

  /** The offset of `length` numbers, whatever was in them before. */
  take(length) {
    const offset = this.used;
    this.used += padded(length);
    const missing = this.used * 4 - this.memory.buffer.byteLength;
    if (missing > 0) {
      this.memory.grow(Math.ceil(Math.max(missing, this.memory.buffer.byteLength / 4) / PAGE));
      this.floats = new Float32Array(this.memory.buffer);
    }
    return offset;
  }

  /** Give back everything that was taken since `used` had this value. */
  release(used) {
    this.used = used;
  }

  /** Store W [width, inner] in panels of 8 columns of Wᵀ, padded with zeros; return its offset. */
  storeMatrix(numbers, width, inner) {
    const start = this.take(padded(width) * inner);
    const { floats } = this;
    floats.fill(0, start, start + padded(width) * inner);
    for (let row = 0; row < width; row += 1) {
      const panel = start + Math.floor(row / PANEL) * PANEL * inner + (row % PANEL);
      for (let i = 0; i < inner; i += 1) floats[panel + i * PANEL] = numbers[row * inner + i];
    }
    return start;
  }

  /** Store a vector, padded with zeros; return its offset. */
  storeVector(numbers) {
    const start = this.take(numbers.length);
    this.floats.fill(0, start, start + padded(numbers.length));
    this.floats.set(numbers, start);
    return start;
  }

  /** y [rows, width] = x [rows, inner] W + bias; all rows are padded. */
  multiply(x, rows, { matrix, bias, inner, width }, y) {
    const [xStride, yStride] = [padded(inner), padded(width)];
    for (let row = 0; row < rows;) {
      const n = rows - row > BLOCKS.length ? 4 : rows - row;
      const [from, to] = [x + row * xStride, y + row * yStride];
      const offsets = [from, xStride, inner, matrix, bias, to, yStride].map((length) => 4 * length);
      this.functions[`multiply${n}`](...offsets, yStride / PANEL);
      row += n;
    }
  }
}
