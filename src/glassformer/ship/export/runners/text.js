/**
 * Text to ids and back, exactly as glassformer/text/ does it, for all kinds of token. It needs no library.
 *
 *     const source = new Tokenizer(description.source);            // description: the object of glassformer.json
 *     const ids = source.frame(source.encode(text));         // encodeSource of source.js also checks the length
 *     const answer = new Tokenizer(description.target).decode(targetIds);
 *
 * Characters are Unicode code points, never UTF-16 units. Text never becomes a special token.
 */

import { Cutter } from './sentencepiece.js';

/** A text that the model does not take. `details` are facts in words, `leftOut` says why its row is left empty. */
export class TextError extends Error {
  constructor(what, details = '', leftOut = null) {
    super(details ? `${what}: ${details}` : what);
    Object.assign(this, { name: 'TextError', leftOut });
  }
}

/** White space as Python's str.split() and str.strip() define it; JavaScript's \s has U+FEFF too, but not U+001C. */
const SPACES = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const NOT_BLANK = new RegExp(`[^${SPACES}]`);
const WORD = new RegExp(`[^${SPACES}]+`, 'g');

/** Whether a text is empty or white space only: its answer is empty. */
export const isBlank = (text) => !NOT_BLANK.test(text);

// Segmenters: split(text) -> pieces, join(pieces) -> text

const characters = () => ({ split: (text) => [...text], join: (pieces) => pieces.join('') });

const words = () => ({ split: (text) => text.match(WORD) ?? [], join: (pieces) => pieces.join(' ') });

const BYTES = Array.from({ length: 256 }, (_, byte) =>
  byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
);

function bytes() {
  const byteOf = new Map(BYTES.map((piece, byte) => [piece, byte]));
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true }); // U+FEFF is kept, as Python keeps it
  return {
    split: (text) => Array.from(new TextEncoder().encode(text), (byte) => BYTES[byte]),
    join: (pieces) => decoder.decode(Uint8Array.from(pieces, (piece) => byteOf.get(piece))),
  };
}

const MARK = '▁';
/** A piece is part of a word with the mark before it, or of a run of other characters, such as punctuation. */
const CHUNK = /▁?[\p{L}\p{M}\p{N}]+|▁?[^▁\p{L}\p{M}\p{N}]+|▁/gu;
const LARGEST_CACHE = 50_000;

/** Marks and spaces are exchanged, so that a "▁" in the text of a user is not lost. */
const exchange = (text) => text.replace(/[▁ ]/g, (letter) => (letter === MARK ? ' ' : MARK));

/** Subwords: each chunk of the marked text is split on its own. */
function subwords(splitChunk) {
  const known = new Map();
  const pieces = (chunk) => {
    let found = known.get(chunk);
    if (!found) {
      found = splitChunk([...chunk]);
      if (known.size < LARGEST_CACHE) known.set(chunk, found);
    }
    return found;
  };
  return {
    split: (text) => (text ? (MARK + exchange(text)).match(CHUNK).flatMap(pieces) : []),
    join: (parts) => exchange(parts.join('')).replace(/^ /, ''),
  };
}

/** BPE: the pair of the earliest merge is joined first, from the left. An unknown character joins nothing. */
function bpe({ merges }) {
  const ranks = new Map(); // left -> right -> rank
  merges.forEach(([left, right], rank) => {
    if (!ranks.has(left)) ranks.set(left, new Map());
    ranks.get(left).set(right, rank);
  });
  const rankOf = (left, right) => ranks.get(left)?.get(right) ?? Infinity;
  return subwords((letters) => {
    const parts = letters;
    const next = parts.slice(1).map((right, i) => rankOf(parts[i], right)); // rank of each pair of neighbors
    for (;;) {
      const rank = next.reduce((least, one) => Math.min(least, one), Infinity);
      if (rank === Infinity) return parts;
      const at = next.indexOf(rank);
      parts.splice(at, 2, parts[at] + parts[at + 1]);
      next.splice(at, 1);
      if (at > 0) next[at - 1] = rankOf(parts[at - 1], parts[at]);
      if (at < next.length) next[at] = rankOf(parts[at], parts[at + 1]);
    }
  });
}

const UNKNOWN_PENALTY = 10; // below the lowest score, as in the `tokenizers` library

