/** Screen 5: the residual stream grows: what each sublayer adds to it. */

import { image, svg } from 'glassbox/dom.js';
import { figure } from 'glassbox/figure.js';
import { digits, rowOf } from 'glassbox/numbers.js';
import { titleOf } from 'glassbox/labels.js';
import { label, stepName } from 'glassbox/story/parts.js';

const [LINE, TOP] = [26, 26];
const SHORT = { self: 'self-attention', cross: 'cross-attention', feed_forward: 'feed-forward' };

export const stream = {
  title: 'The residual stream grows',
  draw(app) {
    const { trace, row } = app;
    const parts = trace.steps
      .map(({ output }) => /^(decoder\.\d+\.\w+)\.residual$/.exec(output)?.[1])
      .filter((part) => part && trace.has(`${part}.residual`) && trace.has(`${part}.output`));
    const size = (name) => Math.hypot(...rowOf(trace.get(name), row));
    const lines = parts.map((part) => ({ part, stream: size(`${part}.residual`), added: size(`${part}.output`) }));
    const start = size('target.input');
    const most = lines.reduce((one, other) => (other.added > one.added ? other : one));
    return {
      words: [
        `In ${stepName(trace, row)}, one vector of ${trace.axes.d_model.length} numbers goes through the decoder, ` +
          `and each sublayer adds to it${trace.isPreNorm ? '' : ' (post-norm: then it is normalized again)'}.`,
        `Its length (Euclidean norm) goes from ${digits(start)} to ${digits(lines.at(-1).stream)}; the largest addition, ${digits(most.added)}, is that of ${titleOf(most.part)}.`,
      ],
      picture: figure('the residual stream', draw(app, start, lines, most), [
        ['sublayer', 'length of the stream', 'length of what is added'],
        ['embedding and position', start, ''],
        ...lines.map(({ part, stream: length, added }) => [part, length, added]),
      ]),
      proof: { label: `Add & norm: ${titleOf(most.part)}`, changes: { panel: 'norm', part: most.part, row } },
    };
  },
};

function draw(app, start, lines, most) {
  const isNarrow = app.width < 520;
  const nameOf = ({ part }) => {
    const [, layer, kind] = part.split('.');
    return isNarrow ? `${layer} ${SHORT[kind].replace('attention', 'att.').replace('feed-forward', 'ffn')}` : `layer ${layer}, ${SHORT[kind]}`;
  };
  const LEFT = isNarrow ? 104 : 210;
  const BAR = Math.max(90, Math.min(270, (app.width - LEFT - 24) / 2));
  const scale = Math.max(start, ...lines.map((line) => Math.max(line.stream, line.added))) || 1;
  const bar = (x, y, number, kind) => [
    svg('rect', { class: kind, x, y: y + 5, width: Math.max(1, (number / scale) * (BAR - 66)), height: LINE - 11 }),
    label(x + (number / scale) * (BAR - 66) + 5, y + 17, digits(number)),
  ];
  return image(
    LEFT + 2 * BAR,
    TOP + (lines.length + 1) * LINE,
    `the stream: ${[start, ...lines.map((line) => line.stream)].map(digits).join(', ')}`,
    label(LEFT, 14, isNarrow ? 'stream' : 'length of the stream'),
    label(LEFT + BAR, 14, isNarrow ? 'added' : 'length of what is added'),
    svg('text', { x: LEFT - 10, y: TOP + 17, 'text-anchor': 'end' }, isNarrow ? 'embedding' : 'embedding and position'),
    bar(LEFT, TOP, start, 'plus'),
    lines.map((line, i) => {
      const y = TOP + (i + 1) * LINE;
      return svg(
        'g.story-bar',
        { class: line === most ? 'here' : '' },
        svg('text', { x: LEFT - 10, y: y + 17, 'text-anchor': 'end' }, nameOf(line)),
        bar(LEFT, y, line.stream, 'plus'),
        bar(LEFT + BAR, y, line.added, 'minus'),
      );
    }),
  );
}
