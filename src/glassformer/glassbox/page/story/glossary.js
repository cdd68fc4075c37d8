/** The terms of the field, each with its meaning one press away. */

import { el, isolated } from 'glassbox/core/dom.js';

/** A term, as a pattern where it has several forms -> its meaning. `nameOf` makes the term of the pattern. “weights” is none: of a model they are its numbers. */
const TERMS = {
  'tokens?': 'A piece of text with a number: here the model reads and writes one token at a time. <bos> and <eos> are the start and the end.',
  encoder: 'The half of the model that reads the source, all of it at once.',
  decoder: 'The half of the model that writes the answer, one token in each step. It sees the source and what it has written so far.',
  'cross-attention': 'Attention from the decoder to the source: where the answer reads the text.',
  'self-attention': 'Attention among the tokens of one side: source to source, or answer to what is written of it.',
  weight: 'The fraction that attention takes of a token: the weights of a step add up to 100 %.',
  attention: 'A weighted mean: a position takes something from every token, most of it from those with the largest weights.',
  'quer(?:y|ies)': 'What a position looks for: numbers that are compared with the keys of all tokens.',
  'keys?': 'What a token offers to those that look: the dot product of query and key is how well the two fit.',
  'values?': 'What a token gives to those that read it, in proportion to their weight on it.',
  embedding: 'The row of numbers that stands for a token. It is learned, and the same wherever the token is.',
  'residual connection': 'What a sublayer makes is added to what it read. So no layer can lose the row, and each only has to learn what to change.',
  norm: 'Brings the numbers of a row to the mean 0 and the deviation 1, then multiplies and shifts each by learned numbers, γ and β.',
  mask: 'Marks what a position may not see: its weight there is 0.',
  'feed-forward': 'A small network of two matrices with an activation between them; the same for each position.',
  'teacher forcing': 'In training the decoder reads the right answer, shifted by one, and not what it would have written itself.',
  softmax: 'Turns any numbers into weights between 0 and 100 % that add up to 100 %; the largest number gets most.',
  'heads?': 'One of several attentions side by side, with its own queries, keys and values: each can look for something else.',
  'layers?': 'One round of work: attention, then a small network for each position. Each layer reads what the one before left.',
  'logit lens': 'The output of the model read off too early: after each layer, what would it say if that layer were the last?',
  'logits?': 'A number for each token of the vocabulary: softmax turns them into the probabilities of the next token.',
  'residual stream': 'The numbers of one position on their way through the layers. A layer does not replace them, it adds to them.',
  'checkpoints?': 'The weights of the model as they were at one time of the training.',
  'greedy search': 'Writes the most probable token in each step, and never goes back.',
  'beam(?: search)?': 'Keeps the few most probable answers so far, which are the beam, extends all of them in each step, and drops the rest.',
  probability: 'How strongly the model expects something, up to 100 %. It does not say that the answer is right.',
  'position encoding': 'Numbers that are added to each token and depend on its place only: without them the model sees no order.',
  '√d_k': 'The square root of the length of a key: divided by it, scores do not grow with the length, and softmax does not become too sharp.',
  W_O: 'A learned matrix. It turns the outputs of all heads, side by side, into one row, which is added to the row of the step.',
  'held-out': 'Rows of the table that the model was not trained on.',
}; // prettier-ignore
const ANY = new RegExp(`(“[^”]*”)|(?<![\\p{L}\\d_])(${Object.keys(TERMS).join('|')})(?![\\p{L}\\d_])`, 'giu');

/**
 * A sentence where each term is a button, the first time that it is used; what is quoted is no term.
 *
 * @param {any} words  a text; of a list the texts
 * @param {Set<string>} used  the terms that have a button already
 */
export function worded(words, used) {
  if (typeof words !== 'string') return Array.isArray(words) ? words.map((part) => worded(part, used)) : words;
  const parts = [];
  let from = 0;
  words = words.replaceAll(/“([^”]*)”/g, (_, quoted) => `“${isolated(quoted)}”`);
  for (const found of words.matchAll(ANY)) {
    const term = found[2] && Object.keys(TERMS).find((pattern) => new RegExp(`^(${pattern})$`, 'i').test(found[2]));
    if (!term || used.has(term)) continue;
    used.add(term);
    const [before] = /[(“]?$/.exec(words.slice(from, found.index));
    const [after] = /^[^\s\p{L}\p{N}“]{0,2}/u.exec(words.slice(found.index + found[2].length)); // no line ends between a term and these
    parts.push(words.slice(from, found.index - before.length), el('span.glued', before, button(found[2], term, `meaning-${used.size}`), after));
    from = found.index + found[2].length + after.length;
  }
  return [...parts, words.slice(from)];
}

const nameOf = (term) => term.replace('(?:y|ies)', 'y').replace('(?: search)?', ' search').replace('s?', '');

/** The word, and its meaning, which is shown below it: above where there is no room. */
function button(word, term, id) {
  const place = ({ newState }) => {
    if (newState !== 'open') return;
    const [at, box] = [pressed, meaning].map((each) => each.getBoundingClientRect());
    const isLow = at.bottom + box.height + 80 > innerHeight;
    meaning.style.setProperty('--x', `${Math.max(12, Math.min(at.left, innerWidth - box.width - 12))}px`);
    meaning.style.setProperty('--y', `${isLow ? at.top - box.height - 6 : at.bottom + 6}px`);
  };
  const pressed = el('button.term', { type: 'button', popovertarget: id, data: { key: id } }, word);
  const meaning = el('span.meaning', { popover: 'auto', id, role: 'note', on: { toggle: place } }, el('strong', nameOf(term)), ': ', TERMS[term]);
  return [pressed, meaning];
}