/** A unigram model: the pieces with the highest sum of scores (Viterbi). A run of unknown characters is one piece. */
function unigram({ pieces, scores }) {
  const scoreOf = new Map(pieces.map((piece, i) => [piece, scores[i]]));
  const longest = pieces.reduce((length, piece) => Math.max(length, [...piece].length), 1);
  const unknownScore = scores.reduce((least, score) => Math.min(least, score), 0) - UNKNOWN_PENALTY;
  return subwords((letters) => {
    const best = new Float64Array(letters.length + 1).fill(-Infinity);
    const from = new Int32Array(letters.length + 1).fill(-1);
    const isUnknown = new Uint8Array(letters.length + 1);
    best[0] = 0;
    const reach = (start, end, score, unknown) => {
      if (from[end] >= 0 && best[start] + score <= best[end]) return;
      best[end] = best[start] + score;
      from[end] = start;
      isUnknown[end] = unknown;
    };
    for (let start = 0; start < letters.length; start += 1) {
      let piece = '';
      for (let end = start + 1; end <= Math.min(start + longest, letters.length); end += 1) {
        piece += letters[end - 1];
        const score = scoreOf.get(piece);
        if (score !== undefined) reach(start, end, score, 0);
        else if (end === start + 1) reach(start, end, unknownScore, 1);
      }
    }
    return walkBack(letters, from, isUnknown);
  });
}

/** The pieces of the best path, in order; neighboring unknown characters are joined. */
function walkBack(letters, from, isUnknown) {
  const found = [];
  let end = letters.length;
  while (end > 0) {
    let start = from[end];
    while (isUnknown[end] && start > 0 && isUnknown[start]) start = from[start];
    found.push(letters.slice(start, end).join(''));
    end = start;
  }
  return found.reverse();
}

const ENDS = new RegExp(`^[${SPACES}]+|[${SPACES}]+$`, 'g');

/** A text without white space at its ends, as Python's str.strip() returns it. */
export const strip = (text) => text.replace(ENDS, '');

/** The pieces of an imported SentencePiece model; `spans` has where each comes from. */
function sentencepiece({ sentencepiece: model }) {
  const cutter = new Cutter(model);
  return {
    split: (text) => cutter.cut(text).map(({ piece }) => piece),
    join: (pieces) => strip(pieces.join('').replaceAll(MARK, ' ')),
    spans: (text) => cutter.cut(text),
  };
}

const SEGMENTERS = {
  characters,
  words,
  bytes,
  subwords: (saved) => (saved.merges ? bpe(saved) : unigram(saved)),
  sentencepiece,
};

// Normalization

/** The text in the Unicode normalization form of the settings, in lower case and trimmed if they say so. */
function normalize(text, settings) {
  const surrogate = /\p{Surrogate}/u.exec(text);
  if (surrogate) {
    const code = codePoint(surrogate[0]);
    throw new TextError('the text contains a lone surrogate, which is not a character', code);
  }
  return normalized(text, settings);
}

function normalized(text, { normalization, lowercase, trim }) {
  const kept = trim ? strip(text) : text;
  const normal = normalization === 'none' ? kept : kept.normalize(normalization);
  return lowercase ? normal.toLowerCase() : normal;
}

