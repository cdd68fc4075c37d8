/** Question 1: what the step looked at: a query, keys, values. */

import { el } from 'glassbox/core/dom.js';
import { headOf, indexOfLargest, percent, rowOf } from 'glassbox/core/numbers.js';
import { headTitle, layerTitle } from 'glassbox/model/labels.js';
import { card, headTile, quoted, sofar } from 'glassbox/story/parts.js';
import { crossHere } from 'glassbox/story/thread.js';
import { attentionPicture } from 'glassbox/views/opened.js';

const ALMOST_ALL = 0.9;

export const query = {
  title: 'What did it look at?',
  draw(app) {
    const { trace, row } = app;
    const { head } = app.state;
    const name = crossHere(app);
    const weights = rowOf(headOf(trace.get(`${name}.weights`), head), row);
    const { source, target_out: outputs } = trace.tokens;
    const best = indexOfLargest(weights);
    const picture = attentionPicture(app, name, head, row);
    const isOff = [`attention ${name} off`, `head ${name} ${head} off`].some((words) => app.words.includes(words));
    return {
      words: [
        `In step ${row} the answer so far is ${sofar(trace, row)}, and the decoder needs the next token, ${quoted(outputs[row])}. ` +
          `Here is how ${headTitle(head)} in its ${layerTitle(trace, 'decoder', name.split('.')[1])} looks for it. Steps and tokens count from 0, heads and layers from 1.`,
        'Its query says what this step looks for. Each source token has a key, which says what it offers, and a value, which is what it gives. ' +
          'Learned matrices make them: W_Q from the row of this step, W_K and W_V from the last rows of the encoder; each head has its own. The dot product of query and key, divided by √d_k, is a score; softmax turns the scores into weights; ' +
          'the head takes every value in proportion to its weight. The outputs of all heads go through the matrix W_O and are added to the row.',
        `${percent(weights[best])} of the weight is on ${quoted(source[best])}, source token ${best}` +
          `${weights[best] > ALMOST_ALL ? ', so what the head brings back is almost only the value of that token.' : ': the head brings back a mixture.'}` +
          `${isOff ? ' It is switched off: nothing of that is used.' : ''}`,
      ],
      picture: el(
        'div.story-pictures',
        picture && card(`query, keys and values of ${headTitle(head)} in step ${row}`, picture),
        headTile(app, `weights of ${headTitle(head)} in every step`, { name, head, row }),
      ),
      proof: {
        label: 'Attention: every product behind these scores',
        changes: { panel: 'attention', part: name, attention: name, head, row, view: 'steps' },
      },
    };
  },
};
