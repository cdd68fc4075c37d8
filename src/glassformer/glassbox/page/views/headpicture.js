/** All heads as one picture and as one table, to be saved. */

import { image, range, svg } from 'glassbox/core/dom.js';
import { heat } from 'glassbox/views/heat.js';
import { KINDS } from 'glassbox/model/headkinds.js';
import { titleOf } from 'glassbox/model/labels.js';

const [TILE, GAP, TOP, LEFT] = [110, 14, 24, 240];

/** @typedef {{name: string, head: number, weights: object, entropy: number, kind: object, damage: number|null}} Head */

/** A row for each attention: the weights of its heads. @param {Head[]} all  in the order of the layers */
export function headPicture(all) {
  const names = [...new Set(all.map(({ name }) => name))];
  const across = Math.max(...all.map(({ head }) => head)) + 1;
  const [width, height] = [LEFT + across * (TILE + GAP), TOP + names.length * (TILE + GAP)];
  const label = (x, y, text) => svg('text.label', { x, y }, text);
  return image(
    width,
    height,
    'attention weights of all heads',
    range(across).map((head) => label(LEFT + head * (TILE + GAP), 14, `head ${head}`)),
    names.map((name, row) => label(4, TOP + row * (TILE + GAP) + TILE / 2, titleOf(name))),
    all.map(({ name, head, weights }) => {
      const [x, y] = [LEFT + head * (TILE + GAP), TOP + names.indexOf(name) * (TILE + GAP)];
      const frame = svg('rect', { x, y, width: TILE, height: TILE, fill: 'none', stroke: '#888888' });
      return [heat(weights, 1, { x, y, width: TILE, height: TILE }), frame];
    }),
  );
}

/** @param {Head[]} all */
export const headRows = (all) => [
  ['attention', 'head', 'damage in points', 'mean entropy in nats', 'kind', 'mean weight of the kind'],
  ...all.map(({ name, head, damage, entropy, kind }) => [
    ...[name, head, damage ?? '', entropy],
    ...[KINDS[kind.kind][0], kind.kind === 'mixed' ? '' : kind.weight],
  ]),
];
