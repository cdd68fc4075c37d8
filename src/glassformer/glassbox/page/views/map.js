/** The architecture as a map, which is also the overview: two stacks, bottom up as in the paper, with what they hold. */

import { button, el, range } from 'glassbox/core/dom.js';
import { SUBLAYERS, layerTitle } from 'glassbox/model/labels.js';
import { at, indexOfLargest, meanOf, percent } from 'glassbox/core/numbers.js';
import { visible } from 'glassbox/model/trace.js';

const PANEL_OF = { self: 'attention', cross: 'attention', feed_forward: 'norm' };
const PACE = 260; // milliseconds of a block in the animation

export function map(app) {
  const here = blockOf(app);
  return [
    el(
      'div.map-head',
      el('h2', 'Architecture'),
      button('▶ flow', flow, { class: 'link', title: 'show the order in which the blocks are computed', data: { key: 'flow' } }),
    ),
    el(
      'div.stacks',
      stack(app, here, 'encoder', ['self', 'feed_forward']),
      stack(app, here, 'decoder', ['self', 'cross', 'feed_forward']),
    ),
    el('p.size.about', here ? null : 'This panel is about the whole model.'),
  ];
}

/** The one block that the panel is about, or null: its key. */
function blockOf({ state: { panel, part, attention }, trace }) {
  const side = part === 'target' ? 'target' : 'source';
  const sublayer = /\.(self|cross|feed_forward)$/.test(part) ? part : attention;
  if (panel === 'tokens') return 'tokens-source';
  if (panel === 'embedding') return `embedding-${side}`;
  if (panel === 'qkv' || panel === 'attention') return `main-${attention}`;
  if (panel === 'norm') return part.endsWith('_norm') ? `norm-${part}` : `${/feed_forward$/.test(sublayer) ? 'main' : 'norm'}-${sublayer}`;
  if (panel === 'logits') return 'logits';
  if (panel === 'search') return 'output';
  if (panel === 'alignment') return `main-${trace.attentions().at(-1)}`;
  return null;
}

function stack(app, here, side, sublayers) {
  const { trace } = app;
  const isEncoder = side === 'encoder';
  const embedding = isEncoder ? 'source' : 'target';
  const count = trace.layers(side);
  const open = openLayer(app, side, count);
  const block = (key, label, to, options) => blockButton(app, here, key, label, to, options);
  const norm = `${side}_norm`;
  const blocks = [
    isEncoder
      ? trace.isPreNorm
        ? block(`norm-${norm}`, 'norm → memory', { panel: 'norm', part: norm })
        : el('span.block', { data: { flow: 'memory' } }, 'memory →')
      : [
          block('output', 'output', { panel: 'search' }, { data: best(trace), kind: 'end' }),
          block('logits', 'logits', { panel: 'logits', part: 'logits' }, { data: next(app) }),
          trace.isPreNorm ? block(`norm-${norm}`, 'norm', { panel: 'norm', part: norm }, { kind: 'thin' }) : null,
        ],
    range(count).map((i) => layer(app, block, `${side}.${i}`, sublayers, i === open)).reverse(),
    block(`position-${embedding}`, '+ position', { panel: 'embedding', part: embedding }, { kind: 'thin' }),
    block(`embedding-${embedding}`, 'embedding', { panel: 'embedding', part: embedding }),
    block(
      `tokens-${embedding}`,
      isEncoder ? 'source' : 'target, shifted',
      { panel: 'tokens', part: embedding },
      { kind: 'end', data: isEncoder ? short(trace, 'source', trace.tokens.source) : fed(app) },
    ),
  ];
  const name = `the ${side}, ${count} ${count === 1 ? 'layer' : 'layers'}`;
  return el('div.stack', { role: 'group', 'aria-label': name }, el('h3', side), blocks);
}

const LETTERS = { source: 10, target: 13 };

