/** Screen 3: the head that the answer needs most, and heads that do different things. */

import { image, range, svg } from 'glassbox/dom.js';
import { figure } from 'glassbox/figure.js';
import { heat } from 'glassbox/heat.js';
import { KINDS, kindOf } from 'glassbox/headkinds.js';
import { entropies, grouped, headOf, meanOf, percent, probability, rowOf } from 'glassbox/numbers.js';
import { titleOf } from 'glassbox/labels.js';
import { canCompute, headsOfAnswer, neededMost } from 'glassbox/story/needed.js';
import { label } from 'glassbox/story/parts.js';
import { mostNeeded } from 'glassbox/story/query.js';

const [TILE, MARGIN] = [150, 6];
const ENOUGH = 0.5; // of the weight, as for the kinds of the panel Heads

export const kinds = {
  title: 'Heads that do different things',
  draw(app) {
    const heads = headsOf(app.trace);
    const answer = headsOfAnswer(app);
    const [onTable, most] = [mostNeeded(app.base), answer && neededMost(answer)];
    const important = mostImportant(onTable, most);
    const found = [...important, ...bestOfKinds(heads)].map((one) => ({ ...heads.find(({ name, head }) => name === one.name && head === one.head), ...one }));
    return {
      words: [
        [needed(app, answer, most), table(app.base, onTable)].filter(Boolean).join(' '),
        found.length > important.length
          ? `${important.length ? 'The other pictures are' : 'The pictures are'} the heads that fit a pattern best; the number is the mean weight on those keys ` +
            '(“evenly”: the entropy, in percent of its maximum); a row is a query, a column a key.'
          : 'In this model no head has half of its weight on the previous token, the same position, the first token or a copy.',
      ].filter(Boolean),
      picture: found.length
        ? figure('heads of different kinds', draw(app, found), [
            ['kind', 'attention', 'head', 'weight'],
            ...found.map(({ title, name, head, fit }) => [title, name, head, fit ?? '']),
          ])
        : null,
      proof: { label: 'Heads: all of them, with switches', changes: { panel: 'heads' } },
    };
  },
};

/** The head that this answer needs most, and the one that a table of sources needs most. */
function mostImportant(onTable, most) {
  const [title, here] = ['needed most', { name: most?.name, head: most?.head }];
  if (!onTable) return most ? [{ title, words: 'for this answer', ...here }] : [];
  const there = { name: onTable.attention, head: onTable.head };
  if (most && there.name === here.name && there.head === here.head) return [{ title, words: 'here and on the table', ...here }];
  return [...(most ? [{ title, words: 'for this answer', ...here }] : []), { title, words: 'on the table', ...there }];
}

/** What the answer of this text loses with one head. */
function needed({ trace }, answer, most) {
  const count = `The model has ${trace.attentions().length * trace.axes.head.length} heads.`;
  if (!answer)
    return canCompute(trace)
      ? `${count} Which of them this answer needs is being computed …`
      : `${count} Which of them this answer needs cannot be computed here: ${trace.hasWeights ? 'the model is too large' : 'this page does not include the weights of the model'}.`;
  const [before, after] = [answer.whole, most.score].map((score) => probability(Math.exp(score)));
  const name = `head ${most.head} of ${titleOf(most.name)}`;
  return before === after
    ? `${count} This answer needs none of them alone: without any one head its probability is still ${after}.`
    : `${count} This answer needs ${name}, most: without it the probability of the answer is ${after} instead of ${before}.`;
}

/** The head that a table of sources needs most, where that is measured. */
function table({ heads }, worst) {
  if (!worst) return null;
  return (
    `On ${grouped(heads.items)} sources, exact match falls from ${percent(heads.exact_match)} to ${percent(worst.exact_match)} ` +
    `without head ${worst.head} of ${titleOf(worst.attention)}: no other head is needed as much.`
  );
}

function headsOf(trace) {
  const outputs = trace.tokens.target_out.map((token) => token.text);
  return trace.attentions().flatMap((name) => {
    const all = trace.get(`${name}.weights`);
    const keys = trace.axes[all.axes[2]].labels;
    return range(all.shape[0]).map((head) => {
      const weights = headOf(all, head);
      const { weights: fits } = kindOf(weights, name.endsWith('.cross'), keys, outputs);
      return { name, head, weights, fits: { ...fits, even: evenness(weights) } };
    });
  });
}

const TITLES = { ...Object.fromEntries(Object.entries(KINDS).map(([kind, [title]]) => [kind, title])), even: 'all tokens evenly' };

/** Of each kind the head that fits it best, if it fits. */
function bestOfKinds(heads) {
  return Object.entries(TITLES).flatMap(([kind, title]) => {
    const best = heads.reduce((one, other) => ((other.fits[kind] ?? 0) > (one?.fits[kind] ?? 0) ? other : one), null);
    return best && best.fits[kind] >= ENOUGH
      ? [{ title, name: best.name, head: best.head, fit: best.fits[kind], words: percent(best.fits[kind]) }]
      : [];
  });
}

/** The mean entropy of the rows with more than one visible key, as a fraction of its maximum. */
function evenness(weights) {
  const rows = entropies(weights).flatMap((entropy, row) => {
    const keys = rowOf(weights, row).filter((weight) => weight > 0).length;
    return keys > 1 ? [entropy / Math.log(keys)] : [];
  });
  return rows.length ? meanOf(rows) : 0;
}

function draw(app, found) {
  const [wide, high] = [TILE + 34, TILE + 76];
  const across = Math.max(1, Math.min(found.length, Math.floor((app.width + 20) / wide)));
  const down = Math.ceil(found.length / across);
  const names = found.map(({ title, words, name, head }) => `head ${head} of ${titleOf(name)}, ${title}: ${words}`);
  const tiles = found.map((one, i) => tile(app, one, (i % across) * wide + MARGIN, Math.floor(i / across) * high));
  return image(across * wide + MARGIN, Math.max(1, down * high), names.join('; '), tiles);
}

function tile(app, { title, words, name, head, weights }, x, y) {
  const open = () => app.set({ panel: 'attention', part: name, attention: name, head, view: 'steps' });
  const square = { x: x + 14, y: y + 52, width: TILE, height: TILE };
  const heading = label(x, y + 13, title);
  heading.classList.add('strong');
  const queries = label(x + 9, y + 52, '← queries', 'end');
  queries.setAttribute('transform', `rotate(-90 ${x + 9} ${y + 52})`);
  return svg(
    'g.story-tile',
    { on: { click: open } },
    heading,
    label(x, y + 29, `${titleOf(name).replace('-attention', '').replace('layer ', '')}, head ${head}`),
    label(x, y + 44, words),
    svg('rect.ground', square),
    heat(weights, 1, square),
    label(x + 14, y + TILE + 66, 'keys →'),
    queries,
  );
}
