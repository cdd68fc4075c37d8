/** Figure 1 again, small: the map of the panels. What is pressed opens, and what the panel is about is lit. */

import { pressed } from 'glassbox/core/dom.js';
import { layOut } from 'glassbox/views/layout.js';
import { PaperFigure } from 'glassbox/views/paperfigure.js';

const [LEAST, AROUND, BESIDE] = [150, 33, 230]; // pixels: of the map, beside it, and above and below it

export function map(app) {
  const { trace, row } = app;
  if (app.state.panel === 'story') return null; // which has none
  const width = Math.max(LEAST, document.getElementById('map').clientWidth - AROUND);
  const layout = layOut(trace, { width, height: innerHeight - BESIDE, row, column: app.state.column, isMap: true });
  const figure = new PaperFigure(trace, layout, { said: () => [], label: 'architecture', marks: [], here: hereOf(app) });
  figure.show({ lit: layout.encoder.stages, row, level: layout.decoder.stages + 1, end: trace.tokens.target_out.length - 1 });
  const { click, keydown } = pressed((event) => app.set(changesOf(event.target.closest('[data-flow]')?.dataset.flow ?? '')));
  for (const [name, act] of Object.entries({ click, keydown })) figure.element.addEventListener(name, act);
  return figure.element;
}

/** What a part of the figure opens. */
function changesOf(key) {
  const [kind, part] = key.split(/-(.*)/);
  const panels = { tokens: 'tokens', embedding: 'embedding', band: /feed_forward$/.test(part) ? 'norm' : 'attention', norm: 'norm', logits: 'logits', output: 'search' };
  return panels[kind] ? { panel: panels[kind], ...(part ? { part } : {}), ...(kind === 'logits' ? { part: 'logits' } : {}) } : {};
}

/** The part of the figure that the panel is about, or null: its key. */
function hereOf({ state: { panel, part, attention }, trace }) {
  const side = part === 'target' ? 'target' : 'source';
  const sublayer = /\.(self|cross|feed_forward)$/.test(part) ? part : attention;
  if (panel === 'tokens') return 'tokens-source';
  if (panel === 'embedding') return `embedding-${side}`;
  if (panel === 'qkv' || panel === 'attention') return `band-${attention}`;
  if (panel === 'norm') return /feed_forward$/.test(sublayer) && !part.endsWith('_norm') ? `band-${sublayer}` : `norm-${part.endsWith('_norm') ? part : sublayer}`;
  if (panel === 'logits') return 'logits';
  if (panel === 'search') return 'output';
  if (panel === 'alignment') return `band-${trace.attentions().at(-1)}`;
  return null;
}
