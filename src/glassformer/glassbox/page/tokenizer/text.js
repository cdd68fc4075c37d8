/**
 * Text to ids and back, exactly as glassformer/text/ does it, for all kinds of token; those of imported models are
 * only joined. It needs no library.
 *
 *     const source = new Tokenizer(description.source);            // description: the object of glassformer.json
 *     const ids = source.frame(source.encode(text));         // encodeSource of source.js also checks the length
 *     const answer = new Tokenizer(description.target).decode(targetIds);
 *
 * Characters are Unicode code points, never UTF-16 units. Text never becomes a special token.
 */

import { bytes, characters, sentencepiece, strip, subwords, words } from 'glassbox/tokenizer/segmenters.js';

/** A text that the model does not take. `details` are facts in words. */
export class TextError extends Error {
  constructor(what, details = '') {
    super(details ? `${what}: ${details}` : what);
    this.name = 'TextError';
  }
}

const SEGMENTERS = { characters, words, bytes, subwords, sentencepiece };

/** The form "U+0041" of a character. */
export const codePoint = (character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;

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
    const further = inputTokens(saved);
    this.inputIds = new Map(further.map(([, key], i) => [key, this.firstInput + i]));
    this.pieces.push(...further.map(([form]) => form));
    const special = (...forms) => forms.map((form) => saved.specials[form]).find((id) => id !== undefined) ?? null;
    this.pad = special('<pad>', '<blank>');
    this.bos = special('<bos>', '<sos>', '<s>', '<start>') ?? this.pad; // a target of MarianMT starts with <pad>
    this.eos = special('<eos>', '</s>', '<end>');
    this.unk = special('<unk>');
    this.isSpecial = new Set([...written.keys(), ...this.inputIds.values()]);
  }

  get canSplit() {
    return Boolean(this.segmenter.split);
  }

  get size() {
    return this.pieces.length;
  }

  /** The pieces of the normalized text, each with the part of it that it is made of; unknown ones are kept unchanged. */
  split(text) {
    if (!this.canSplit) throw new TextError('this program cannot split a text into tokens of the kind', this.kind);
    const surrogate = /\p{Surrogate}/u.exec(text);
    if (surrogate) {
      const code = codePoint(surrogate[0]);
      throw new TextError('the text contains a lone surrogate, which is not a character', code);
    }
    const { normalization, lowercase, trim } = this.settings;
    const kept = trim ? strip(text) : text;
    const normal = normalization === 'none' ? kept : kept.normalize(normalization);
    return this.segmenter.split(lowercase ? normal.toLowerCase() : normal);
  }

  /**
   * The tokens of a text, without <bos> and <eos>: ids and, of <unk>, the part of the text that it is for.
   * Throws TextError where a piece has no id and there is no <unk>.
   *
   * @returns {{id: number, unknown: string|null}[]}
   */
  tokens(text) {
    return this.split(text).map(([piece, part]) => {
      const id = this.ids.get(piece);
      if (id !== undefined) return { id, unknown: null };
      if (this.unk !== null) return { id: this.unk, unknown: part };
      const [character] = part;
      const named = this.kind === 'words' ? `word “${part}”` : `character “${character}” (${codePoint(character)})`;
      throw new TextError(`the ${named} is not in the vocabulary`);
    });
  }

  encode(text) {
    return this.tokens(text).map(({ id }) => id);
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
}
