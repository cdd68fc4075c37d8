/** From text to rows: the tokens, their ids, and how the embedding and the position make a row of numbers for each. */

import { el, row, table } from 'glassbox/core/dom.js';
import { digits, grouped, rowOf } from 'glassbox/core/numbers.js';
import { visible } from 'glassbox/model/trace.js';
import { heatmap } from 'glassbox/views/heatmap.js';
import { card, quoted, roomOf, strip, tokenRow } from 'glassbox/story/parts.js';

const LISTED = new Intl.ListFormat('en-GB'); // "2, 3 and 4"

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
    const pick = (i) => ({ data: { at: `s${i}` }, on: { click: () => app.set({ column: i }) } });
    return {
      words: [
        `The text “${trace.text}” is split into ${source.length} tokens${specials.bos === undefined ? '' : ', with <bos> at its start and <eos> at its end'}. Each token has an id, ` +
          `which is its place in the vocabulary of ${grouped(trace.axes[axis].labels.length)} tokens: the id of ${quoted(source[at])} is ${source[at].id}.`,
        `The id selects a row of the embedding matrix: ${width} numbers, which were learned. ` +
          `${trace.has('source.scaled') ? `They are multiplied by √${width} = ${digits(Math.sqrt(width))}. ` : ''}` +
          'Then a row is added that depends on the position only, the position encoding: without it the model would not see the order of the tokens.',
        same.length > 1
          ? `${quoted(source[at])} is at the positions ${LISTED.format(same.map(String))}: one embedding, but ${same.length} different rows.`
          : `${quoted(source[at])} is at position ${at} only. At another position it would have the same embedding, but another row.`,
        `From here on the model has ${source.length} rows of ${width} numbers, one for each token, and no text. The decoder makes its rows in the same way, from what it has written.`,
      ],
      picture: el(
        'div.story-pictures',
        card(
          `how source token ${at}, ${quoted(source[at])}, becomes a row`,
          tokenRow(source, (i) => (i === at ? 'pick here' : 'pick'), pick),
          table('', [], partsOf(trace).map(([title, name]) => row(title, strip(rowOf(trace.get(name), at))))),
        ),
        heatmap('the rows of all tokens', trace.get('source.input'), {
          rows: source.map(({ text }, i) => `${i}: ${visible(text)}`),
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
