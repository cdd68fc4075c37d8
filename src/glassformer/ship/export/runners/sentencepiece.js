/**
 * The segmentation of SentencePiece (Kudo and Richardson 2018): rules of normalization, white space folded to one "▁",
 * then a unigram model or BPE. Sums of scores are rounded to float32 where the library does.
 */

import { bestPath, longestOf, mergePairs, strip } from './segmenters.js';

const SPACE = '▁';
const LANGUAGE_CODE = /^>>.*?<</s;
const UNKNOWN_PENALTY = 10; // an unknown character is that much less probable than any piece
const USER_DEFINED_PENALTY = 0.1;
const SMALLEST = 2 ** -126; // the smallest float32, from which the library searches for the highest score

const encoder = new TextEncoder();

/** The segmenter of an imported model. The fields are those of SentencePieceModel in glassformer/text/sentencepiece.py. */
export class SentencePiece {
  constructor({ sentencepiece: model }) {
    const { pieces, scores, user_defined: userDefined, unused, rules } = model;
    this.model = model;
    this.space = model.escape_spaces ? SPACE : ' ';
    this.userDefined = new Set(userDefined.map((index) => pieces[index]));
    this.unused = new Set(unused.map((index) => pieces[index]));
    this.scores = new Map(pieces.map((piece, index) => [piece, Math.fround(scores[index])]));
    this.longest = longestOf(pieces);
    const ordinary = [...this.scores].filter(([piece]) => !this.userDefined.has(piece) && !this.unused.has(piece));
    const lowest = ordinary.reduce((least, [, score]) => Math.min(least, score), Infinity);
    this.unknownScore = Math.fround((lowest === Infinity ? 0 : lowest) - UNKNOWN_PENALTY);
    this.highest = ordinary.reduce((largest, [, score]) => Math.max(largest, score), SMALLEST);
    this.longestFrozen = longestOf([...this.userDefined]);
    this.rules = rules ? new Rules(rules) : null;
  }

  /** The pieces of a text. Unknown characters next to each other are one; a part is named as it is normalized. */
  split(text) {
    const code = LANGUAGE_CODE.exec(text)?.[0] ?? '';
    const letters = this.normalize([...text.slice(code.length)]);
    const parts = this.model.algorithm === 'bpe' ? this.bpe(letters) : this.unigram(letters);
    return [...(code ? [code] : []), ...parts].map((piece) => [piece, piece.replaceAll(SPACE, ' ')]);
  }

  join(pieces) {
    return strip(pieces.join('').replaceAll(SPACE, ' '));
  }

  /** Apply the rules and fold white space. */
  normalize(text) {
    const { fold_spaces: folds, dummy_prefix: hasPrefix } = this.model;
    let normal = this.replaced(text).join('');
    if (folds) normal = normal.replace(/^ +/, '').replace(/ {2,}/g, ' ');
    const letters = normal ? [...(hasPrefix ? ` ${normal}` : normal).replaceAll(' ', this.space)] : [];
    while (folds && letters.at(-1) === this.space) letters.pop(); // a "▁" of the text too, as the library does
    return letters;
  }

  /** The normalized form of each part that a rule, or none, is for; a user-defined piece is kept. */
  replaced(text) {
    const parts = [];
    for (let position = 0; position < text.length;) {
      const frozen = this.frozenAt(text, position);
      const [part, length] = frozen
        ? [frozen, [...frozen].length]
        : (this.rules?.match(text, position) ?? [text[position], 1]);
      parts.push(part);
      position += length;
    }
    return parts;
  }

  /** The longest user-defined piece that the text has at `start`, or "". */
  frozenAt(letters, start) {
    for (let { longestFrozen: length } = this; length && this.userDefined.size; length -= 1) {
      const piece = letters.slice(start, start + length).join('');
      if (this.userDefined.has(piece)) return piece;
    }
    return '';
  }

  unigram(letters) {
    const extend = (before, piece) => {
      if (this.unused.has(piece) || !this.scores.has(piece)) return -Infinity;
      if (!this.userDefined.has(piece)) return Math.fround(this.scores.get(piece) + before);
      return encoder.encode(piece).length * this.highest - USER_DEFINED_PENALTY + before;
    };
    const skip = (before) => Math.fround(this.unknownScore + before);
    return bestPath(letters, this.longest, extend, skip, Math.fround);
  }

  /** Merge the pair of the highest score; user-defined pieces are never merged, and unused ones are cut again. */
  bpe(letters) {
    const parts = [];
    for (let position = 0; position < letters.length; position += [...parts.at(-1)].length)
      parts.push(this.frozenAt(letters, position) || letters[position]);
    const merged = new Map();
    const scoreOf = (left, right) => {
      const piece = left + right;
      if (this.userDefined.has(left) || this.userDefined.has(right) || !this.scores.has(piece)) return -Infinity;
      if (this.unused.has(piece)) merged.set(piece, [left, right]);
      return this.scores.get(piece);
    };
    const unmerged = (piece) => (merged.has(piece) ? merged.get(piece).flatMap(unmerged) : [piece]);
    const found = [];
    let afterUnknown = false;
    for (const piece of mergePairs(parts, scoreOf).flatMap(unmerged)) {
      const isUnknown = !this.scores.has(piece);
      if (isUnknown && afterUnknown) found.push(found.pop() + piece);
      else found.push(piece);
      afterUnknown = isUnknown;
    }
    return found;
  }
}

/** Rules of normalization as the library compiles them: a double array over bytes (Darts-clone), and replacements. */
class Rules {
  constructor(encoded) {
    const compiled = Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0));
    const view = new DataView(compiled.buffer);
    const size = view.getUint32(0, true);
    this.units = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(4 + 4 * i, true));
    this.replacements = new Map();
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    for (let start = 4 + size; start < compiled.length;) {
      const end = compiled.indexOf(0, start);
      this.replacements.set(start - 4 - size, decoder.decode(compiled.subarray(start, end)));
      start = end + 1;
    }
    this.bytes = new Map(); // of a character
  }

  /** The replacement of what the text has at `start`, and its length; without a rule one character. */
  match(letters, start) {
    const { units } = this;
    let [found, length, index] = [letters[start], 1, this.firstChild(0)];
    for (let end = start; end < letters.length; end += 1) {
      let hasValue = false;
      for (const byte of this.bytesOf(letters[end])) {
        index ^= byte;
        if (index >= units.length || (units[index] & 0x800000ff) >>> 0 !== byte) return [found, length];
        hasValue = Boolean((units[index] >>> 8) & 1);
        index = this.firstChild(index);
      }
      if (hasValue && index < units.length) {
        found = this.replacements.get(units[index] & 0x7fffffff);
        length = end + 1 - start;
      }
    }
    return [found, length];
  }

  firstChild(index) {
    const unit = this.units[index];
    return index ^ ((unit >>> 10) << ((unit & 512) >>> 6));
  }

  bytesOf(letter) {
    if (!this.bytes.has(letter)) this.bytes.set(letter, encoder.encode(letter));
    return this.bytes.get(letter);
  }
}
