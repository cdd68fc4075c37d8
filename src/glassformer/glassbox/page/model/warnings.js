/** What a reader must know of an answer: unknown tokens, a text unlike the training, an output that was cut off. */

import { unlikeWords } from 'glassbox/model/seen.js';

/** What must be known of an answer, in words: unknown tokens, a source unlike the training, an output that was cut off; and `trace.warning`. */
export function warningsOf(trace) {
  const unknown = trace.tokens.source.filter(({ kind }) => kind === 'unk');
  const unlike = unlikeOf(trace);
  const { answers, max_new_tokens: limit } = trace.search.beam;
  return {
    source: [
      unknown.length ? `${unknown.length} unknown ${unknown.length === 1 ? 'token' : 'tokens'}, read as ${unknown[0].text}` : null,
      unlike ? `unlike the training: ${unlike}` : null,
    ].filter(Boolean),
    output: [answers[0].finished ? null : `cut off at ${limit} tokens`, trace.warning].filter(Boolean),
  };
}

/** How the source is unlike all that the model was trained on, in words; '' if it is not. */
export function unlikeOf({ vocabularies, tokens, provenance }) {
  const { seen, specials } = vocabularies.source;
  const source = tokens.source.filter(({ kind }) => kind !== 'pad');
  const ids = source.map(({ id }) => id);
  const textOf = (at) => source[at].given ?? source[at].text;
  return unlikeWords(seen, ids, specials, textOf, provenance.settings.tokens.source.kind);
}
