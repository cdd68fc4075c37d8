/** Screen 7: the same model without the position encoding. */

import { bdi, image } from 'glassbox/dom.js';
import { marked } from 'glassbox/differences.js';
import { figure } from 'glassbox/figure.js';
import { percent } from 'glassbox/numbers.js';
import { Stopped } from 'glassbox/server.js';
import { endOf, label, layOut, tokenBox } from 'glassbox/story/parts.js';
import { visible } from 'glassbox/trace.js';

const EDIT = 'positions off';
const found = new WeakMap(); // trace -> the same without positions, or an error

export const positions = {
  title: 'Without positions',
  draw(app) {
    const proof = { label: 'What if: the same edit, and others', changes: { panel: 'whatif', edits: [EDIT] } };
    if (!app.canEdit)
      return {
        words: [
          'Attention sees a set of tokens: only the position encoding that is added to each embedding tells it their order.',
          'This page does not include the weights of the model, so it cannot show the answer without positions.',
        ],
        picture: null,
        proof: { label: 'Embedding and position', changes: { panel: 'embedding' } },
      };
    const without = found.get(app.base);
    if (!without) compute(app);
    if (!without || without instanceof Error)
      return { words: [without ? without.message : 'computing …'], picture: null, proof };
    const [before, after] = [app.base, without];
    const isSame = before.translation === after.translation;
    return {
      words: [
        'Attention sees a set of tokens: only the position encoding that is added to each embedding tells it their order.',
        isSame
          ? 'For this text the model gives the same answer without it, with ' +
            `${percent(Math.exp(after.search.beam.answers[0].score))} instead of ${percent(Math.exp(before.search.beam.answers[0].score))}.`
          : ['Without it the answer becomes ', bdi(visible(after.translation) || '(empty)'), ', and the marked tokens are different.'],
      ],
      picture: figure(
        'the answer with and without positions',
        draw(before, after),
        [['', 'answer', 'log-probability'], ...[['with positions', before], ['without positions', after]].map(([name, trace]) => [name, trace.translation, trace.search.beam.answers[0].score])],
      ),
      proof,
    };
  },
};

async function compute(app) {
  const { base } = app;
  found.set(base, new Error('computing …'));
  const trace = await app.withEdits([EDIT], base).catch((error) => error);
  if (trace instanceof Stopped) found.delete(base);
  else found.set(base, trace);
  if (app.state.panel === 'story') app.notify(false, null);
}

function draw(before, after) {
  const rows = [before, after].map((trace) => trace.tokens.target_out);
  const marks = marked(...rows);
  const boxes = rows.map((tokens) => layOut(tokens, 128));
  const width = Math.max(...boxes.map(endOf)) + 4;
  const names = ['with positions', 'without'];
  return image(
    width,
    92,
    `${before.translation}; without positions ${after.translation}`,
    names.map((name, i) => label(116, 24 + i * 44, name, 'end')),
    boxes.flatMap((row, i) => row.map((box, at) => tokenBox(box, 8 + i * 44, marks[i][at] ? 'changed' : ''))),
  );
}

