/** Errors: the wrong answers on held-out rows, with their differences from the target, by kind, commonest first. */

import { openText } from 'glassbox/views/ask.js';
import { bdi, button, el, section, sentence, table, wide } from 'glassbox/core/dom.js';
import { digits, grouped, percent } from 'glassbox/core/numbers.js';
import { difference, kindOf, kindOfWords, wordsOf } from 'glassbox/model/differences.js';
import { explainCommand, quoted } from 'glassbox/views/result.js';
import { cannotOpen } from 'glassbox/views/typing.js';
import { visible } from 'glassbox/model/trace.js';

const PROSE = 5; // words: longer texts are compared word by word
const LISTED = 50;

export function errors(app) {
  const { errors: found, notices = [] } = app.trace;
  if (!found)
    return [
      notices.map((notice) => el('p.wrong', notice)),
      el(
        'p.hint',
        'The wrong answers on held-out rows are not available in this trace. To list them: ',
        el('code', 'glassformer evaluate MODEL TABLE --json'),
        '. To open one of them together with its target: ',
        el('code', 'glassformer explain MODEL SOURCE --target GOLD --html FILE'),
        '.',
      ),
    ];
  if (!found.wrong)
    return el('p.lead', `All ${grouped(found.rows)} held-out sources that were translated have a correct answer.`);
  const total = found.examples.length;
  const isProse = found.examples.filter(({ target }) => wordsOf(target).length >= PROSE).length * 2 > total;
  const split = isProse ? wordsOf : undefined;
  const examples = found.examples.map((one) => ({ ...one, parts: difference(one.target, one.answer, split) }));
  const groups = [...Map.groupBy(examples, (example) => groupOf(app, example, isProse))];
  groups.sort(([, one], [, other]) => other.length - one.length);
  const [first] = groups;
  return [
    el(
      'p.lead',
      `${grouped(found.wrong)} of ${grouped(found.rows)} held-out sources that were translated ` +
        `have a wrong answer (${percent(found.wrong / found.rows)}).`,
      total < found.wrong ? ` The trace has ${grouped(total)} of them.` : null,
    ),
    first ? el('p.then', el('strong', capital(first[0])), ` in ${grouped(first[1].length)} of ${grouped(total)}.`) : null,
    groups.map(([name, members]) => group(app, name, members, isProse)),
  ];
}

const capital = (text) => sentence(text).slice(0, -1);

/** The kind of error, from the texts alone. */
function groupOf(app, { source, parts }, isProse) {
  const tokenizer = app.trace.tokenizer('source');
  if (tokenizer.kind === 'characters' && !tokenizer.inputs && tokenizer.split(source).some(([letter]) => !tokenizer.ids.has(letter)))
    return 'unknown characters in the source';
  return isProse ? kindOfWords(parts) : kindOf(parts);
}

/** One of the two texts, with what is different marked: underlined, or a sign where characters are missing. */
function marked(parts, side, isProse) {
  const shownOf = (text) => (isProse ? text : visible(text));
  const other = side === 'target' ? 'answer' : 'target';
  return el(
    'bdi.token.diff',
    parts.map((part) => {
      const text = shownOf(part[side]);
      if (part.kind === 'same') return text;
      if (part[side] === '')
        return side === 'answer' ? el('mark.gap', { title: `missing: ${shownOf(part[other])}` }, '‸') : null;
      const title = part[other] ? `${other}: ${shownOf(part[other])}` : `not in the ${other}`;
      return el('mark', { class: `in-${side}`, title }, text);
    }),
  );
}

function group(app, name, examples, isProse) {
  const columns = ['source', 'target', 'answer', 'log-probability', 'look inside'];
  const lines = examples.slice(0, LISTED).map((example) => {
    const source = bdi(isProse ? example.source : visible(example.source));
    const texts = ['target', 'answer'].map((side) => marked(example.parts, side, isProse));
    return el('tr', [source, ...texts, digits(example.score), opener(app, example)].map((part) => el('td', part)));
  });
  return section(
    name,
    `${capital(name)}: ${grouped(examples.length)}`,
    { data: { kind: name } },
    wide(table('', columns, lines, { class: isProse ? 'prose' : null })),
    examples.length > LISTED ? el('p.size', `the first ${LISTED} of ${grouped(examples.length)}`) : null,
  );
}

/** A button that opens the pair; where this page cannot, one that shows the command that does it, and copies it. */
function opener(app, { source, target }) {
  if (app.base.inputs) return null; // the readable form of several inputs is not what a command takes
  if (!cannotOpen(app)) {
    const open = async () => {
      app.problem = await openText(app, { text: source, target: app.server ? target : null });
      if (app.problem) app.notify(false, null);
    };
    return button('open', open, { class: 'link' });
  }
  const command = explainCommand(app.trace, source, [`--target ${quoted(target)}`, '--html error.html']);
  const copy = (event) => {
    navigator.clipboard?.writeText(command).catch(() => {});
    event.currentTarget.replaceWith(el('code.command', { tabindex: 0 }, command));
  };
  return button('command', copy, { class: 'link', title: command });
}
