/**
 * Another text: from the server, or computed by this page from the weights in the file. Characters, words and bytes can
 * be split here; subwords need a library.
 */

import { drawn } from 'glassbox/dom.js';
import { CAN_SPLIT, split } from 'glassbox/text.js';
import { Trace } from 'glassbox/trace.js';
import { specialIds, tokensOf, traceText } from 'glassbox/whatif.js';

/** What a text and a beam width may be. @param {import('./app.js').App} app */
export const limitsOf = ({ first, server }) =>
  server?.model.limits ?? { text: 2000, beams: Math.max(20, first.search.beam.num_beams) };

/** Why this page cannot open another text, in words; '' if it can. @param {import('./app.js').App} app */
export function cannotOpen({ first, server }) {
  if (server) return '';
  const { kind } = first.provenance.settings.tokens.source;
  if (!first.hasWeights) return 'this file does not include the weights of the model';
  if (first.edits.length) return 'this file was written with edits';
  if (first.inputs) return 'the model has several inputs, which this page cannot split into tokens';
  if (!CAN_SPLIT.has(kind)) return `this page cannot split text into ${kind === 'sentencepiece' ? 'SentencePiece' : kind}`;
  return '';
}

/** The framed tokens of a text. Throws an error in words for a text that the model does not take. */
export function encode(base, text) {
  const { tokens, data, model } = base.provenance.settings;
  const { axis, specials } = base.vocabularies.source;
  if (!text.trim()) throw new Error('there is nothing to translate: the text is empty');
  if (!text.isWellFormed()) throw new Error('the text contains a lone surrogate, which is not a character');
  const pieces = split(tokens.source, text);
  const frame = specials.bos === undefined ? 1 : 2;
  const positions = model.positions === 'learned' ? model.max_length - frame : Infinity;
  const limit = Math.min(data.max_source_length, positions);
  if (pieces.length > limit)
    throw new Error(`the text is longer than the model takes: ${pieces.length} tokens, at most ${limit}`);
  const special = specialIds(base.vocabularies.source);
  const ids = new Map(base.axes[axis].labels.map((label, id) => [label, id]).filter(([, id]) => !special.has(id)));
  const unknown = pieces.map((piece) => (ids.has(piece) ? null : piece));
  const missing = unknown.find((piece) => piece !== null);
  if (missing !== undefined && specials.unk === undefined)
    throw new Error(`“${missing}” is not in the vocabulary of the model`);
  const found = pieces.map((piece) => ids.get(piece) ?? specials.unk);
  const start = frame === 2 ? [specials.bos] : [];
  const given = [...start.map(() => null), ...unknown].map((piece) => ({ unknown: piece }));
  return tokensOf(base, 'source', [...start, ...found, specials.eos], given);
}

/**
 * The trace of another text. Throws an error in words if there is none.
 *
 * @param {import('./app.js').App} app
 * @param {{text?: string, inputs?: object, target?: string, beams?: number}} request
 */
export async function traceOf(app, { text, inputs = null, target = null, beams = null }) {
  const width = beams ?? app.base.search.beam.num_beams;
  const { first } = app;
  const most = limitsOf(app).beams;
  if (!Number.isInteger(width) || width < 1 || width > most) throw new Error(`the beam width is a whole number from 1 to ${most}`);
  if (!app.server && text === first.text && width === first.search.beam.num_beams) return first;
  return app.keep(['text', text, inputs, target, width], () => compute(app, { text, inputs, target }, width));
}

async function compute(app, { text, inputs, target }, beams) {
  if (app.server) return new Trace(await app.server.trace(inputs ?? text, target, beams));
  const reason = cannotOpen(app);
  if (text === null) throw new Error(`the model takes one text, not the inputs ${Object.keys(inputs).join(', ').slice(0, 60)}`);
  if (reason) throw new Error(`the text “${text.slice(0, 60)}” cannot be opened: ${reason}`);
  const tokens = encode(app.first, text);
  await drawn(); // with "computing"
  return traceText(app.first, text, tokens, beams);
}
