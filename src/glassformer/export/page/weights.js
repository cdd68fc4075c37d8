/**
 * The model of the glass box from the weights in the page: base64 of little-endian numbers, in parts that are decoded on their own.
 *
 * An entry of the table has `name`, `shape`, `dtype`, `offset` in bytes and, for int8, `scales`, the offset of one
 * float32 for each row: number = integer · scale.
 *
 * @typedef {{name: string, shape: number[], dtype: string, offset: number, scales?: number}} Entry
 */

import { bytesOf, named } from 'glassbox/core/numbers.js';
import { Tokenizer } from 'glassbox/tokenizer/text.js';
import { Trace } from 'glassbox/model/trace.js';

const WIDTH = { float32: 4, float16: 2, int8: 1 };

/** The bytes of all parts. @param {string[]} parts  base64 @param {number} size  in bytes */
export function decodeParts(parts, size) {
  const bytes = new Uint8Array(size);
  let start = 0;
  for (const part of parts) {
    const found = bytesOf(part);
    if (start + found.length <= size) bytes.set(found, start);
    start += found.length;
  }
  if (start !== size) throw new Error(`this file is not the one that was exported: ${start} of ${size} bytes of weights`);
  return bytes;
}

/** The numbers of a tensor, row by row. @param {Uint8Array} bytes @param {Entry} entry @returns {Float32Array} */
export function readTensor(bytes, { shape, dtype, offset, scales }) {
  const size = shape.reduce((product, length) => product * length, 1);
  const view = new DataView(bytes.buffer, bytes.byteOffset + offset, size * WIDTH[dtype]);
  const numbers = new Float32Array(size);
  if (dtype === 'float32') for (let i = 0; i < size; i += 1) numbers[i] = view.getFloat32(4 * i, true);
  if (dtype === 'float16') for (let i = 0; i < size; i += 1) numbers[i] = halves()[view.getUint16(2 * i, true)];
  if (dtype === 'int8') {
    const rows = new DataView(bytes.buffer, bytes.byteOffset + scales, 4 * shape[0]);
    const width = size / shape[0];
    for (let i = 0; i < size; i += 1) numbers[i] = view.getInt8(i) * rows.getFloat32(4 * Math.floor(i / width), true);
  }
  return numbers;
}

let table = null;

/** The number of each of the 65,536 bit patterns of float16: sign, 5 bits of exponent, 10 bits of fraction. */
function halves() {
  table ??= Float32Array.from({ length: 65536 }, (_, bits) => {
    const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 25) * (1024 + fraction) : 2 ** -24 * fraction);
  });
  return table;
}

/** The template with the weights of a model and the labels of the vocabularies. @param {string} prefix  of its weights */
export function baseTrace({ template, tensors, ...sides }, bytes, prefix = '') {
  const weights = new Map();
  const entries = {};
  for (const entry of tensors.filter(({ name }) => name.startsWith(prefix))) {
    const name = entry.name.slice(prefix.length);
    const axes = template.weights[name];
    if (!axes) continue; // of another model
    weights.set(name, named(axes, entry.shape, Float64Array.from(readTensor(bytes, entry))));
    entries[name] = { axes, dtype: 'float32', data: '', origin: 'weight' };
  }
  const [axes, vocabularies] = [{ ...template.axes }, { ...template.vocabularies }];
  for (const [side, vocabulary] of Object.entries(vocabularies)) {
    const { pieces: _, ...tokenizer } = sides[side];
    vocabularies[side] = { ...vocabulary, tokenizer };
    axes[vocabulary.axis] = { ...axes[vocabulary.axis], labels: new Tokenizer(sides[side]).pieces };
  }
  return new Trace({ ...template, axes, vocabularies, tensors: { ...template.tensors, ...entries } }, weights);
}
