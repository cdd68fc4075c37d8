/** Pieces as text and text as pieces, as far as no library is needed (glassformer/text/segmenters.py). */

const BYTE = /^<0x([0-9A-F]{2})>$/;
const byteOf = (piece) => (BYTE.test(piece) ? parseInt(BYTE.exec(piece)[1], 16) : piece.charCodeAt(0));
const pieceOf = (byte) =>
  byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;

const JOIN = {
  characters: (pieces) => pieces.join(''),
  words: (pieces) => pieces.join(' '),
  bytes: (pieces) => new TextDecoder().decode(Uint8Array.from(pieces, byteOf)),
  subwords: (pieces) => exchange(pieces.join('').replace(/^▁/, '')),
};

const SPLIT = {
  characters: (text) => [...text],
  words: (text) => text.split(/\s+/).filter(Boolean),
  bytes: (text) => [...new TextEncoder().encode(text)].map(pieceOf),
};

/** A "▁" is a space; one that the user wrote is kept as a space, and the other way round. */
const exchange = (text) => text.replace(/[▁ ]/g, (letter) => (letter === '▁' ? ' ' : '▁'));

/** What the pieces of a side with these settings say. */
export function join({ kind, normalization }, pieces) {
  const text = JOIN[kind](pieces);
  return normalization === 'NFD' ? text.normalize('NFC') : text;
}

/** The text as it is cut. */
export function normalise({ normalization, lowercase }, text) {
  const normal = normalization === 'none' ? text : text.normalize(normalization);
  return lowercase ? normal.toLowerCase() : normal;
}

/** The pieces of a text. Subwords need a library: the server has it, the page has not. */
export function split(settings, text) {
  const cut = SPLIT[settings.kind];
  if (!cut) throw new Error('cutting a text into subwords needs glassformer itself: use “glassformer serve”');
  return cut(normalise(settings, text));
}