/** The form "U+0041" of a character. */
export const codePoint = (character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;

// The tokenizer

/** The key of the token of a symbol, or of the start of a text that is not the first input. */
export const inputKey = (name, symbol = null) => JSON.stringify([name, symbol]);

/** The written form and the key of each token of the inputs, in the order of their ids. */
function inputTokens({ inputs = [], input_tokens: tokens = [] }) {
  if (tokens.length) return tokens.map((form) => [form, form]); // of the target, which shares the vocabulary
  return inputs.flatMap(({ name, kind, symbols }, i) => {
    if (kind === 'feature') return symbols.map((symbol) => [`<${name}=${symbol}>`, inputKey(name, symbol)]);
    return i ? [[`<${name}:>`, inputKey(name)]] : [];
  });
}

/** Text to ids and back. `saved` is what Tokenizer.to_dict() of glassformer returned. */
export class Tokenizer {
  constructor(saved) {
    const segmenter = SEGMENTERS[saved.kind];
    if (!segmenter) throw new TextError('a kind of token that this program does not have', saved.kind);
    this.kind = saved.kind;
    this.settings = saved.settings;
    this.specials = saved.specials; // written form -> id
    this.segmenter = segmenter(saved);
    const written = new Map(Object.entries(saved.specials).map(([form, id]) => [id, form]));
    const ordinary = saved.pieces.values();
    /** The written form of each id. */
    this.pieces = Array.from({ length: saved.pieces.length + written.size }, (_, id) =>
      written.has(id) ? written.get(id) : ordinary.next().value,
    );
    /** Piece -> id of the ordinary pieces. */
    this.ids = new Map();
    this.pieces.forEach((piece, id) => written.has(id) || this.ids.set(piece, id));
    this.inputs = saved.inputs ?? null; // of a source with several; the ids of their tokens follow all others
    this.firstInput = this.pieces.length;
    const further = inputTokens(saved).map(([form, key], i) => ({ form, key, id: this.firstInput + i }));
    this.inputIds = new Map(further.map(({ key, id }) => [key, id]));
    this.pieces.push(...further.map(({ form }) => form));
    const special = (...forms) => forms.map((form) => saved.specials[form]).find((id) => id !== undefined) ?? null;
    this.pad = special('<pad>', '<blank>');
    this.bos = special('<bos>', '<sos>', '<s>', '<start>') ?? this.pad; // a target of MarianMT starts with <pad>
    this.eos = special('<eos>', '</s>', '<end>');
    this.unk = special('<unk>');
    this.isSpecial = new Set([...written.keys(), ...further.map(({ id }) => id)]);
  }

  get size() {
    return this.pieces.length;
  }

  /** The pieces of the normalized text; unknown ones are kept unchanged. @returns {string[]} */
  split(text) {
    return this.segmenter.split(normalize(text, this.settings));
  }

  /** The ids of the text, without <bos> and <eos>. Throws TextError where a piece has no id and there is no <unk>. */
  encode(text) {
    return this.split(text).map((piece) => {
      const id = this.ids.get(piece) ?? this.unk;
      if (id === null) throw this.unknownError(text);
      return id;
    });
  }

  /** The ids with <bos> before and <eos> after them; without <bos> where the settings say so. */
  frame(ids) {
    return [...(this.settings.bos === false ? [] : [this.bos]), ...ids, this.eos];
  }

  /** The text of the ids, without special tokens. With the normalization NFD it is returned in NFC. */
  decode(ids) {
    const pieces = ids.filter((id) => !this.isSpecial.has(id)).map((id) => this.pieces[id]);
    const text = this.segmenter.join(pieces);
    return this.settings.normalization === 'NFD' ? text.normalize('NFC') : text;
  }

  /** The characters (or words) of the normalized text that are not in the vocabulary, in order. @returns {string[]} */
  unknown(text) {
    return this.findUnknown(text).map(({ piece }) => piece);
  }

  /** Each unknown piece, and its start in the normalized text in characters. */
  findUnknown(text) {
    const pieces = this.split(text);
    if (this.segmenter.spans) {
      const letters = [...normalized(text, this.settings)];
      const spans = this.segmenter.spans(letters.join('')).filter(({ piece }) => !this.ids.has(piece));
      return spans.map(({ start, end }) => ({ piece: letters.slice(start, end).join(''), start }));
    }
    const starts = this.kind === 'words' ? wordStarts(normalized(text, this.settings)) : pieceStarts(pieces);
    const isMarked = this.kind === 'subwords'; // the mark at the start is not in the text
    return pieces
      .map((piece, i) => ({ piece, start: isMarked ? Math.max(starts[i] - 1, 0) : starts[i] }))
      .filter(({ piece }) => !this.ids.has(piece))
      .map(({ piece, start }) => ({ piece: isMarked ? exchange(piece) : piece, start }));
  }

  unknownError(text) {
    const [{ piece, start }] = this.findUnknown(text);
    const [character] = piece;
    const named = this.kind === 'words' ? `word “${piece}”` : `character “${character}” (${codePoint(character)})`;
    const column = originalColumn(text, start, this.settings);
    return new TextError(`the ${named} is not in the vocabulary`, `column ${column}`);
  }
}

const lengthOf = (text) => [...text].length;

const wordStarts = (text) => Array.from(text.matchAll(WORD), ({ index }) => lengthOf(text.slice(0, index)));

function pieceStarts(pieces) {
  let start = 0;
  return pieces.map((piece) => (start += lengthOf(piece)) - lengthOf(piece));
}

/** The column, from 1, in the text of the character at `index` of the normalized text. */
function originalColumn(text, index, settings) {
  const letters = [...text];
  const isBefore = (end) => lengthOf(normalized(`${letters.slice(0, end).join('')}.`, settings)) - 1 <= index;
  let end = 0; // a normalized beginning may be longer or shorter than the original
  while (end < letters.length && isBefore(end)) end += 1;
  return end;
}
