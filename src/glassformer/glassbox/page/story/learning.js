/** Question 4: the same text, answered by the checkpoints of the training. */

import { cut, row, table } from 'glassbox/core/dom.js';
import { alignment } from 'glassbox/model/differences.js';
import { digits, grouped } from 'glassbox/core/numbers.js';
import { card, masked, quoted, tokenRow } from 'glassbox/story/parts.js';

const SHOWN = 60; // characters of an answer

export const learning = {
  title: 'How did it learn this?',
  hasStep: false,
  draw(app) {
    const base = app.base.training?.checkpoints.length ? app.base : app.first; // another text was answered by the last model alone
    const { checkpoints = [] } = base.training ?? {};
    const proof = { label: 'Training: loss, learning rate and all checkpoints', changes: { panel: 'training' } };
    if (!checkpoints.length) return { words: [absent(app)], picture: null, proof };
    const [inputs, targets] = base.target === null ? [base.tokens.target_in, base.tokens.target_out] : [base.tokens.gold_in, base.tokens.gold];
    const step = Math.min(app.row, targets.length - 1);
    return {
      words: [
        'In training the decoder does not read what it would have written: it reads the right answer, shifted by one (teacher forcing). So all ' +
          `${targets.length} steps of this answer are computed at once: step ${step} reads ${quoted(inputs[step])} and should write ${quoted(targets[step])}, ` +
          `whatever the step before it said, and the mask hides what comes after it: ${masked(targets.length - 1, step)}.`,
        'These are decoding steps. In a training step, every number of the model moves a little, so that the right tokens get more probability. ' +
          `Each line of the table is a checkpoint: the model after so many training steps. All of them answer “${base.text}”` +
          `${base === app.base ? '' : ', the first text of this page'}; what is not in ${base.target === null ? 'the final answer' : 'the right answer'} is marked.`,
        inWords(checkpoints, rightOf(base, checkpoints)),
        base.provenance.metrics.chosen?.startsWith('the mean') && `The model of this page is none of them: its weights are ${base.provenance.metrics.chosen}.`,
        checkpoints.some(({ score, text }, i) => score < checkpoints[i - 1]?.score && text === checkpoints[i - 1].text) && 'The log-probability of one answer falls between two of them: a training step is for the pairs of its batch, not for this text.',
      ],
      picture: checkpointsTable(base, checkpoints),
      proof,
    };
  },
};

const rightOf = ({ target, translation }, checkpoints) => checkpoints.map(({ text }) => text === (target ?? translation));

const absent = ({ first }) =>
  first.training ? 'The run has no saved checkpoints.' : 'The training is not in this page. “glassformer explain RUN TEXT --html FILE” writes a page of a run, with its checkpoints.';

/** Right, wrong, right again: when the answer of the checkpoints changed for good. */
function inWords(checkpoints, isRight) {
  const step = (i) => grouped(checkpoints[i].step);
  const first = isRight.indexOf(true);
  if (first < 0) return `No checkpoint is right: the last one, of step ${step(checkpoints.length - 1)}, answers “${checkpoints.at(-1).text}”.`;
  const start = first
    ? `After ${step(0)} steps of training it answers “${cut(checkpoints[0].text, SHOWN)}”; it is right for the first time after ${step(first)}`
    : `It is right after ${step(0)} steps of training`;
  const lapse = isRight.indexOf(false, first);
  if (lapse < 0) return `${start}, and from then on.`;
  const again = isRight.indexOf(true, lapse);
  return `${start}, wrong after ${step(lapse)} (“${cut(checkpoints[lapse].text, SHOWN)}”)${again < 0 ? '' : `, and right again after ${step(again)}`}.`;
}

/** The answers below each other, aligned with the right one: what is not in it is marked, and what is missing is a gap. */
export function checkpointsTable(base, checkpoints) {
  const isRight = rightOf(base, checkpoints);
  const wanted = (base.tokens.gold ?? base.tokens.target_out).filter(({ kind }) => kind !== 'eos').map(({ text }) => text);
  const lines = checkpoints.map(({ step, tokens, finished, score }, i) => {
    const parts = alignment(wanted, finished ? tokens.slice(0, -1) : tokens);
    const written = tokenRow(parts.map(({ answer }) => ({ text: answer || '‸' })), (at) => ({ same: '', missing: 'changed gone' })[parts[at].kind] ?? 'changed');
    return row(grouped(step), written, `${digits(score)} ${isRight[i] ? '✓' : ''}`);
  });
  return card('the answer of each checkpoint', table('', ['training step', 'answer', 'log-probability'], lines));
}