/** The tokens of a side as text, cut at the front to what fits in a block. */
function short(trace, side, tokens) {
  const pieces = tokens.filter((token) => !['bos', 'eos', 'pad'].includes(token.kind)).map(({ text }) => text);
  const text = [...visible(trace.tokenizer(side).segmenter.join(pieces))];
  return text.length > LETTERS[side] ? `…${text.slice(1 - LETTERS[side]).join('')}` : text.join('') || tokens.at(-1).text;
}

const best = (trace) => short(trace, 'target', trace.tokens.target_out);
const fed = (app) => short(app.trace, 'target', app.rows.inputs.slice(0, app.row + 1));

/** The most probable token of the selected row. */
function next(app) {
  const [[, text, probability]] = app.trace.predictions[app.name('logits')][app.row].top;
  return `${visible(text).slice(0, 8)} ${percent(probability)}`;
}

function openLayer({ state: { part, attention } }, side, count) {
  const found = [part, attention]
    .map((name) => new RegExp(`^${side}\\.(\\d+)`).exec(name)?.[1])
    .find((digit) => digit !== undefined);
  return found === undefined ? count - 1 : Number(found);
}

function layer(app, block, name, sublayers, isOpen) {
  if (!isOpen) {
    const part = `${name}.self`;
    return button(layerTitle(app.trace, ...name.split('.')), () => app.set({ part, panel: 'attention' }), {
      class: 'block layer-closed',
      data: { key: `map-${name}`, flow: name },
    });
  }
  const blocks = sublayers
    .map((kind) => {
      const part = `${name}.${kind}`;
      const main = block(`main-${part}`, SUBLAYERS[kind], { panel: PANEL_OF[kind], part }, { data: focus(app, part) });
      const to = { panel: 'norm', part };
      const thin = (key, label) => block(`${key}-${part}`, label, to, { kind: 'thin' });
      return app.trace.isPreNorm
        ? [thin('add', 'add'), main, thin('norm', 'norm')]
        : [thin('norm', 'add & norm'), main];
    })
    .reverse();
  const title = layerTitle(app.trace, ...name.split('.'));
  return el('div.layer', { role: 'group', 'aria-label': title }, el('span.layer-name', title), blocks);
}

/** Of an attention, the key with the largest mean weight in the selected row. */
function focus(app, part) {
  const weights = app.trace.get(`${part}.weights`);
  if (!weights || part.startsWith('encoder')) return null;
  const [heads, rows, keys] = weights.shape;
  const row = Math.min(app.row, rows - 1);
  const means = range(keys).map((key) => meanOf(range(heads).map((head) => at(weights, [head, row, key]))));
  const largest = indexOfLargest(means);
  return `→ ${app.trace.label(weights.axes[2], largest).slice(0, 8)} ${percent(means[largest])}`;
}

function blockButton(app, here, key, label, to, { kind = '', data = null } = {}) {
  return button([el('span', label), data ? el('small', el('bdi', data)) : null], () => app.set(to), {
    class: `block ${kind}`,
    'aria-current': here === key ? 'location' : null,
    'aria-label': `${label}${to.part ? ` (${to.part})` : ''}${data ? `: ${data}` : ''}`,
    data: { key: `map-${key}`, flow: key },
  });
}

/** Light the blocks once in the order of the computation; without motion, number them. */
function flow() {
  const blocks = [...document.querySelectorAll('#map .stack')].flatMap((side) =>
    [...side.querySelectorAll('[data-flow]')].reverse(),
  );
  const isStill = matchMedia('(prefers-reduced-motion: reduce)').matches;
  blocks.forEach((block, i) => {
    if (isStill) {
      block.querySelector('.order')?.remove();
      block.append(el('small.order', ` ${i + 1}`));
      return;
    }
    setTimeout(() => block.classList.add('flowing'), i * PACE);
    setTimeout(() => block.classList.remove('flowing'), (i + 2) * PACE);
  });
}
