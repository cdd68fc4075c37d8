/** Screen 6: the beam, and what it gave up. */

import { pathOf } from 'glassbox/beamtree.js';
import { image, svg } from 'glassbox/dom.js';
import { figure } from 'glassbox/figure.js';
import { digits, percent, powerOfTen, probability } from 'glassbox/numbers.js';
import { LETTER, label } from 'glassbox/story/parts.js';
import { visible } from 'glassbox/trace.js';

const [LINE, TOP, LONGEST] = [26, 24, 22];

export const beam = {
  title: 'The beam, and what it gave up',
  choose: ({ trace }) => ({ row: closest(trace.search.beam, trace.tokens.target_out.length) }),
  draw(app) {
    const { beam: search } = app.trace.search;
    const step = Math.min(app.row, search.nodes.at(-1).step);
    const nodes = search.nodes.filter((node) => node.step === step);
    const [kept, pruned] = [nodes.filter((node) => node.state !== 'pruned'), nodes.filter((node) => node.state === 'pruned')];
    const lost = pruned[0];
    const other = search.answers[1];
    return {
      words: [
        lost
          ? `In step ${step} the beam keeps the ${kept.length} most probable texts so far (${width(search, step)}); the first that it gives up is ` +
            `“${textOf(search, lost)}”: ${comparison(search, kept.at(-1), lost)}.`
          : `In step ${step} nothing is given up: all ${nodes.length} candidates have a slot.`,
        other
          ? `The model gives the answer a probability of ${percent(Math.exp(search.answers[0].score))}, and the second, ` +
            `“${visible(other.text)}”, one of ${probability(Math.exp(other.score))}.`
          : `The model gives the answer a probability of ${percent(Math.exp(search.answers[0].score))}, and greedy search finds ` +
            `${app.trace.search.greedy.answers[0].text === search.answers[0].text ? 'the same' : `“${visible(app.trace.search.greedy.answers[0].text)}”`}.`,
      ],
      picture: figure(`candidates of step ${step}`, draw(app, search, nodes), [
        ['rank', 'text so far', 'log-probability', 'sum', 'state', 'reason'],
        ...nodes.map((node) => [node.rank, textOf(search, node), node.log_prob, node.sum, node.state, node.reason]),
      ]),
      proof: { label: 'Search: the whole tree', changes: { panel: 'search', row: step, search: 'beam' } },
    };
  },
};

/** How many texts the beam keeps: finished ones have a slot for good. */
function width({ num_beams: beams, nodes }, step) {
  const finished = nodes.filter((node) => node.step < step && node.state === 'finished').length;
  return `beam width ${beams}${finished ? `, ${finished} finished before` : ''}`;
}

/** The probability of a text as the log scale of the picture has it: powers of ten, and percent from 0.1 % on. */
const onAxis = (sum) => probability(Math.exp(sum), 1e-3);

/** Why a candidate was pruned: its probability next to that of the last one that was kept. */
function comparison(search, last, lost) {
  if (!last) return lost.reason;
  const [one, other] = [last, lost].map(({ sum }) => onAxis(sum));
  const below = percent(1 - Math.exp(lost.sum - last.sum));
  const kept = `“${textOf(search, last)}”, the last that is kept`;
  if (one === other) return `its probability is ${below} below that of ${kept}; both are ${one}`;
  return `its probability, ${other}, is ${below} below the ${one} of ${kept}`;
}

/** The step of the answer in which a candidate was pruned by the smallest difference. */
function closest({ nodes }, steps) {
  const last = (step) => Math.min(...nodes.filter((node) => node.step === step && node.state !== 'pruned').map((node) => node.sum));
  const pruned = nodes.filter((node) => node.state === 'pruned' && node.parent !== null && node.step < steps);
  const gaps = pruned.map((node) => ({ step: node.step, gap: last(node.step) - node.sum }));
  return gaps.reduce((one, other) => (other.gap < one.gap ? other : one), { step: 0, gap: Infinity }).step;
}

const textOf = (search, node) => pathOf(search, node).map(({ text }) => visible(text)).join('');

const tail = (text, length) => (text.length > length ? `…${text.slice(1 - length)}` : text);

/** Bars on a log scale: each step to the left is a tenth of the probability. */
function draw(app, search, nodes) {
  const names = nodes.map((node) => tail(textOf(search, node), app.width < 520 ? 12 : LONGEST));
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
