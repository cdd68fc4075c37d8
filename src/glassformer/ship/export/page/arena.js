/**
 * The memory of the model, and its matrix product: with WebAssembly SIMD where the browser has it, else in JavaScript.
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
  /** @param {boolean} useSimd  false: JavaScript only */
  constructor(useSimd = true) {
    this.used = 0;
    this.memory = new WebAssembly.Memory({ initial: 1 });
    this.floats = new Float32Array(this.memory.buffer);
    this.functions = null;
    try {
      const module = useSimd ? new WebAssembly.Module(assemble(BLOCKS)) : null;
      if (module) this.functions = new WebAssembly.Instance(module, { page: { memory: this.memory } }).exports;
    } catch (error) {
      if (!(error instanceof WebAssembly.CompileError)) throw error; // a browser without SIMD
    }
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
      if (this.functions) {
        this.functions[`multiply${n}`](
          ...[4 * from, 4 * xStride, 4 * inner, 4 * matrix, 4 * bias, 4 * to, 4 * yStride, yStride / PANEL],
        );
      } else
        for (let i = 0; i < n; i += 1)
          this.multiplyRow(from + i * xStride, inner, matrix, bias, to + i * yStride, yStride);
      row += n;
    }
  }

  multiplyRow(x, inner, matrix, bias, y, width) {
    const { floats } = this;
    let w = matrix;
    for (let column = 0; column < width; column += PANEL) {
      let [a, b, c, d] = [
        floats[bias + column],
        floats[bias + column + 1],
        floats[bias + column + 2],
        floats[bias + column + 3],
      ];
      let [e, f, g, h] = [
        floats[bias + column + 4],
        floats[bias + column + 5],
        floats[bias + column + 6],
        floats[bias + column + 7],
      ];
      for (let i = 0; i < inner; i += 1, w += PANEL) {
        const number = floats[x + i];
        a += number * floats[w];
        b += number * floats[w + 1];
        c += number * floats[w + 2];
        d += number * floats[w + 3];
        e += number * floats[w + 4];
        f += number * floats[w + 5];
        g += number * floats[w + 6];
        h += number * floats[w + 7];
      }
      floats.set([a, b, c, d, e, f, g, h], y + column);
    }
  }
}
