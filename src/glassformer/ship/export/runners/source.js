/**
 * The source of a model: one text, or several inputs, which are texts and features, whose symbols are tokens.
 *
 *     const source = readSource(tokenizer.inputs, given);    // a text; of several inputs an object with each by name
 *     const ids = encodeSource(tokenizer, source, description.max_source_tokens);   // framed; null for an empty one
 *
 * A source with several inputs is one string: its cells joined by U+001F, texts before features.
 */

import { TextError, inputKey, isBlank, strip } from './text.js';

const SEPARATOR = '\x1f';
const NO_SYMBOL = /^[;| ]+|[;| ]+$/g; // a cell of these alone has no symbol

const isText = ({ kind }) => kind === 'text';

/** The cells of a source, in the order of the inputs. */
export const cellsOf = (inputs, source) => (inputs ? source.split(SEPARATOR) : [source]);

/** The source of cells in the order of the inputs; empty when all texts are. Throws TextError for an empty cell. */
export function compose(inputs, cells) {
  if (!cells.join('')) return '';
  if (cells.length !== inputs.length) throw notGiven(inputs);
  if (isBlank(cells.filter((_, i) => isText(inputs[i])).join(''))) return '';
  inputs.forEach((one, i) => {
    if (cells[i].includes(SEPARATOR)) throw leftOut(`the input “${one.name}” contains U+001F`);
    if (isBlank(isText(one) ? cells[i] : cells[i].replace(NO_SYMBOL, '')))
      throw leftOut(`the ${one.kind} “${one.name}” is empty`);
  });
  return cells.join(SEPARATOR);
}

/** The source that a program gives: a text, or an object with the text of each input by name. */
export function readSource(inputs, given) {
  if (!inputs || typeof given === 'string') {
    if (typeof given !== 'string') throw new TextError('expected a JSON string');
    return given;
  }
  const names = inputs.map(({ name }) => name);
  if (given === null || typeof given !== 'object') throw notGiven(inputs);
  if (Object.values(given).some((cell) => typeof (cell ?? '') !== 'string')) throw notGiven(inputs);
  const other = Object.keys(given).find((name) => !names.includes(name));
  if (other !== undefined) throw new TextError(`no input is called “${other}”`);
  const missing = names.find((name) => (given[name] ?? null) === null);
  if (missing !== undefined) throw leftOut(`the input “${missing}” is missing`);
  return compose(inputs, names.map((name) => given[name]));
}

/** The error of a row that the model does not take: a program leaves its answer empty. */
const leftOut = (why) => new TextError(why, '', why);

const notGiven = (inputs) =>
  new TextError('expected a JSON object with a string for each of', inputs.map(({ name }) => name).join(', '));

/** The source of a line, whose cells are separated by tabs. */
export function readLine(inputs, line) {
  if (!inputs || isBlank(line)) return line;
  const cells = line.split('\t');
  if (cells.length === inputs.length) return compose(inputs, cells);
  const names = inputs.map(({ name }) => name).join(', ');
  throw new TextError(`expected ${inputs.length} cells between tabs (${names}), got ${cells.length}`);
}

/** A source for people: “walk · tags: V;PST”. */
export function readable(inputs, source) {
  const [first, ...others] = cellsOf(inputs, source);
  return [first, ...others.map((cell, i) => `${inputs[i + 1].name}: ${cell}`)].join(' · ');
}

function symbolsOf({ cut }, cell) {
  const normal = cell.normalize('NFC');
  return (cut ? normal.split(cut) : [normal]).map(strip).filter(Boolean);
}

/** Each token of a source: its id (null: not in the vocabulary), its input, and the symbol or text that it is from. */
function tokensOf(tokenizer, source) {
  const { inputs } = tokenizer;
  return cellsOf(inputs, source).flatMap((cell, i) => {
    const one = inputs[i];
    if (!isText(one)) {
      return symbolsOf(one, cell).map((symbol) => {
        const written = `<${one.name}=${symbol}>`;
        return { id: tokenizer.inputIds.get(inputKey(one.name, symbol)) ?? tokenizer.unk, input: one.name, written };
      });
    }
    const start = i ? [{ id: tokenizer.inputIds.get(inputKey(one.name)), input: one.name }] : [];
    return [...start, ...tokenizer.encode(cell).map((id) => ({ id, input: one.name }))];
  });
}

/**
 * The framed ids of a source for the encoder, or null for an empty one, whose answer is empty.
 * Throws TextError for one that is longer than the model takes or that the vocabulary cannot represent.
 */
export function encodeSource(tokenizer, source, maxTokens) {
  const { inputs } = tokenizer;
  if (isBlank(inputs ? compose(inputs, cellsOf(inputs, source)) : source)) return null;
  const ids = inputs ? tokensOf(tokenizer, source).map(knownId) : tokenizer.encode(source);
  if (ids.length > maxTokens) {
    const why = `${ids.length} tokens; the model takes at most ${maxTokens}`;
    throw new TextError('the text is longer than the model takes', `${ids.length} tokens, at most ${maxTokens}`, why);
  }
  return tokenizer.frame(ids);
}

function knownId({ id, written }) {
  if (id === null) throw new TextError(`the symbol ${written} is not in the vocabulary`);
  return id;
}

/** What the vocabulary does not have: characters or words of the texts, and the written forms of symbols. */
export function unknownOf(tokenizer, source) {
  const { inputs } = tokenizer;
  if (!inputs) return tokenizer.unknown(source);
  return cellsOf(inputs, source).flatMap((cell, i) => {
    if (isText(inputs[i])) return tokenizer.unknown(cell);
    const { name } = inputs[i];
    const others = symbolsOf(inputs[i], cell).filter((symbol) => !tokenizer.inputIds.has(inputKey(name, symbol)));
    return others.map((symbol) => `<${name}=${symbol}>`);
  });
}

/** The name of the input of each token of a source, without the frame; null for a model with one input. */
export const inputNames = (tokenizer, source) =>
  tokenizer.inputs ? tokensOf(tokenizer, source).map(({ input }) => input) : null;
