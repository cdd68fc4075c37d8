/** Question 5: the other answer with the largest probability, and the step in which the beam left it. */

import { pathOf } from 'glassbox/views/beamtree.js';
import { image, svg } from 'glassbox/core/dom.js';
import { figure } from 'glassbox/views/figure.js';
import { digits, powerOfTen, probability } from 'glassbox/core/numbers.js';
import { LETTER, label } from 'glassbox/story/parts.js';
import { visible } from 'glassbox/model/trace.js';

const [LINE, TOP, LONGEST] = [26, 24, 22];

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
        : `A model can write very many answers. Beam search keeps the ${beams} most probable ones so far, in each step extends all of them, and drops the rest. A finished answer keeps its place.`;
    const proof = { label: 'Search: the whole tree', changes: { panel: 'search', row: found?.step ?? 0, search: 'beam' } };
    if (!found) return { words: [how, 'There was no other candidate in any step.'], picture: null, proof };
    const nodes = search.nodes.filter(({ step }) => step === found.step);
    const [own, other] = [answers[0], found].map(({ score }) => onAxis(score));
    return {
      words: [
        how,
        beams === 1 ? null : againstGreedy(app.trace.search),
        found.isWhole
          ? `The answer, “${answers[0].text}”, has a probability of ${own}. The most probable other answer is “${found.text}”, with ${other}.`
          : `The answer, “${answers[0].text}”, has a probability of ${own}. No other answer was finished; the most probable one that was dropped begins with “${found.text}”: ${other}.`,
        found.isWhole ? parting(search, found) : `It was dropped in step ${found.step}: ${found.reason}.`,
      ],
      picture: figure(`candidates of step ${found.step}`, draw(app, search, nodes)),
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
    : `${keeps}. Here it writes “${one.text}”, with a probability of ${onAxis(one.score)}: its first tokens were the most probable ones, all of it is not.`;
}

/** The finished answer of another text with the largest probability, or else the candidate that was dropped with it. */
export function rivalOf(search) {
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

/** Where the two answers part. */
function parting(search, { step, own, its }) {
  if (!own || !its) return `They have the same tokens up to step ${step}, where one of them ends.`;
  const [left, right] = [own, its].map((node) => `“${visible(node.text)}” ${probability(Math.exp(node.log_prob))}`);
  return `They part in step ${step}: there the model gives ${left} and ${right}, and everything after it is multiplied with that.`;
}

/** The probability of a text as the log scale of the picture has it: powers of ten, and percent from 0.1 % on. */
const onAxis = (sum) => probability(Math.exp(sum), 1e-3);

const textOf = (search, node) => pathOf(search, node).map(({ text }) => text).join('');

const ends = (text, length) => (text.length > length ? `${text.slice(0, 4)}…${text.slice(5 - length)}` : text);

/** Bars on a log scale: each step to the left is a tenth of the probability. */
function draw(app, search, nodes) {
  const names = nodes.map((node) => ends(visible(textOf(search, node)), app.width < 520 ? 12 : LONGEST));
  const LEFT = 16 + LETTER * Math.max(6, ...names.map((name) => name.length));
  const BAR = Math.max(70, Math.min(330, app.width - LEFT - 140));
  const least = Math.floor(Math.min(-1, ...nodes.map((node) => node.sum / Math.LN10)));
  const x = (sum) => LEFT + (1 - sum / Math.LN10 / least) * BAR;
  const height = TOP + nodes.length * LINE + 24;
  const ticks = Array.from({ length: Math.min(-least, 12) + 1 }, (_, i) => Math.round((least * i) / Math.min(-least, 12)));
  return image(
    LEFT + BAR + 120,
    height,
    nodes.map((node) => `${textOf(search, node)}: ${onAxis(node.sum)}, ${node.state}`).join('; '),
    label(app.width < 520 ? 0 : LEFT, 12, 'probability of the text so far, log scale'),
    [...new Set(ticks)].map((power, i, { length }) => {
      const at = x(power * Math.LN10);
      const isNamed = (length - 1 - i) % Math.ceil((length * 44) / BAR) === 0;
      return [
        svg('line.axis', { x1: at, x2: at, y1: TOP - 4, y2: height - 20 }),
        isNamed ? label(at, height - 6, power ? powerOfTen(power) : '1', 'middle') : null,
      ];
    }),
    nodes.map((node, i) => {
      const y = TOP + i * LINE;
      const text = textOf(search, node);
      return svg(
        'g.story-bar',
        { class: node.state },
        svg('title', `${text}: sum ${digits(node.sum)}, ${node.reason}`),
        svg('text', { x: LEFT - 10, y: y + 16, 'text-anchor': 'end' }, names[i]),
        svg('rect', { class: node.state === 'pruned' ? 'pruned' : 'plus', x: LEFT, y: y + 4, width: Math.max(1, x(node.sum) - LEFT), height: LINE - 10 }),
        label(x(node.sum) + 6, y + 16, `${onAxis(node.sum)} ${node.state}`),
      );
    }),
  );
}
