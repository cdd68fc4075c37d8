/**
 * How a text is split into pieces, and pieces are joined, as in glassformer/text/. A segmenter has `split(text)`, which
 * returns [piece, the part of the text that it is made of], and `join(pieces)`.
 */

/** White space as Python's str.split() and str.strip() define it; JavaScript's \s has U+FEFF too, but not U+001C. */
const SPACES = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const NOT_BLANK = new RegExp(`[^${SPACES}]`);
const WORD = new RegExp(`[^${SPACES}]+`, 'g');
const ENDS = new RegExp(`^[${SPACES}]+|[${SPACES}]+$`, 'g');

/** Whether a text is empty or white space only: its answer is empty. */
export const isBlank = (text) => !NOT_BLANK.test(text);

/** A text without white space at its ends, as Python's str.strip() returns it. */
export const strip = (text) => text.replace(ENDS, '');

const asThey = (pieces) => pieces.map((piece) => [piece, piece]);

export const characters = () => ({ split: (text) => asThey([...text]), join: (pieces) => pieces.join('') });

export const words = () => ({ split: (text) => asThey(text.match(WORD) ?? []), join: (pieces) => pieces.join(' ') });

const BYTES = Array.from({ length: 256 }, (_, byte) =>
  byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
);

export function bytes() {
  const byteOf = new Map(BYTES.map((piece, byte) => [piece, byte]));
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true }); // U+FEFF is kept, as Python keeps it
  return {
    split: (text) => asThey(Array.from(new TextEncoder().encode(text), (byte) => BYTES[byte])),
    join: (pieces) => decoder.decode(Uint8Array.from(pieces, (piece) => byteOf.get(piece))),
  };
}

const MARK = '▁';
/** A piece is part of a word with the mark before it, or of a run of other characters, such as punctuation. */
const CHUNK = /▁?[\p{L}\p{M}\p{N}]+|▁?[^▁\p{L}\p{M}\p{N}]+|▁/gu;
const LARGEST_CACHE = 50_000;
const UNKNOWN_PENALTY = 10; // below the lowest score, as in the `tokenizers` library

/** Marks and spaces are exchanged, so that a "▁" in the text of a user is not lost. */
const exchange = (text) => text.replace(/[▁ ]/g, (letter) => (letter === MARK ? ' ' : MARK));

/** Subwords: each chunk of the marked text is split on its own. The mark at the start is not in the text. */
export function subwords(saved) {
  const join = (parts) => exchange(parts.join('')).replace(/^ /, '');
  if (!saved.merges && !saved.scores) return { join }; // of a trace without weights
  const splitChunk = saved.merges ? bpe(saved) : unigram(saved);
  const known = new Map();
  const pieces = (chunk) => {
    const found = known.get(chunk) ?? splitChunk([...chunk]);
    if (known.size < LARGEST_CACHE) known.set(chunk, found);
    return found;
  };
  return {
    split: (text) => {
      const found = text ? (MARK + exchange(text)).match(CHUNK).flatMap(pieces) : [];
      return found.map((piece, i) => [piece, exchange(i ? piece : piece.slice(1))]);
    },
    join,
  };
}

/** The pieces of an imported model; to split a text needs its library. */
export const sentencepiece = () => ({ join: (pieces) => pieces.join('').replaceAll(MARK, ' ').trim() });

/** BPE: the pair of the earliest merge is joined first, from the left. An unknown character joins nothing. */
function bpe({ merges }) {
  const ranks = new Map(); // left -> right -> rank
  merges.forEach(([left, right], rank) => {
    if (!ranks.has(left)) ranks.set(left, new Map());
    ranks.get(left).set(right, rank);
  });
  const rankOf = (left, right) => ranks.get(left)?.get(right) ?? Infinity;
  return (parts) => {
    const found = parts.slice(1).map((right, i) => rankOf(parts[i], right)); // of each pair of neighbors
    for (;;) {
      const first = found.reduce((least, rank) => Math.min(least, rank), Infinity);
      if (first === Infinity) return parts;
      const at = found.indexOf(first);
      parts.splice(at, 2, parts[at] + parts[at + 1]);
      found.splice(at, 1);
      if (at > 0) found[at - 1] = rankOf(parts[at - 1], parts[at]);
      if (at < found.length) found[at] = rankOf(parts[at], parts[at + 1]);
    }
  };
}

function unigram({ pieces, scores }) {
  const scoreOf = new Map(pieces.map((piece, i) => [piece, scores[i]]));
  const longest = pieces.reduce((length, piece) => Math.max(length, [...piece].length), 1);
  const unknownScore = scores.reduce((least, score) => Math.min(least, score), 0) - UNKNOWN_PENALTY;
  return (letters) => bestPath(letters, longest, scoreOf, unknownScore);
}

/** The pieces with the highest sum of scores (Viterbi), of equal sums the first. A run of unknown characters is one piece. */
function bestPath(letters, longest, scoreOf, unknownScore) {
  const best = [{ sum: 0, start: 0, isUnknown: false }];
  const reach = (end, sum, start, isUnknown) => {
    if (!best[end] || sum > best[end].sum) best[end] = { sum, start, isUnknown };
  };
  for (let start = 0; start < letters.length; start += 1) {
    const { sum: before } = best[start];
    let piece = '';
    for (let end = start + 1; end <= Math.min(start + longest, letters.length); end += 1) {
      piece += letters[end - 1];
      if (scoreOf.has(piece)) reach(end, before + scoreOf.get(piece), start, false);
      else if (end === start + 1) reach(end, before + unknownScore, start, true);
    }
  }
  const found = [];
  for (let end = letters.length, next = null; end > 0; next = best[end], end = next.start) {
    const piece = letters.slice(best[end].start, end).join('');
    if (best[end].isUnknown && next?.isUnknown) found[0] = piece + found[0];
    else found.unshift(piece);
  }
  return found;
}
