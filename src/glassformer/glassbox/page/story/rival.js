/** Question 5: the other answer with the highest score, and the step in which the beam left it. */

import { pathOf } from 'glassbox/views/beamtree.js';
import { el } from 'glassbox/core/dom.js';
import { digits, probability } from 'glassbox/core/numbers.js';
import { card } from 'glassbox/story/parts.js';
import { visible } from 'glassbox/model/trace.js';

const [LONGEST, LONGEST_NARROW] = [40, 18]; // characters of a text

export const rival = {
  title: 'Why not the other answer?',
  hasStep: false,
  draw(app) {
    const { beam: search } = app.trace.search;
    const { num_beams: beams, answers } = search;
    const found = rivalOf(search);
    const how =
      beams === 1
        ? 'Here greedy search wrote the answer: the most probable token in each step. A beam search keeps several answers instead, and drops the rest.'
        : `A model can write very many answers. Beam search has ${beams} places: in each step it extends all unfinished answers, keeps the most probable extensions, and drops the rest. A finished answer keeps its place to the end.`;
    const proof = { label: 'Search: the whole tree', changes: { panel: 'search', row: found?.step ?? 0, search: 'beam' } };
    if (!found) return { words: [how, 'There was no other candidate in any step.'], picture: null, proof };
    const nodes = search.nodes.filter(({ step, state }) => step === found.step || (state === 'finished' && step < found.step));
    const [own, other] = [answers[0], found].map(({ score }) => digits(score));
    return {
      words: [
        how,
        beams === 1 ? null : againstGreedy(app.trace.search),
        found.isWhole
          ? `The answer, “${answers[0].text}”, has a score (log-probability) of ${own}. The best other answer is “${found.text}”, with ${other}.`
          : `The answer, “${answers[0].text}”, has a score (log-probability) of ${own}. No other answer was finished; the best one that was dropped begins with “${found.text}”: ${other}.`,
        places(search, found.step),
        found.isWhole ? parting(search, found) : `It was dropped in step ${found.step}: ${found.reason}.`,
      ],
      picture: card(`candidates of step ${found.step}: the log-probability of the text so far`, ...bars(search, nodes, found.step, app.width < 720 ? LONGEST_NARROW : LONGEST)),
      proof,
    };
  },
};

/** Whether greedy search, which keeps one answer, finds the same. */
function againstGreedy({ greedy, beam }) {
  const [one, best] = [greedy, beam].map(({ answers }) => answers[0]);
  const keeps = 'Greedy search is a beam of 1: it keeps only the most probable token of each step';
  return one.text === best.text
    ? `${keeps}. Here it writes the same answer.`
    : `${keeps}. Here it writes “${one.text}”, with a score of ${digits(one.score)}: its first tokens were the most probable ones, all of it is not.`;
}

/** The finished answer of another text with the highest score, or else the candidate that was dropped with it. */
function rivalOf(search) {
  const [best, ...answers] = search.answers;
  const most = (found) => found.reduce((one, other) => (one && one.score >= other.score ? one : other), null);
  const other = most(answers.filter(({ text }) => text !== best.text));
  if (other) {
    const [own, its] = [best, other].map(({ node }) => pathOf(search, search.nodes[node]));
    const step = its.findIndex((node, i) => node.token !== own[i]?.token);
    return { ...other, isWhole: true, step: Math.max(0, step), own: own[step], its: its[step] };
  }
  const dropped = search.nodes.filter(({ state }) => state === 'pruned').map((node) => ({ ...node, score: node.sum, text: textOf(search, node) }));
  return most(dropped);
}

/** Where the places of the beam are in a step. */
function places({ nodes, num_beams: beams }, at) {
  const [before, ended, kept] = [['finished', 0, at], ['finished', at, at + 1], ['kept', at, at + 1]].map(([wanted, from, to]) => nodes.filter(({ state, step }) => state === wanted && step >= from && step < to).length);
  return beams === 1 ? null : `The ${beams} places after step ${at}: ${before} with answers that finished before, ${ended} with answers that finish here, ${kept} with unfinished ones.`;
}

/** Where the two answers part. */
function parting(search, { step, own, its }) {
  if (!own || !its) return `They have the same tokens up to step ${step}, where one of them ends.`;
  const [left, right] = [own, its].map((node) => `“${visible(node.text)}” ${probability(Math.exp(node.log_prob))}`);
  return `They part in step ${step}: there the model gives ${left} and ${right}, and everything after it is multiplied with that.`;
}

const textOf = (search, node) => pathOf(search, node).map(({ text }) => text).join('');
const ends = (text, length) => (text.length > length ? `${text.slice(0, 4)}…${text.slice(5 - length)}` : text);

/** The shorter the bar, the lower the log-probability. */
function bars(search, nodes, at, longest) {
  const least = Math.floor(Math.min(-1, ...nodes.map(({ sum }) => sum / Math.LN10)));
  const bar = (node) => {
    const text = textOf(search, node);
    return el(
      'li',
      { class: node.state, title: `${text}: sum ${digits(node.sum)}, ${node.reason}` },
      el('bdi', ends(visible(text), longest)),
      el('i', { style: { '--fraction': `${(1 - node.sum / Math.LN10 / least) * 100}%` } }),
      el('span', `${digits(node.sum)} ${node.state}${node.step < at ? ` in step ${node.step}` : ''}`),
    );
  };
  return [el('ul.bars.candidates', nodes.map(bar)), el('small', `A full bar is 0, an empty one ${digits(least * Math.LN10)}.`)];
}
