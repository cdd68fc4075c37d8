/**
 * Heads: the attention weights of all heads, what switching each of them off costs, how spread they are, and their
 * kind; a checkbox switches a head off.
 */

import { button, choices, el, range, section } from 'glassbox/core/dom.js';
import { KINDS, headsOf } from 'glassbox/model/headkinds.js';
import { heat } from 'glassbox/views/heat.js';
import { axisName, axisTitle, headTitle, layerTitle, titleOf } from 'glassbox/model/labels.js';
import { digits, entropies, grouped, meanOf, percent } from 'glassbox/core/numbers.js';
import { noEdits } from 'glassbox/panels/selection.js';

const GROUPS = [
  ['encoder, self-attention', /^encoder.*self$/],
  ['decoder, self-attention', /^decoder.*self$/],
  ['cross-attention', /cross$/],
];
const LEVELS = 4; // of the color of damage

export function heads(app) {
  const { heads: measured } = app.trace;
  const outputs = app.rows.targets.map(({ text }) => text);
  const all = headsOf(app.trace, outputs, (name) => app.name(name)).map((one) => ({
    ...one,
    entropy: meanOf(entropies(one.weights)),
    ...damageOf(app, one.name, one.head),
  }));
  const order = !measured && app.state.order === 'damage' ? 'layer' : app.state.order;
  const orders = { layer: 'layer', ...(measured ? { damage: 'damage' } : {}), entropy: 'entropy', kind: 'kind' };
  const worst = Math.max(0, ...all.map(({ damage }) => damage ?? 0));
  const draw = (isNamed) => (head) => tile(app, head, isNamed, worst);
  return [
    el(
      'p.lead',
      'All heads of all layers: which position looks at which, and what each head is worth. Select a picture to open ' +
        'the head. Clear its checkbox to switch it off.',
    ),
    noEdits(app),
    legend(app, worst),
    el(
      'p.row',
      el('span.size', 'sort by'),
      choices('sort', orders, order, (chosen) => app.set({ order: chosen })),
    ),
    order === 'layer' ? groups(app, all, draw(false)) : sorted(all, order, draw(true)),
  ];
}

/** The decrease of exact match, in points, when the head is off. */
function damageOf({ trace }, name, head) {
  const found = trace.heads?.heads.find((effect) => effect.attention === name && effect.head === head);
  return found
    ? { damage: (trace.heads.exact_match - found.exact_match) * 100, newlyWrong: found.newly_wrong }
    : { damage: null };
}

/** What is measured, in words and colors. */
function legend(app, worst) {
  const { heads: measured } = app.trace;
  const kinds = Object.entries(KINDS).map(([kind, [title, words]]) => el('div', { data: { kind } }, el('dt', title), el('dd', words)));
  return el(
    'div.head-legend',
    el(
      'p',
      el('b', 'Damage'),
      measured
        ? `: how many points exact match loses when the head is off; measured on ${grouped(measured.items)} sources ` +
            `(all heads: ${percent(measured.exact_match)}${app.words.length ? '; before the edits' : ''}). `
        : ': how many answers of a table become wrong when the head is off. “glassformer explain MODEL TEXT --heads TABLE --html FILE” measures it for all heads; for this text alone, clear the checkbox of a head.',
      measured ? [el('span.damage-scale', range(LEVELS + 1).map((level) => el(`i.damage-${level}`))), ` 0 to ${worst.toFixed(1)}`] : null,
    ),
    el('p', el('b', 'Entropy'), ' H of a row, −Σ w ln w: 0 if all weight is on one token, ln n if it is spread evenly over n tokens. It is as much as e', el('sup', 'H'), ' tokens with equal weights.'),
    el('p.size', 'Layers and heads count from 1, positions from 0.'),
    el(
      'details',
      el('summary', 'Kinds of heads, for this text'),
      el('dl.kinds', kinds),
      el('p.size', 'A head is of a kind if on average at least half of the weight of its rows is there. In self-attention rows 0 and 1 do not count: previous, same and first position are not three different ones there.'),
    ),
  );
}

const groups = (app, all, draw) =>
  GROUPS.map(([title, pattern]) => {
    const layers = Map.groupBy(all.filter(({ name }) => pattern.test(name)), ({ name }) => name);
    const rows = [...layers].map(([name, heads]) =>
      el('div.head-row', el('span.size', layerTitle(app.trace, ...name.split('.'))), heads.map(draw)),
    );
    return section(title, title, rows);
  });

const rankOf = ({ kind }) => Object.keys(KINDS).indexOf(kind.kind);
const ORDERS = {
  damage: ['largest damage first', (one, other) => other.damage - one.damage],
  entropy: ['smallest entropy first', (one, other) => one.entropy - other.entropy],
  kind: ['by kind, largest weight first', (one, other) => rankOf(one) - rankOf(other) || other.kind.weight - one.kind.weight],
};

function sorted(all, order, draw) {
  const [title, compare] = ORDERS[order];
  return section(title, title, el('div.head-row', all.toSorted(compare).map(draw)));
}

function tile(app, { name, head, weights, entropy, kind, damage, newlyWrong }, isNamed, worst) {
  const off = `head ${name} ${head} off`;
  const isOff = app.words.includes(off);
  const [kindTitle] = KINDS[kind.kind];
  const words = [
    `${headTitle(head)} of ${titleOf(app.trace, name)}`,
    damage === null ? '' : `damage ${digits(damage)} points, ${grouped(newlyWrong)} newly wrong`,
    `mean entropy ${digits(entropy)} nats`,
    kind.kind === 'mixed' ? 'mixed' : `${kindTitle} ${percent(kind.weight)}`,
  ].filter(Boolean);
  const checkbox = el('input', {
    type: 'checkbox',
    checked: !isOff,
    disabled: !app.canEdit,
    data: { key: off },
    on: { change: () => app.toggleEdit(off) },
  });
  const level = damage > 0 && worst > 0 ? Math.ceil((damage / worst) * LEVELS) : 0;
  const [down, across] = weights.axes;
  const open = () => app.set({ panel: 'attention', part: name, head, view: 'steps' });
  return el(
    'div.tile',
    { class: isOff ? 'off' : null, data: { head: `${name} ${head}`, kind: kind.kind, damage: damage ?? '', entropy } },
    el('label', checkbox, ` ${headTitle(head)}`, el('span.visually-hidden', ` of ${titleOf(app.trace, name)} is on`)),
    isNamed ? el('small.of', { 'aria-hidden': 'true' }, titleOf(app.trace, name)) : null,
    el('span.axis-down', { 'aria-hidden': 'true' }, `${axisTitle(down).replace(/ \(.*/, '')} ↓`),
    button(heat(weights, 1, { 'aria-hidden': 'true' }), open, {
      class: 'picture',
      'aria-label': words.join(', '),
      title: words.join('\n'),
      data: { key: `tile-${name}-${head}` },
    }),
    el('span.axis-across', { 'aria-hidden': 'true' }, `${axisName(across)} →`),
    damage === null
      ? null
      : el(
          'span.damage',
          { class: `damage-${level}`, title: `${grouped(newlyWrong)} newly wrong` },
          `${damage > 0 ? '−' : ''}${Math.abs(damage).toFixed(1)} points`,
        ),
    el('span.fact', el('i', 'H '), digits(entropy), el('small', ` ≈ ${Math.exp(entropy).toFixed(1)} tokens`)),
    el('span.fact', kind.kind === 'mixed' ? el('small', 'mixed') : [kindTitle, el('small', ` ${percent(kind.weight)}`)]),
  );
}
