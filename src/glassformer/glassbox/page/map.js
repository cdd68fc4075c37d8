/** The architecture as a map: two stacks, bottom up as in the paper; the selected layer is open. */

import { button, el } from 'glassbox/dom.js';

const NAMES = { self: 'self-attention', cross: 'cross-attention', feed_forward: 'feed-forward' };
const PANEL_OF = { self: 'attention', cross: 'attention', feed_forward: 'norm' };

export function map(app) {
  return [
    el('h2', 'Architecture'),
    el(
      'div.stacks',
      stack(app, 'encoder', ['self', 'feed_forward']),
      stack(app, 'decoder', ['self', 'cross', 'feed_forward']),
    ),
  ];
}

function stack(app, side, sublayers) {
  const { trace } = app;
  const isEncoder = side === 'encoder';
  const embedding = isEncoder ? 'source' : 'target';
  const count = trace.layers(side);
  const open = openLayer(app, side, count);
  const blocks = [
    isEncoder
      ? block(app, 'memory →', 'encoder_norm', trace.isPreNorm ? 'norm' : null)
      : block(app, 'output', 'logits', 'logits'),
    trace.isPreNorm ? block(app, 'norm', `${side}_norm`, 'norm', 'thin') : null,
    Array.from({ length: count }, (_, i) => layer(app, `${side}.${i}`, sublayers, i === open)).reverse(),
    block(app, '+ position', embedding, 'embedding', 'thin'),
    block(app, 'embedding', embedding, 'embedding'),
    block(app, isEncoder ? 'source' : 'target, shifted', embedding, 'tokens', 'end'),
  ];
  return el(
    'div.stack',
    { role: 'group', 'aria-label': `the ${side}, ${count} ${count === 1 ? 'layer' : 'layers'}` },
    el('h3', side),
    blocks,
  );
}

function openLayer({ state: { part, attention } }, side, count) {
  const found = [part, attention]
    .map((name) => new RegExp(`^${side}\\.(\\d+)`).exec(name)?.[1])
    .find((digit) => digit !== undefined);
  return found === undefined ? count - 1 : Number(found);
}

function layer(app, name, sublayers, isOpen) {
  const number = name.split('.')[1];
  if (!isOpen) {
    const part = `${name}.self`;
    return button(`layer ${number}`, () => app.set({ part, panel: 'attention' }), {
      class: 'block layer-closed',
      data: { key: `map-${name}` },
    });
  }
  const blocks = sublayers
    .map((kind) => {
      const part = `${name}.${kind}`;
      const main = block(app, NAMES[kind], part, PANEL_OF[kind]);
      const norm = block(app, app.trace.isPreNorm ? 'norm' : 'add & norm', part, 'norm', 'thin');
      const add = app.trace.isPreNorm ? block(app, 'add', part, 'norm', 'thin') : null;
      return app.trace.isPreNorm ? [add, main, norm] : [norm, main];
    })
    .reverse();
  return el(
    'div.layer',
    { role: 'group', 'aria-label': `layer ${number}` },
    el('span.layer-name', `layer ${number}`),
    blocks,
  );
}

function block(app, label, part, panel, kind = '') {
  const isHere =
    app.state.part === part &&
    (kind === 'thin' ? app.state.panel === panel : app.state.panel !== 'norm' || panel === 'norm');
  if (!panel) return el('span.block', { class: kind }, label);
  return button(label, () => app.set({ part, panel }), {
    class: `block ${kind}`,
    'aria-current': isHere ? 'location' : null,
    'aria-label': `${label} (${part})`,
    data: { key: `map-${part}-${label}` },
  });
}
