/** How a text is unlike all that the model was trained on (see glassformer/text/seen.py, which has the same words). */

import { bytesOf } from 'glassbox/core/numbers.js';

const PROBES = 4;
const filters = new Map(); // base64 -> bytes

/**
 * @param {{n?: number, bits?: string, longest?: number}} seen  of the model; empty if it does not say
 * @param {number[]} ids  of the framed source @param {{bos: number, eos: number}} frame
 * @param {(at: number) => string} textOf  the written form of the token at a position, and of <unk> what the text has
 * @param {string} kind  of the tokens
 * @returns {string}  in words; "" if it is not unlike
 */
export function unlikeWords(seen, ids, { bos, eos }, textOf, kind) {
  if (!seen?.bits) return '';
  const nTokens = ids.length - (ids[0] === bos) - 1;
  if (nTokens > seen.longest) return `the text has ${nTokens} tokens, the longest of the training ${seen.longest}`;
  if (!filters.has(seen.bits)) filters.set(seen.bits, bytesOf(seen.bits));
  const filter = filters.get(seen.bits);
  const strings = Array.from({ length: Math.max(1, ids.length - seen.n + 1) }, (_, i) => ids.slice(i, i + seen.n));
  const found = strings.find((string) => !has(filter, string));
  if (!found) return '';
  const [begins, ends] = [found[0] === bos, found.at(-1) === eos];
  const verb = begins ? (ends ? 'is' : 'begins with') : ends ? 'ends with' : 'has';
  const [start, end] = [strings.indexOf(found) + begins, strings.indexOf(found) + found.length - ends];
  const isMarked = ['subwords', 'sentencepiece'].includes(kind);
  const isEdge = (at) => (isMarked ? textOf(at).startsWith('▁') : kind !== 'characters' || [at - 1, at].some((i) => /^(\s|<.+>)$/u.test(textOf(i)))); // of a word
  let [first, last] = [start, end];
  while (first > 0 && ids[first - 1] !== bos && !isEdge(first)) first--;
  while (last < ids.length - 1 && !isEdge(last)) last++;
  if (!isMarked && last - first === nTokens) [first, last] = [start, end];
  const texts = ids.slice(first, last).map((_, i) => textOf(first + i));
  return `no text of the training ${verb} “${isMarked ? texts.join('').replaceAll('▁', ' ').trim() : texts.join(kind === 'words' ? ' ' : '')}”`;
}

function has(filter, string) {
  let hash = 0;
  for (const id of string) {
    hash = Math.imul(hash ^ (id + 1), 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  const step = (hash >>> 17) | 1;
  const places = Array.from({ length: PROBES }, (_, probe) => (hash + probe * step) & (8 * filter.length - 1));
  return places.every((place) => (filter[place >> 3] >> (place & 7)) & 1);
}
