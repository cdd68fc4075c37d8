/** Pieces to text and text to pieces, where no library is needed (see glassformer/text/segmenters.py). */

const BYTE = /^<0x([0-9A-F]{2})>$/;
const byteOf = (piece) => (BYTE.test(piece) ? parseInt(BYTE.exec(piece)[1], 16) : piece.charCodeAt(0));
const pieceOf = (byte) =>
  byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;

/** White space as Python's str.split() and str.strip() define it. */
const SPACES = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const WORD = new RegExp(`[^${SPACES}]+`, 'g');
const ENDS = new RegExp(`^[${SPACES}]+|[${SPACES}]+$`, 'g');

const JOIN = {
  characters: (pieces) => pieces.join(''),
  words: (pieces) => pieces.join(' '),
  bytes: (pieces) => new TextDecoder().decode(Uint8Array.from(pieces, byteOf)),
  sentencepiece: (pieces) => pieces.join('').replaceAll('▁', ' ').trim(),
  subwords: (pieces) => exchange(pieces.join('').replace(/^▁/, '')),
};

const SPLIT = {
  characters: (text) => [...text],
  words: (text) => text.match(WORD) ?? [],
  bytes: (text) => [...new TextEncoder().encode(text)].map(pieceOf),
};

/** The kinds of token that the page can split a text into. */
export const CAN_SPLIT = new Set(Object.keys(SPLIT));

/** "▁" marks a space, so a "▁" in the text is stored as a space: the two are exchanged. */
const exchange = (text) => text.replace(/[▁ ]/g, (letter) => (letter === '▁' ? ' ' : '▁'));

/** The text of pieces, with the settings of their side. */
export function join({ kind, normalization }, pieces) {
  const text = JOIN[kind](pieces);
  return normalization === 'NFD' ? text.normalize('NFC') : text;
}

/** The text after normalization. */
export function normalize({ normalization, lowercase, trim }, text) {
  const kept = trim ? text.replace(ENDS, '') : text;
  const normal = normalization === 'none' ? kept : kept.normalize(normalization);
  return lowercase ? normal.toLowerCase() : normal;
}

/** The pieces of a text. Subwords need a library that the page does not have. */
export function split(settings, text) {
  const splitter = SPLIT[settings.kind];
  if (!splitter) throw new Error('the page cannot split text into subwords: use “glassformer explain --edit”');
  return splitter(normalize(settings, text));
}
