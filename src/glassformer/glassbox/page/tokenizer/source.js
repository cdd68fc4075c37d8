/**
 * The source of a model: one text, or several inputs, which are texts and features, whose symbols are tokens.
 *
 *     const source = readSource(tokenizer.inputs, given);    // a text; of several inputs its cells, or an object
 *     const { ids } = encodeSource(tokenizer, source, description.max_source_tokens) ?? {};   // null for an empty one
 *
 * A source with several inputs is an array of its cells, texts before features.
 */

import { isBlank, strip } from 'glassbox/tokenizer/segmenters.js';
import { TextError, inputKey } from 'glassbox/tokenizer/text.js';

const NO_SYMBOL = /^[;| ]+|[;| ]+$/g; // a cell of these alone has no symbol

const isText = ({ kind }) => kind === 'text';

/** The cells of a source, in the order of the inputs. */
export const cellsOf = (source) => [source].flat();

/** Cells in the order of the inputs, or '' when all texts are empty. Throws TextError for another empty cell. */
function compose(inputs, cells) {
  if (!cells.join('')) return '';
  if (cells.length !== inputs.length) throw notGiven(inputs);
  if (isBlank(cells.filter((_, i) => isText(inputs[i])).join(''))) return '';
  inputs.forEach((one, i) => {
    if (isBlank(isText(one) ? cells[i] : cells[i].replace(NO_SYMBOL, '')))
      throw new TextError(`the ${one.kind} “${one.name}” is empty`);
  });
  return cells;
}

/** The source that is given: a text, or the cells of several inputs, or an object with each by name. */
export function readSource(inputs, given) {
  if (!inputs && typeof given !== 'string') throw new TextError('expected a JSON string');
  const cells = cellsOf(given);
  if (!inputs || (cells.length && cells.every((cell) => typeof cell === 'string'))) return given;
  const names = inputs.map(({ name }) => name);
  if (given === null || typeof given !== 'object' || Array.isArray(given)) throw notGiven(inputs);
  if (Object.values(given).some((cell) => typeof (cell ?? '') !== 'string')) throw notGiven(inputs);
  const other = Object.keys(given).find((name) => !names.includes(name));
  if (other !== undefined) throw new TextError(`no input is called “${other}”`);
  const missing = names.find((name) => (given[name] ?? null) === null);
  if (missing !== undefined) throw new TextError(`the input “${missing}” is missing`);
  return compose(inputs, names.map((name) => given[name]));
}

const notGiven = (inputs) =>
  new TextError('expected a JSON object with a string for each of', inputs.map(({ name }) => name).join(', '));

/** The lines of a text: split at \n only; a \r before it and an empty last line are dropped. @returns {string[]} */
export function readLines(text) {
  const lines = text.split('\n').map((line) => line.replace(/\r$/, ''));
  if (lines.length > 1 && lines.at(-1) === '') lines.pop();
  return lines;
}

/** A source for people: “walk · tags: V;PST”. */
export function readable(inputs, source) {
  const [first, ...others] = cellsOf(source);
  return [first, ...others.map((cell, i) => `${inputs?.[i + 1]?.name ?? i + 1}: ${cell}`)].join(' · ');
}

function symbolsOf({ cut }, cell) {
  const normal = cell.normalize('NFC');
  return (cut ? normal.split(cut) : [normal]).map(strip).filter(Boolean);
}

/** The tokens of a source: id, the part of the text that an <unk> is for, and the name of the input (of several). */
function tokensOf(tokenizer, source) {
  const { inputs } = tokenizer;
  if (!inputs) return tokenizer.tokens(source).map((token) => ({ ...token, input: null }));
  return cellsOf(source).flatMap((cell, i) => {
    const { name: input } = inputs[i];
    if (isText(inputs[i])) {
      const start = i ? [{ id: tokenizer.inputIds.get(inputKey(input)), unknown: null, input }] : [];
      return [...start, ...tokenizer.tokens(cell).map((token) => ({ ...token, input }))];
    }
    return symbolsOf(inputs[i], cell).map((symbol) => {
      const id = tokenizer.inputIds.get(inputKey(input, symbol));
      if (id !== undefined) return { id, unknown: null, input };
      const written = `<${input}=${symbol}>`;
      if (tokenizer.unk === null) throw new TextError(`the symbol ${written} is not in the vocabulary`);
      return { id: tokenizer.unk, unknown: written, input };
    });
  });
}

/**
 * The framed ids of a source for the encoder, its tokens without the frame, and what is not in the vocabulary; null for
 * an empty source, whose answer is empty.
 * Throws TextError for one that is longer than the model takes or that the vocabulary cannot represent.
 */
export function encodeSource(tokenizer, source, maxTokens) {
  const { inputs } = tokenizer;
  if (inputs ? !compose(inputs, cellsOf(source)) : isBlank(source)) return null;
  const tokens = tokensOf(tokenizer, source);
  const { length } = tokens;
  if (length > maxTokens)
    throw new TextError('the text is longer than the model takes', `${length} tokens, at most ${maxTokens}`);
  const unknown = tokens.map((token) => token.unknown).filter((part) => part !== null);
  return { ids: tokenizer.frame(tokens.map(({ id }) => id)), tokens, unknown };
}
