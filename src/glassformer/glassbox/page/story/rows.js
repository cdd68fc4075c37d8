/** From text to rows: the tokens, their ids, and how the embedding and the position make a row of numbers for each. */

import { el, image, svg } from 'glassbox/core/dom.js';
import { digits, grouped, rowOf } from 'glassbox/core/numbers.js';
import { visible } from 'glassbox/model/trace.js';
import { figure } from 'glassbox/views/figure.js';
import { heatmap } from 'glassbox/views/heatmap.js';
import { endOf, label, layOut, listed, quoted, roomOf, strip, tokenBox } from 'glassbox/story/parts.js';

const [TOP, LINE, LABEL] = [60, 34, 104];

export const rows = {
  title: 'From text to rows',
  hasStep: false,
  draw(app) {
    const { trace } = app;
    const { source } = trace.tokens;
    const at = Math.min(app.state.column, source.length - 1);
    const { axis, specials } = trace.vocabularies.source;
    const width = trace.axes.d_model.length;
    const same = [...source.keys()].filter((i) => source[i].id === source[at].id);
    const parts = partsOf(trace);
    const x = trace.get('source.input');
    return {
      words: [
        `The text “${trace.text}” is split into ${source.length} tokens${specials.bos === undefined ? '' : ', with <bos> at its start and <eos> at its end'}. Each token has an id, ` +
          `which is its place in the vocabulary of ${grouped(trace.axes[axis].labels.length)} tokens: the id of ${quoted(source[at])} is ${source[at].id}.`,
        `The id selects a row of the embedding matrix: ${width} numbers, which were learned. ` +
          `${trace.has('source.scaled') ? `They are multiplied by √${width} = ${digits(Math.sqrt(width))}. ` : ''}` +
          'Then a row is added that depends on the position only, the position encoding: without it the model would not see the order of the tokens.',
        same.length > 1
          ? `${quoted(source[at])} is at the positions ${listed(same)}: one embedding, but ${same.length} different rows.`
          : `${quoted(source[at])} is at position ${at} only. At another position it would have the same embedding, but another row.`,
        `From here on the model has ${source.length} rows of ${width} numbers, one for each token, and no text. The decoder makes its rows in the same way, from what it has written.`,
      ],
      picture: el(
        'div.story-pictures',
        figure(`how source token ${at}, ${quoted(source[at])}, becomes a row`, draw(app, parts, at)),
        heatmap('the rows of all tokens', x, {
          rows: source.map(({ text }, i) => `${i} ${visible(text)}`),
          down: 'token',
          across: 'feature',
          cell: [16, Math.min(420, roomOf(app) - 130) / width],
          row: at,
          onPick: (column) => app.set({ column }),
        }),
      ),
      proof: { label: 'Embedding and position: all numbers of these rows', changes: { panel: 'embedding', part: 'source' } },
    };
  },
};

/** What a row is made of, each with its tensor. */
const partsOf = (trace) =>
  [
    ['embedding', 'source.embedded'],
    [`× √${trace.axes.d_model.length}`, 'source.scaled'],
    ['+ position', 'source.positions'],
    ['= row', 'source.input'],
  ].filter(([, name]) => trace.has(name));

function draw(app, parts, at) {
  const { source } = app.trace.tokens;
  const boxes = layOut(source, 0, source.length * 30 > roomOf(app) ? 16 : 22);
  const middle = boxes[at].x + boxes[at].width / 2;
  const below = TOP + 22 + parts.length * LINE;
  const strips = parts.map(([title, name], i) => {
    const numbers = rowOf(app.trace.get(name), at);
    const y = TOP + 18 + i * LINE;
    return svg('g', label(LABEL - 8, y + 16, title, 'end'), strip(app, LABEL, y, numbers));
  });
  const width = Math.max(endOf(boxes), ...strips.map((each) => Number(each.lastChild.dataset.end)));
  return image(
    width + 4,
    below,
    parts.map(([title, name]) => `${title}: ${[...rowOf(app.trace.get(name), at).slice(0, 4)].map(digits).join(', ')} …`).join('; '),
    boxes.map((box, i) =>
      tokenBox(box, 4, `${source[i].kind} pick ${i === at ? 'here' : ''}`, { data: { at: `s${i}` }, on: { click: () => app.set({ column: i }) } }),
    ),
    svg('path.story-stream', { d: `M${middle} 30 C${middle} ${TOP + 10} ${LABEL + 20} 30 ${LABEL + 20} ${TOP + 14}` }),
    label(middle + 12, 46, `id ${source[at].id}`),
    strips,
  );
}
