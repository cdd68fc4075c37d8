/** Question 6: when the model is wrong: how sure it is, texts side by side, a text unlike the training; then the end. */

import { difference, kindOf, marked } from 'glassbox/model/differences.js';
import { button, cut, el, range, row, table } from 'glassbox/core/dom.js';
import { unlikeOf } from 'glassbox/model/warnings.js';
import { digits, grouped, percent } from 'glassbox/core/numbers.js';
import { Stopped } from 'glassbox/core/server.js';
import { sameSource } from 'glassbox/model/source.js';
import { calibrated, card, quoted, stepName, tokenRow } from 'glassbox/story/parts.js';
import { leastCertain, probabilityOf } from 'glassbox/story/thread.js';
import { ordinary } from 'glassbox/model/trace.js';
import { cannotOpen, traceOf } from 'glassbox/views/typing.js';

const MAX_TOKENS = 200; // that are tried in a place
const found = new WeakMap(); // a trace -> text or edit -> the trace of the other text, an error, or null while it is computed

export const wrong = {
  title: 'When is it wrong?',
  draw(app) {
    const { trace } = app;
    const { target_out: outputs } = trace.tokens;
    const least = leastCertain(trace);
    const second = trace.predictions.logits[least].top.find(([id]) => id !== outputs[least].id);
    const failed = wrongOf(app);
    const edits = app.canEdit ? editsOf(trace, app.state.column) : [];
    const made = trace === app.base ? [] : app.made; // of this trace, whatever is computed meanwhile
    const others = (failed?.isOpen ? edits.slice(-1) : edits).map((edit) => otherText(app, edit, () => app.withEdits([...made, edit])));
    if (failed?.isOpen) others.unshift(otherText(app, failed.source, () => traceOf(app, { text: failed.source })));
    const traces = [trace, ...others.filter((other) => other?.tokens)];
    const strange = traces.find(unlikeOf);
    const isComputing = others.includes(null);
    const right = new Map([[trace, goldOf(app)], ...(failed?.isOpen ? [[others[0], failed.target]] : [])]);
    return {
      words: [
        `${[`The model gives this answer a score (log-probability) of ${digits(scoreOf(trace))}.`, calibrated(trace)].filter(Boolean).join(' ')} Its least certain step is ${stepName(trace, least)}, with ${percent(probabilityOf(trace, least))}` +
          `${second ? `; its second choice is ${quoted(second[1])} with ${percent(second[2])}` : ''}. A probability is what the model expects: it can be sure and wrong.`,
        errorsOf(app, failed),
        strange
          ? `Wrong answers are likely where a text is unlike the training. “${textOf(strange)}” is: ${unlikeOf(strange)}. ` +
            `The model still answers: “${strange.translation}”, with a score of ${digits(scoreOf(strange))}${right.get(strange) == null ? `${against(trace, strange)}. Nobody can vouch for it: whether such a text has an answer at all, the model cannot know.` : '.'}`
          : `Wrong answers are likely where a text is unlike the training. ${isComputing ? '' : traces.length > 1 ? 'None of these is.' : 'This one is not.'}`,
        isComputing ? 'Other texts are being computed …' : null,
      ],
      picture: card(
        traces.length > 1 ? 'texts side by side, with what differs from the first; below an output token its probability' : 'the probability of each output token',
        table('', [], traces.map((one) => textAndAnswer(trace, one, right.get(one)))),
      ),
      more: end(app),
      proof: app.base.errors?.wrong
        ? { label: 'Errors: all wrong answers on held-out rows', changes: { panel: 'errors' } }
        : { label: 'What if: other edits of the text and of the model', changes: { panel: 'whatif' } },
    };
  },
};

/** What the score shows of a text unlike the training, beside that of the first text. */
const against = (first, strange) => first === strange ? '' : `, against ${digits(scoreOf(first))} for “${textOf(first)}”: ${scoreOf(strange) > scoreOf(first) - Math.LN2 ? 'the score does not show it' : 'here it is lower, which is not always so'}`;

const scoreOf = ({ search }) => search.beam.answers[0].score;

const textOf = ({ tokens }) => tokens.source.filter(({ kind }) => ['ordinary', 'input', 'unk'].includes(kind)).map(({ text }) => text).join('');

/** The wrong answer of a held-out row that the model is surest of, and whether the page can open it; null if none is known. */
function wrongOf(app) {
  const examples = app.base.errors?.examples ?? [];
  if (!examples.length) return null;
  const surest = examples.reduce((one, other) => (other.score > one.score ? other : one));
  return { ...surest, isOpen: !cannotOpen(app) && !app.base.inputs && !app.words.length && surest.source !== app.base.text };
}

