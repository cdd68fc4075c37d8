/**
 * The edits and their syntax, which is that of `explain --edit` (docs/trace-schema.md, "Edits").
 *
 * @typedef {import('./numbers.js').Named} Named
 * @typedef {{kind: string} & Object<string, any>} Edit
 */

import { named } from 'glassbox/core/numbers.js';

const NUMBER = '-?(?:\\d+(?:\\.\\d*)?|\\.\\d+)(?:e-?\\d+)?';
const FORMS = [
  [/^text (.+)$/s, (text) => ({ kind: 'text', text })],
  [/^token (\d+) ?=(.+)$/s, (position, text) => ({ kind: 'token', position: Number(position), text })],
  [/^prefix (.+)$/s, (text) => ({ kind: 'prefix', text })],
  [/^head (\S+) (\d+) off$/, (attention, head) => ({ kind: 'head', attention, head: Number(head) })],
  [/^attention (\S+) off$/, (sublayer) => ({ kind: 'sublayer', sublayer })],
  [/^feed-forward (\S+) off$/, (layer) => ({ kind: 'sublayer', sublayer: `${layer}.feed_forward` })],
  [/^layer (\S+) off$/, (layer) => ({ kind: 'layer', layer })],
  [/^(positions|causal|scale) off$/, (what) => ({ kind: what })],
  [/^patch (\S+) row (\d+)$/, (part, row) => patch(part, null, row)],
  [/^patch (\S+) head (\d+) row (\d+)$/, patch],
  [
    new RegExp(`^attention (\\S+) head (\\d+) row (\\d+) ?= ?(${NUMBER}(?:, ?${NUMBER})*)$`),
    (attention, head, row, numbers) => ({
      kind: 'row',
      attention,
      head: Number(head),
      row: Number(row),
      weights: numbers.split(',').map(Number),
    }),
  ],
];

/** What another text has at one position: the output of a head, or without one that of a layer. @returns {Edit} */
export function patch(part, head, row) {
  const found = { kind: 'patch', row: Number(row) };
  if (head === null) return { ...found, words: `patch ${part} row ${row}`, layer: part, tensor: `${part}.feed_forward.residual` };
  const words = `patch ${part} head ${head} row ${row}`;
  return { ...found, words, attention: part, head: Number(head), tensor: `${part}.heads` };
}

/** @returns {Edit} */
export function parseEdit(words) {
  for (const [form, make] of FORMS) {
    const found = form.exec(words.trimStart());
    if (found) return make(...found.slice(1));
  }
  throw new Error(`cannot read the edit “${words}”`);
}

/** The edits of a trace that its weights do not have already: `editWeights` does the others. @returns {Edit[]} */
export const editsBesideWeights = (trace) =>
  trace.edits.map(parseEdit).filter(({ kind }) => !['head', 'sublayer', 'layer'].includes(kind));

/** The weights, with zeros in the parts that are switched off. @param {Map<string, Named>} weights */
export function editWeights(weights, edits, valueWidth) {
  const edited = new Map(weights);
  for (const edit of edits) {
    if (edit.kind === 'head') {
      const name = `${edit.attention}_attention.w_o.weight`;
      edited.set(name, withoutColumns(edited.get(name), edit.head * valueWidth, valueWidth));
    } else if (edit.kind === 'sublayer' || edit.kind === 'layer') {
      const part = `${edit.sublayer ?? edit.layer}.`;
      for (const [name, weight] of weights) {
        const isLast = /\.(w_o|w_2)\.(weight|bias)$/.test(name);
        if (isLast && name.replace('_attention', '').startsWith(part))
          edited.set(name, named(weight.axes, weight.shape));
      }
    }
  }
  return edited;
}

function withoutColumns(weight, from, count) {
  const copy = named(weight.axes, weight.shape, weight.numbers.slice());
  const width = weight.shape[1];
  for (let row = 0; row < weight.shape[0]; row += 1)
    copy.numbers.fill(0, row * width + from, row * width + from + count);
  return copy;
}

/**
 * The tensor called `name` after the edits; `value` itself where no edit concerns it.
 *
 * @param {{tensors: Map<string, Named>, positions: number[]}|null} other  the run of another text, which has the patches
 * @returns {Named}
 */
export function editTensor(name, value, edits, other = null) {
  const plain = name.replace(/^gold\./, '');
  return edits.reduce((current, edit) => {
    if (edit.kind === 'patch' && plain === edit.tensor) return withPatch(current, edit, other);
    if (edit.kind === 'positions' && /^(source|target)\.positions$/.test(plain)) return named(value.axes, value.shape);
    if (edit.kind === 'causal' && plain === 'decoder.self_mask') return named(value.axes, value.shape);
    if (edit.kind === 'scale' && /\.(self|cross)\.scale$/.test(plain)) return named([], [], Float64Array.of(1));
    const isRow = edit.kind === 'row' && plain === `${edit.attention}.weights` && edit.row < value.shape[1];
    return isRow ? withRow(current, edit) : current;
  }, value);
}

/** A row after the end stays as it is. */
function withPatch(x, { tensor, head = 0, row }, { tensors, positions }) {
  const [from, to] = [tensors.get(tensor), tensor.startsWith('encoder') ? positions[row] : row];
  const [rows, width] = x.shape.slice(-2);
  if (row >= rows) return x;
  if (to === undefined) throw new Error(`source position ${row} has no counterpart in the other text`);
  const patched = named(x.axes, x.shape, x.numbers.slice());
  const start = (head * from.shape.at(-2) + to) * width;
  patched.numbers.set(from.numbers.subarray(start, start + width), (head * rows + row) * width);
  return patched;
}

/** In the decoder's self-attention a row has only the weights of the positions up to its own. */
function withRow(weights, { attention, head, row, weights: given }) {
  const [, rows, keys] = weights.shape;
  const length = /^decoder.*self$/.test(attention) ? row + 1 : keys;
  if (given.length !== length) throw new Error(`row ${row} of ${attention} has ${length} weights, not ${given.length}`);
  const copy = named(weights.axes, weights.shape, weights.numbers.slice());
  const from = (head * rows + row) * keys;
  copy.numbers.fill(0, from, from + keys).set(given, from);
  return copy;
}
