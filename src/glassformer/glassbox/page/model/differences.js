/** How two sequences differ, and of a wrong answer and its target the kind of the difference in words. */

import { range } from 'glassbox/core/dom.js';

/**
 * @typedef {{kind: 'same'|'missing'|'added'|'replaced', target: string, answer: string}} Part
 * @param {string} target
 * @param {string} answer
 * @param {(text: string) => string[]} split  into what is compared: by default characters
 * @returns {Part[]}  the fewest changes that lead from one to the other
 */
export const difference = (target, answer, split = (text) => [...text]) => aligned(split(target), split(answer));

/** The fewest changes from one list to another, a part for each item; of equal items the first ones are the same. @returns {Part[]} */
export const alignment = (one, other) => aligned(one.toReversed(), other.toReversed()).reverse();

/** For each token of both sequences, whether it is changed. @param {{id: number}[]} one @param {{id: number}[]} other */
export function marked(one, other) {
  const parts = alignment(...[one, other].map((tokens) => tokens.map(({ id }) => id)));
  const marks = (absent) => parts.filter(({ kind }) => kind !== absent).map(({ kind }) => kind !== 'same');
  return [marks('added'), marks('missing')];
}

/** The fewest changes that lead from one list to the other, a part for each item. */
function aligned(one, other) {
  const cost = range(one.length + 1).map((i) => range(other.length + 1).map((j) => (i === 0 ? j : j === 0 ? i : 0)));
  for (let i = 1; i <= one.length; i += 1)
    for (let j = 1; j <= other.length; j += 1) {
      const replaced = cost[i - 1][j - 1] + (one[i - 1] === other[j - 1] ? 0 : 1);
      cost[i][j] = Math.min(cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced);
    }
  const parts = [];
  let [i, j] = [one.length, other.length];
  while (i > 0 || j > 0) {
    const isSame = i > 0 && j > 0 && one[i - 1] === other[j - 1];
    if (i > 0 && j > 0 && cost[i][j] === cost[i - 1][j - 1] + (isSame ? 0 : 1))
      parts.unshift({ kind: isSame ? 'same' : 'replaced', target: one[(i -= 1)], answer: other[(j -= 1)] });
    else if (i > 0 && cost[i][j] === cost[i - 1][j] + 1)
      parts.unshift({ kind: 'missing', target: one[(i -= 1)], answer: '' });
    else parts.unshift({ kind: 'added', target: '', answer: other[(j -= 1)] });
  }
  return parts;
}

const CLASSES = [
  [/^\p{N}$/u, 'digit'],
  [/^\p{L}\p{M}*$/u, 'letter'],
  [/^\s$/u, 'space'],
  [/^\p{P}$/u, 'punctuation mark'],
];
const classOf = (character) => CLASSES.find(([pattern]) => pattern.test(character))?.[1] ?? 'character';

/** The kind of a difference, as what happened: "a doubled digit was dropped". @param {Part[]} parts */
export function kindOf(parts) {
  const changed = changedOf(parts);
  if (changed.length === 1) return single(parts, changed[0]);
  if (isSwap(changed)) return `two neighboring ${pluralOf(changed)} were swapped`;
  if (isEndMissing(parts, changed)) return 'the end is missing';
  if (wordsChanged(parts) === 1) return 'one word is wrong';
  return changed.length === 2 ? 'two characters are wrong' : 'more than two characters are wrong';
}

function single(parts, { kind, target, answer, at }) {
  const isNext = (side, character) => [parts[at - 1], parts[at + 1]].some((part) => part?.[side] === character);
  if (kind === 'missing') return `a ${isNext('target', target) ? 'doubled ' : ''}${classOf(target)} was dropped`;
  if (kind === 'added') return `a ${classOf(answer)} was ${isNext('answer', answer) ? 'repeated' : 'added'}`;
  const [from, to] = [classOf(target), classOf(answer)];
  return from === to ? `a ${from} was replaced` : `a ${from} was replaced by a ${to}`;
}

/** The words of a text, each with the space after it. */
export const wordsOf = (text) => (text.match(/\S+/g) ?? []).map((word) => `${word} `);

/** As `kindOf`, of a difference of words. @param {Part[]} parts */
export function kindOfWords(parts) {
  const changed = changedOf(parts);
  const sorted = (side) => parts.map((part) => part[side]).filter(Boolean).sort().join('');
  if (changed.length === 1) return `one word was ${{ missing: 'dropped', added: 'added', replaced: 'replaced' }[changed[0].kind]}`;
  if (isSwap(changed)) return 'two neighboring words were swapped';
  if (isEndMissing(parts, changed)) return 'the end is missing';
  if (sorted('target') === sorted('answer')) return 'the words are in another order';
  if (changed.length === 2) return 'two words are wrong';
  return changed.length * 2 < parts.length ? 'three words or more are wrong' : 'half of the words or more are wrong';
}

const changedOf = (parts) => parts.map((part, at) => ({ ...part, at })).filter(({ kind }) => kind !== 'same');

const isEndMissing = (parts, changed) =>
  changed.every(({ kind, at }, i) => kind === 'missing' && at === parts.length - changed.length + i);

const isSwap = (changed) =>
  changed.length === 2 &&
  changed[1].at === changed[0].at + 1 &&
  changed[0].target === changed[1].answer &&
  changed[1].target === changed[0].answer;

function pluralOf(changed) {
  const classes = new Set(changed.map(({ target }) => classOf(target)));
  return classes.size === 1 ? `${[...classes][0]}s` : 'characters';
}

/** How many words of the target have a difference; a difference in a space counts as two. */
function wordsChanged(parts) {
  const words = new Set();
  let word = 0;
  for (const { kind, target, answer } of parts) {
    if (kind !== 'same' && (/\s/.test(target) || /\s/.test(answer))) return 2;
    if (/\s/.test(target)) word += 1;
    else if (kind !== 'same') words.add(word);
  }
  return words.size;
}
