/**
 * Lines in, answers out: the command line of `run.mjs`, with the rules of `glassformer translate`.
 *
 * Line i of the output answers line i of the input. An empty line has an empty answer, and so has one that the model
 * does not take: the others are answered, and the exit code is 4.
 */

import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { encodeSource, readLine, readLines, readSource } from './source.js';
import { TextError, Tokenizer } from './text.js';

const EXIT_LEFT_OUT = 4;
const NOTHING = { ids: [], score: 0, rankScore: 0, finished: true };

/** Read lines from standard input, answer them and write a line for each. Throws errors in words. */
export async function main(description) {
  const { values } = parseArgs({ options: { beam: { type: 'string' }, json: { type: 'boolean' } } });
  const beams = Number(values.beam ?? description.search.num_beams);
  if (!Number.isInteger(beams) || beams < 1) throw new TextError(`--beam must be at least 1, not ${values.beam}`);
  const [source, target] = [new Tokenizer(description.source), new Tokenizer(description.target)];
  const data = readFileSync(0);
  if (!isUtf8(data)) throw new TextError('the input is not UTF-8');
  const lines = data.length ? readLines(data.toString('utf-8').replace(/^\ufeff/, '')) : [];
  const rows = lines.map((line, i) => readRow(source, i + 1, line, description.max_source_tokens, values.json));
  const engine = rows.some(({ ids }) => ids) ? await (await import('./engine.mjs')).Engine.load(description) : null;
  for (const [i, row] of rows.entries()) {
    const answer = row.ids ? await engine.answer(row.ids, target, beams) : NOTHING;
    process.stdout.write(`${written(row, answer, target.decode(answer.ids), values.json)}\n`);
    for (const note of notes(row, answer)) process.stderr.write(`warning: row ${i + 1} ${note}\n`);
  }
  if (rows.some(({ leftOut }) => leftOut)) process.exitCode = EXIT_LEFT_OUT;
}

/** The ids of a line (null: its answer is empty), what is unknown, and why it is left out. */
function readRow(tokenizer, number, line, maxTokens, isJson) {
  try {
    const source = isJson ? readSource(tokenizer.inputs, parsed(line)) : readLine(tokenizer.inputs, line);
    return encodeSource(tokenizer, source, maxTokens) ?? { ids: null, unknown: [] };
  } catch (error) {
    if (!(error instanceof TextError)) throw error;
    if (error.leftOut) return { ids: null, unknown: [], leftOut: error.leftOut };
    throw new TextError(`line ${number}: ${error.message}`);
  }
}

function parsed(line) {
  try {
    return JSON.parse(line);
  } catch {
    return null; // which is not a source
  }
}

function written({ unknown, leftOut }, { ids, score, rankScore, finished }, text, isJson) {
  if (!isJson) return text.replace(/[\r\n]/g, ' ');
  return JSON.stringify({ text, ids, score, rank_score: rankScore, finished, unknown, left_out: leftOut });
}

/** What a user should know about a row: why it was left empty, unknown tokens, an answer without an end. */
function* notes({ unknown, leftOut }, { finished }) {
  if (leftOut) yield `was left empty: ${leftOut}`;
  if (unknown.length) yield `has unknown tokens, read as <unk>: ${unknown.map((part) => JSON.stringify(part)).join(', ')}`;
  if (!finished) yield 'has an answer that was cut off at the maximum number of tokens';
}
