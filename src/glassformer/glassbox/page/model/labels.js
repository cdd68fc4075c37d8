/**
 * What things are called on the page. Layers and heads count from 1, except in names of tensors, edits and addresses; steps and positions from 0.
 *
 * A place is "step 9: '1' → '4' · source 2: '4'": the decoding step with the decoder input and the token to predict,
 * and the source token.
 */

import { isolated } from 'glassbox/core/dom.js';
import { visible } from 'glassbox/model/trace.js';

const AXES = {
  source: 'source',
  source_key: 'source',
  target: 'step',
  target_key: 'decoder input',
  gold_target: 'target step',
  gold_target_key: 'target input',
  head: 'head',
  vocabulary: 'token',
  source_vocabulary: 'token',
  target_vocabulary: 'token',
  max_length: 'position',
};

/** The axis of an index: "source", "step", "head", "token"; otherwise "feature". */
export const axisName = (axis) => AXES[axis] ?? 'feature';

/** The same above a matrix, where an axis of keys is told from one of queries. */
export const axisTitle = (axis) => (axis.endsWith('_key') ? `${axisName(axis)} (keys)` : axisName(axis));

/** A place as text: names with their indices, and the tokens at them. */
export const place = (trace, axes, index) =>
  axes.map((axis, i) => {
    const { labels, predicted } = trace.axes[axis] ?? {};
    const named = [labels, predicted].flatMap((tokens) => (index[i] < tokens?.length ? `'${isolated(visible(tokens[index[i]]))}'` : [])).join(' → ');
    return `${axis === 'head' ? headTitle(index[i]) : `${axisName(axis)} ${index[i]}`}${named && `: ${named}`}`;
  }).join(' · ');

export const SUBLAYERS = { self: 'self-attention', cross: 'cross-attention', feed_forward: 'feed-forward' };
const PARTS = {
  encoder_norm: 'encoder, final norm',
  decoder_norm: 'decoder, final norm',
  copy_mechanism: 'copy mechanism',
  evidence: 'alignment',
};

/** A layer by its index: "layer 2 of 3". */
export const layerTitle = (trace, side, layer) => `layer ${Number(layer) + 1} of ${trace.layers(side)}`;

/** A head by its index: "head 3". */
export const headTitle = (head) => `head ${head + 1}`;

/** The title of a part: "decoder.1.cross" is "decoder layer 2 of 3, cross-attention". */
export function titleOf(trace, part) {
  const [side, layer, kind] = part.split('.');
  return kind ? `${side} ${layerTitle(trace, side, layer)}, ${SUBLAYERS[kind] ?? kind.replaceAll('_', ' ')}` : (PARTS[part] ?? part);
}

const MATRICES = { w_q: 'W_Q', w_k: 'W_K', w_v: 'W_V', w_o: 'W_O', w_1: 'W_1', w_2: 'W_2' };
const GIVEN = {
  ids: 'token ids',
  numbers: 'position numbers',
  scale: 'scale',
  self_mask: 'mask of self-attention',
  cross_mask: 'mask of cross-attention',
  target_ids: 'ids of the target tokens',
};

/** A tensor in words: "scores · decoder layer 2 of 3, cross-attention". */
export function tensorTitle(trace, name) {
  const isGold = name.startsWith('gold.');
  const parts = name.replace(/^gold\./, '').split('.');
  const kind = trace.tensors[name]?.origin === 'weight' ? weightTitle(parts) : null;
  const what = trace.stepOf.get(name)?.title ?? kind ?? GIVEN[parts.at(-1)] ?? parts.at(-1).replaceAll('_', ' ');
  const isLayer = /^\d+$/.test(parts[1]);
  const part = isLayer ? parts.slice(0, 3).join('.').replace(/(_attention)?(_norm)?$/, '') : parts[0];
  const lens = parts.includes('lens') ? `decoder ${layerTitle(trace, 'decoder', parts[1])}, logit lens` : null;
  const where = lens ?? (parts.length > 1 ? titleOf(trace, part) : '');
  return `${what}${where ? ` · ${where}` : ''}${isGold ? ' · target' : ''}`;
}

function weightTitle(parts) {
  const [owner, kind] = parts.slice(-2);
  if (MATRICES[owner]) return kind === 'bias' ? `bias of ${MATRICES[owner]}` : MATRICES[owner];
  if (owner.endsWith('norm')) return kind === 'bias' ? 'β of the norm' : 'γ of the norm';
  return `${owner.replaceAll('_', ' ')}${kind === 'bias' ? ', bias' : ''}`;
}
