/** One layer: what its sublayers add to the row of a step. */

import { el, range } from 'glassbox/core/dom.js';
import { at, indexOfLargest, meanOf, percent, rowOf, shortDigits } from 'glassbox/core/numbers.js';
import { headTitle, layerTitle } from 'glassbox/model/labels.js';
import { card, headTile, masked, quoted, strip } from 'glassbox/story/parts.js';
import { crossHere } from 'glassbox/story/thread.js';

const NAMES = { self: 'masked self-attention', cross: 'cross-attention', feed_forward: 'feed-forward' };

export const layer = {
  title: 'One layer',
  draw(app) {
    const { trace, row } = app;
    const { head } = app.state;
    const name = crossHere(app).replace(/\.cross$/, '');
    const width = trace.axes.d_model.length;
    return {
      words: [
        'All layers are built alike. A layer of the decoder has three sublayers: masked self-attention, cross-attention and feed-forward; one of the encoder ' +
          `has self-attention without a mask, and feed-forward. Here is ${layerTitle(trace, 'decoder', name.split('.')[1])} of the decoder, in step ${row}.`,
        'No sublayer replaces the row of the step: each reads it, and what it makes is added to it (residual connection). A norm gives a row the mean 0 and the ' +
          `deviation 1, ${trace.isPreNorm ? 'before a sublayer reads it' : 'after each addition'}; then it multiplies each number by a learned γ and adds a learned β. ${normed(trace, `${name}.self_norm`, row)}`,
        `Attention takes from rows of tokens: cross-attention of the source, self-attention of the answer, its own row included; there the mask hides the steps after this one (here ${masked(trace.tokens.target_out.length - 1, row)}), which are not written yet. ` +
          `Feed-forward works on each row alone: ${width} numbers become ${trace.axes.d_ff.length}, and ${width} again.`,
      ],
      picture: el(
        'div.story-pictures',
        card(`the row of step ${row} in this layer`, el('ol.story-stream', linesOf(trace, name, row))),
        headTile(app, `masked self-attention of ${headTitle(head)}: what the mask hides is hatched; in the framed row: ${masked(trace.tokens.target_out.length - 1, row)}`, { name: `${name}.self`, head, row }),
      ),
      proof: { label: 'Add & norm, feed-forward: all numbers of this layer', changes: { panel: 'norm', part: `${name}.self`, row } },
    };
  },
};

/** The lines from top to bottom: on the stream, or on a branch of it. */
function linesOf(trace, name, row) {
  const of = (tensor) => rowOf(trace.get(tensor), row);
  const line = (isBranch, title, fact, tensor) =>
    el('li.story-line', { class: isBranch ? 'branch' : title === 'add' ? 'add' : null }, el('div', el('strong', title), el('small', fact)), strip(of(tensor)));
  const sum = (part) => trace.stepOf.get(`${part}.residual_before_edit`) ?? trace.stepOf.get(`${part}.residual`);
  const parts = Object.keys(NAMES).map((kind) => [`${name}.${kind}`, kind]);
  return [
    line(false, 'the row', `of step ${row}, which reads ${quoted(trace.tokens.target_in[row])}`, sum(parts[0][0]).inputs[0]),
    ...parts.flatMap(([part, kind]) => {
      const norm = line(trace.isPreNorm, 'norm', ofNorm(trace, `${part}_norm`, row), `${part}_norm.output`);
      const sublayer = line(true, NAMES[kind], kind === 'feed_forward' ? ofFeedForward(trace, part, row) : ofAttention(trace, part, row), `${part}.output`);
      const add = line(false, 'add', 'the row plus what the sublayer made', `${part}.residual`);
      return trace.isPreNorm ? [norm, sublayer, add] : [sublayer, add, norm];
    }),
  ];
}

function ofNorm(trace, name, row) {
  const [mean, variance] = ['mean', 'variance'].map((kind) => trace.get(`${name}.${kind}`).numbers[row]);
  return `mean ${shortDigits(mean, 2)} → 0, deviation ${shortDigits(Math.sqrt(variance), 2)} → 1, then × γ + β`;
}

/** The first number of a norm, as it is computed. */
function normed(trace, name, row) {
  const { inputs, attributes } = trace.stepOf.get(`${name}.output`);
  const [x, mean, variance, gain, bias] = inputs.map((input) => trace.get(input));
  if (!gain || !bias) return '';
  const numbers = [at(x, [row, 0]), mean.numbers[row], Math.sqrt(variance.numbers[row] + attributes.eps), gain.numbers[0], bias.numbers[0]];
  const [number, mu, deviation, gamma, beta] = numbers.map((each) => (each < 0 ? `(${shortDigits(each)})` : shortDigits(each)));
  return `The first number of the first norm here: (${number} − ${mu}) ÷ ${deviation} × ${gamma} (γ) + ${beta} (β) ≈ ${shortDigits(at(trace.get(`${name}.output`), [row, 0]))}.`;
}

function ofFeedForward(trace, part, row) {
  const inner = rowOf(trace.get(`${part}.activated`), row);
  const zeros = meanOf(inner.map((number) => Number(number === 0)));
  return `${trace.axes.d_model.length} → ${inner.length} → ${trace.axes.d_model.length}${zeros ? `; ${percent(zeros)} of the ${inner.length} are 0` : ''}`;
}

/** The token with the largest weight, as a mean of the heads. */
function ofAttention(trace, part, row) {
  const weights = trace.get(`${part}.weights`);
  const [heads, , keys] = weights.shape;
  const means = range(keys).map((key) => meanOf(range(heads).map((head) => at(weights, [head, row, key]))));
  const best = indexOfLargest(means);
  const token = quoted(trace.axes[weights.axes[2]].labels[best]);
  return `${percent(means[best])} ${heads > 1 ? `(mean of ${heads} heads) ` : ''}on ${token}, ${part.endsWith('cross') ? `source token ${best}` : `read in step ${best}; masked: ${masked(keys - 1, row)}`}`;
}
