/**
 * Lines in, answers out: the command line of `run.mjs`, with the rules and the notes of `glassformer translate`.
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
const NAMED = 10; // lines, or unknown tokens, that a note names
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
  for (const row of rows) {
    row.answer = row.ids ? await engine.answer(row.ids, target, beams) : NOTHING;
    process.stdout.write(`${written(row, target.decode(row.answer.ids), values.json)}\n`);
  }
  for (const note of notes(rows)) process.stderr.write(`warning: ${note}\n`);
  if (rows.some(({ leftOut }) => leftOut)) process.exitCode = EXIT_LEFT_OUT;
}

/** The ids of a line (null: its answer is empty), what is unknown, and why it is left out. */
function readRow(tokenizer, number, line, maxTokens, isJson) {
  try {
    if (line.includes('\0')) throw new TextError('NUL character');
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

function written({ answer, unknown, leftOut }, text, isJson) {
  const { ids, score, rankScore, finished } = answer;
  if (!isJson) return text.replace(/[\r\n]/g, ' ');
  return JSON.stringify({ text, ids, score, rank_score: rankScore, finished, unknown, left_out: leftOut });
}

/** What `glassformer translate` says: unknown tokens, answers without an end, rows that were left empty. */
function* notes(rows) {
  const unknown = new Map();
  for (const token of rows.flatMap((row) => row.unknown)) unknown.set(token, (unknown.get(token) ?? 0) + 1);
  if (unknown.size) {
    const common = [...unknown].sort(([, one], [, other]) => other - one).slice(0, NAMED);
    const total = [...unknown.values()].reduce((sum, count) => sum + count);
    const nLines = counted(rows.filter((row) => row.unknown.length).length, 'line');
    const named = common.map(([token, count]) => `${quoted(token)} (${grouped(count)})`).join(', ');
    yield `${counted(total, 'unknown token')} in ${nLines} ${was(total)} read as <unk>: ${named}`;
  }
  const numbered = rows.map((row, i) => ({ ...row, number: i + 1 }));
  const unfinished = numbered.filter(({ answer }) => !answer.finished).map(({ number }) => number);
  if (unfinished.length) {
    const lines = unfinished.slice(0, NAMED).join(', ') + (unfinished.length > NAMED ? ', …' : '');
    const answers = counted(unfinished.length, 'answer');
    yield `${answers} ${was(unfinished.length)} cut off at the maximum number of tokens, in lines ${lines}`;
  }
  const left = numbered.filter(({ leftOut }) => leftOut).map(({ number, leftOut }) => `row ${number} (${leftOut})`);
  if (left.length) {
    const more = left.length > NAMED ? ` and ${grouped(left.length - NAMED)} more` : '';
    yield `${counted(left.length, 'row')} ${was(left.length)} left empty: ${left.slice(0, NAMED).join(', ')}${more}`;
  }
}

const grouped = (count) => count.toLocaleString('en');

const counted = (count, noun) => `${grouped(count)} ${noun}${count === 1 ? '' : 's'}`;

const was = (count) => (count === 1 ? 'was' : 'were');

const quoted = (token) => `'${token.replace(/(?! )[\p{C}\p{Z}]/gu, escaped)}'`;

const escaped = (character) => `\\u${character.codePointAt(0).toString(16).padStart(4, '0')}`;
