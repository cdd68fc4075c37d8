/** One answer: the text, its confidence, and what there is to say about it. */

import { copyButton } from 'glassbox/core/copy.js';
import { bdi, el, sentence } from 'glassbox/core/dom.js';
import { digits, percent } from 'glassbox/core/numbers.js';
import { cellsOf } from 'glassbox/tokenizer/source.js';
import { codePoint } from 'glassbox/tokenizer/text.js';

const MAX_NAMED = 8; // unknown characters that are listed

/** What the vocabulary does not have, in words, or null. @param {string[]} unknown */
export function unknownWords(unknown) {
  const different = [...new Set(unknown)];
  if (!different.length) return null;
  const named = different
    .slice(0, MAX_NAMED)
    .map((piece) => ([...piece].length === 1 ? `“${piece}” (${codePoint(piece)})` : `“${piece}”`));
  const rest = different.length > MAX_NAMED ? ` and ${different.length - MAX_NAMED} more` : '';
  return `Not in the vocabulary: ${named.join(', ')}${rest}. The model reads <unk> instead.`;
}

/** What is special about an answer, in sentences. */
export function remarks({ error, finished, unknown = [], unlike }) {
  if (error) return [sentence(error)];
  const found = [unknownWords(unknown)];
  if (unlike) found.push(`Unlike the training: ${unlike}.`);
  if (!finished) found.push('The answer was cut off at the maximum number of tokens.');
  return found.filter(Boolean);
}

/** The address of the glass box of a source. */
export const addressOf = (source, beams) =>
  `?${new URLSearchParams([...cellsOf(source).map((cell) => ['explain', cell]), ['beams', beams]])}`;

export function glassBoxLink(href, text = null, label = 'Open in the glass box') {
  if (href === null) return null;
  const title = 'every number behind this answer, in a new tab';
  return el(
    'a',
    { href, target: '_blank', rel: 'noopener', title, 'aria-label': text === null ? null : `glass box of ${text}` },
    label,
  );
}

const RIGHT =
  'calibrated on held-out rows: of answers with 90 %, about nine of ten are right, which is to be equal to the target';

const TOO_LARGE =
  'The model is too large for its glass box in a page: “glassformer explain MODEL TEXT --html answer.html” writes it.';

/** The confidence of an answer, in color below a half; nothing where it is not known. */
export const confidenceOf = ({ confidence }) =>
  confidence !== undefined && el(confidence < 0.5 ? 'span.badge.red' : 'span', { title: RIGHT }, percent(confidence));

/** The score of an answer. */
export const scoreOf = ({ score }) =>
  el('span', { title: 'sum of log-probabilities (nats): not whether the answer is right' }, digits(score));

/**
 * @param {string|string[]} text @param answer  of the worker
 * @param {(text: string|string[]) => string|null} linkOf
 */
export function answerCard(text, answer, linkOf) {
  if (!answer.error && !answer.ids.length && !cellsOf(text).join('').trim())
    return [el('p.hint', 'The answer appears here as you type.')];
  const notes = remarks(answer).map((note) => el(answer.error ? 'p.wrong' : 'p.note', note));
  if (answer.error) return notes;
  return [
    el('p.answer-text', answer.text ? bdi(answer.text, 'output') : el('span.missing', 'The answer is empty.')),
    el(
      'p.row.facts-of-answer',
      answer.confidence !== undefined && el('span', 'confidence ', confidenceOf(answer)),
      el('span', 'score ', scoreOf(answer)),
      copyButton('Copy', () => answer.text, { data: { key: 'copy' } }),
      glassBoxLink(linkOf(text)),
    ),
    ...notes,
    linkOf(text) === null ? el('p.hint', TOO_LARGE) : null,
  ].filter(Boolean);
}
