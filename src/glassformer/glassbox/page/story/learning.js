/** Question 4: the same text, answered by the checkpoints of the training. */

import { cut, image, svg } from 'glassbox/core/dom.js';
import { marked } from 'glassbox/model/differences.js';
import { figure } from 'glassbox/views/figure.js';
import { grouped, percent } from 'glassbox/core/numbers.js';
import { endOf, label, layOut, tokenBox } from 'glassbox/story/parts.js';
import { visible } from 'glassbox/model/trace.js';

const [LINE, LEFT, SHOWN] = [34, 88, 60];

export const learning = {
  title: 'How did it learn this?',
  draw(app) {
    const base = app.base.training?.checkpoints.length ? app.base : app.first; // another text was answered by the last model alone
    const { checkpoints = [] } = base.training ?? {};
    const proof = { label: 'Training: loss, learning rate and all checkpoints', changes: { panel: 'training' } };
    if (!checkpoints.length) return { words: [absent(app)], picture: null, proof };
    const wanted = base.target ?? base.translation;
    const isRight = checkpoints.map(({ text }) => text === wanted);
    return {
      words: [
        'In each step of the training, the model sees rows with their right answers, and every weight moves a little, so that the right tokens get ' +
          `more probability. Each row below is a checkpoint: the model after so many of these steps. All of them answer “${visible(base.text)}”` +
          `${base === app.base ? '' : ', the first text of this page'}; what is not in ${base.target === null ? 'the final answer' : 'the right answer'} is marked.`,
        inWords(checkpoints, isRight),
      ],
      picture: figure('the answer of each checkpoint', draw(base, checkpoints, isRight), [
        ['step', 'answer', 'log-probability'],
        ...checkpoints.map(({ step, text, score }) => [step, text, score]),
      ]),
      proof,
    };
  },
};

function absent({ first }) {
  if (!first.training) return 'The training is not in this page. “glassformer explain RUN TEXT --html FILE” writes a page of a run, with its checkpoints.';
  return 'The run has no saved checkpoints.';
}

/** Right, wrong, right again: when the answer of the checkpoints changed for good. */
function inWords(checkpoints, isRight) {
  const step = (i) => grouped(checkpoints[i].step);
  const first = isRight.indexOf(true);
  if (first < 0) return `No checkpoint is right: the last one, of step ${step(checkpoints.length - 1)}, answers “${visible(checkpoints.at(-1).text)}”.`;
  const start = first
    ? `After ${step(0)} steps of training it answers “${cut(visible(checkpoints[0].text), SHOWN)}”; it is right for the first time after ${step(first)}`
    : 'It is right from the first checkpoint on';
  const lapse = isRight.indexOf(false, first);
  if (lapse < 0) return `${start}${first ? ', and from then on' : ''}.`;
  const again = isRight.indexOf(true, lapse);
  return `${start}, wrong after ${step(lapse)} (“${cut(visible(checkpoints[lapse].text), SHOWN)}”)${again < 0 ? '' : `, and right again after ${step(again)}`}.`;
}

function draw(base, checkpoints, isRight) {
  const wanted = base.tokens.gold ?? base.tokens.target_out;
  const named = (texts) => texts.map((text) => ({ id: text, text }));
  const rows = checkpoints.map(({ tokens }) => layOut(named(tokens), LEFT, 16));
  const marks = checkpoints.map(({ tokens }) => marked(named(wanted.map(({ text }) => text)), named(tokens))[1]);
  return image(
    Math.max(...rows.map(endOf)) + 84,
    checkpoints.length * LINE + 6,
    checkpoints.map(({ step, text }, i) => `step ${step}: ${visible(text)}${isRight[i] ? ', right' : ''}`).join('; '),
    checkpoints.map(({ step, score }, i) => {
      const y = 4 + i * LINE;
      return svg(
        'g',
        label(LEFT - 10, y + 16, `step ${grouped(step)}`, 'end'),
        rows[i].map((box, at) => tokenBox(box, y, marks[i][at] ? 'changed' : '')),
        label(endOf(rows[i]) + 8, y + 16, `${percent(Math.exp(score))} ${isRight[i] ? '✓' : ''}`),
      );
    }),
  );
}
