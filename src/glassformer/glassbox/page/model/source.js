/** The source of a trace: the tokens of a text, and what edits make of them. */

import { range } from 'glassbox/core/dom.js';
import { encodeSource } from 'glassbox/tokenizer/source.js';

export const idsOf = (tokens) => tokens.map(({ id }) => id);

/** Whether two traces are of the same source tokens. */
export const sameSource = (one, other) => idsOf(one.tokens.source).join() === idsOf(other.tokens.source).join();

export const seenOf = (tokens) => tokens.map((token) => token.kind !== 'pad');

/** The ids that are no text: special tokens, and the tokens of inputs. */
export const specialIds = ({ specials, inputs = [] }) => new Set([...Object.values(specials), ...inputs]);

/** Ids as tokens of a trace, `given` with the part of the text that an `<unk>` is for, and the input. */
export function tokensOf(trace, side, ids, given = []) {
  const { axis, specials, counts, inputs = [] } = trace.vocabularies[side];
  const roles = Object.entries(specials).map(([kind, id]) => [id, kind]);
  const kinds = new Map([...inputs.map((id) => [id, 'input']), ...roles]);
  return ids.map((id, i) => ({
    id,
    text: trace.axes[axis].labels[id],
    kind: kinds.get(id) ?? 'ordinary',
    count: counts[id] ?? null,
    given: given[i]?.unknown ?? null,
    input: given[i]?.input ?? null,
  }));
}

/** Why this page cannot split a text into the tokens of the model, in words; '' if it can. */
export const cannotSplit = (trace) =>
  trace.tokenizer('source').canSplit ? '' : 'this page cannot split text into SentencePiece';

/** The framed tokens of a source. Throws an error in words for one that the model does not take. */
export function encode(base, source) {
  const { data, model } = base.provenance.settings;
  const tokenizer = base.tokenizer('source');
  const positions = model.positions === 'learned' ? model.max_length - tokenizer.frame([]).length : Infinity;
  const found = encodeSource(tokenizer, source, Math.min(data.max_source_length, positions));
  if (!found) throw new Error('there is nothing to translate: the text is empty');
  const before = tokenizer.frame([]).slice(1); // of the frame, which is in no input
  return tokensOf(base, 'source', found.ids, [...before.map(() => null), ...found.tokens]);
}

/** Why the text of a trace cannot be another one, in words; '' if it can. */
export const cannotReplace = (base) =>
  base.inputs ? 'the text of several inputs cannot be another one' : cannotSplit(base);

/** The source tokens after the edits of it. */
export function editedSource(base, edits) {
  const text = edits.findLast(({ kind }) => kind === 'text')?.text;
  const source = text === undefined || cannotReplace(base) ? [...base.tokens.source] : encode(base, text);
  const { axis } = base.vocabularies.source;
  for (const { kind, position, text } of edits) {
    if (kind !== 'token') continue;
    const token = source[position];
    if (!token || ['bos', 'eos', 'pad'].includes(token.kind))
      throw new Error(`there is no source token ${position} that can be edited`);
    const id = base.axes[axis].labels.indexOf(text);
    if (id < 0) throw new Error(`“${text}” is not one token of the source vocabulary`);
    if (id !== token.id) source[position] = { ...tokensOf(base, 'source', [id])[0], input: token.input };
  }
  return source;
}

/** The position of another text for each of one: from the start up to the first difference, and from the end; else undefined. */
export function counterparts(ids, others) {
  const [shorter, shift] = [Math.min(ids.length, others.length), others.length - ids.length];
  const first = range(shorter).find((i) => ids[i] !== others[i]) ?? shorter;
  const last = range(shorter - first).find((i) => ids.at(-1 - i) !== others.at(-1 - i)) ?? shorter - first;
  if (!shift) return range(ids.length);
  return ids.map((_, i) => (i < first ? i : i >= ids.length - last ? i + shift : undefined));
}