/** The right answer of the text as it is, or null if it is not known. */
const goldOf = ({ base, trace }) => (sameSource(base, trace) ? base.target : null);

/** What is known to be wrong: this answer, or answers of held-out rows. */
function errorsOf(app, failed) {
  const { trace, base } = app;
  const { errors } = base;
  const { gold } = base.tokens;
  if (gold && ![null, trace.translation].includes(goldOf(app))) {
    const row = Math.max(0, trace.tokens.target_out.findIndex((token, i) => token.id !== gold[i]?.id));
    return `This answer is wrong: the right answer is “${base.target}”, and the first different token is ${quoted(trace.tokens.target_out[row])} in step ${row}.`;
  }
  const unedited = base === trace ? '' : ' without your edits';
  if (!errors) return 'No wrong answer is known here: this page has no held-out rows with their right answers.';
  if (!errors.wrong) return `Of ${grouped(errors.rows)} held-out rows, all are answered correctly${unedited}: no wrong answer is known here.`;
  const all = `Of ${grouped(errors.rows)} held-out rows, ${grouped(errors.wrong)} are answered wrong${unedited}.`;
  if (!failed) return all;
  const { source, target: right, answer, score } = failed;
  return (
    `${all} The surest wrong answer here: “${source}” became ` +
    `“${answer}”, with a score of ${digits(score)}. Right is “${right}” (${kindOf(difference(right, answer))}).`
  );
}

/** Two edits of one token each: one in this place, and one that makes the text unlike the training. */
export function editsOf(trace, place) {
  const { source } = trace.tokens;
  const { labels } = trace.axes[trace.vocabularies.source.axis];
  const places = range(source.length).filter((i) => ['ordinary', 'input'].includes(source[i].kind));
  const all = [...places.filter((i) => i >= place), ...places.filter((i) => i < place)].flatMap((i) => othersOf(trace, i).map((text) => [i, text]));
  const strange = all.find(([i, text]) => {
    const token = { ...source[i], text, id: labels.indexOf(text) };
    return unlikeOf({ ...trace, tokens: { source: source.with(i, token) } });
  });
  return [...new Set([all.find((each) => each !== strange), strange])].filter(Boolean).map(([i, text]) => `token ${i}=${text}`);
}

/** Trained tokens that can be in a place, of the same class as its own, the one before it in the alphabet first. */
function othersOf(trace, place) {
  const { text, id: own } = trace.tokens.source[place];
  const isInput = (id) => trace.vocabularies.source.inputs?.includes(id) ?? false;
  const classOf = (token) => [/^\p{N}/u, /^[\p{L}\p{M}▁<]/u].findIndex((pattern) => pattern.test(token));
  const isLike = ({ id, count, text: other }) => id !== own && count !== 0 && isInput(id) === isInput(own) && classOf(other) === classOf(text);
  const sorted = ordinary(trace, 'source').filter(isLike).map((other) => other.text).sort();
  const before = sorted.filter((other) => other < text).reverse();
  return [...before, ...sorted.slice(before.length)].slice(0, MAX_TOKENS);
}

/** The trace of a text or with an edit, or an error; null while it is computed. */
function otherText(app, what, make) {
  if (!found.has(app.trace)) found.set(app.trace, new Map());
  const known = found.get(app.trace);
  if (!known.has(what)) {
    known.set(what, null);
    make().catch((error) => error).then((after) => {
      if (after instanceof Stopped) known.delete(what);
      else known.set(what, after);
      if (app.state.panel === 'story') app.notify(false, null);
    });
  }
  return known.get(what);
}

/** A text and its answer, with the probability of each output token; what is not as in the first text is marked. */
function textAndAnswer(first, one, right) {
  const [source, answer] = ['source', 'target_out'].map((side) => {
    const marks = marked(first.tokens[side], one.tokens[side])[1];
    const height = (i) => (side === 'source' ? {} : { style: { '--p': probabilityOf(one, i) } });
    return tokenRow(one.tokens[side], (i) => (marks[i] ? 'changed' : ''), height);
  });
  const isWrong = ![null, undefined, one.translation].includes(right);
  return [row('text', source), row('answer', answer, [`score ${digits(scoreOf(one))}`, isWrong ? el('div', `✗ right is “${cut(right, 40)}”`) : null])];
}

/** What comes next. */
function end(app) {
  const yours = () => {
    app.set({ question: 0 });
    document.querySelector('.live input')?.select();
  };
  const lessons = 'Then build one yourself: “make lessons” starts the course. Lesson 2 is the head, lesson 4 the layer, lesson 7 the beam.';
  return el('div.row.story-end', button('Now your text', yours, { class: 'primary', data: { key: 'yours' } }), lessons);
}
