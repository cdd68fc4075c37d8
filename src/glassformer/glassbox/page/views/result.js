/** The effect of the edits, above every panel: the answer before and after, with the differing tokens marked. */

import { marked } from 'glassbox/model/differences.js';
import { copyButton } from 'glassbox/core/copy.js';
import { button, choices, el } from 'glassbox/core/dom.js';
import { digits } from 'glassbox/core/numbers.js';
import { visible } from 'glassbox/model/trace.js';

/** The card, with messages; null if there is nothing to say. */
export function result(app) {
  const { edits } = app.edited ?? app.base;
  if (!edits.length && !app.problem && !app.busy && !app.notice) return null;
  return el(
    'div.edited',
    { role: 'status' },
    app.busy ? el('span.computing', app.busy, app.canStop ? [' ', stopButton(app.server)] : null) : null,
    app.notice ? message(app, 'notice', 'notice') : null,
    app.problem ? message(app, 'problem', 'wrong') : null,
    app.edited ? effect(app) : null,
    edits.length ? el('div.row.edits', el('span.size', 'edits'), edits.map((words) => pill(app, words)), tools(app, edits)) : null,
  );
}

export const stopButton = (server) => button('stop', () => server.stop(), { data: { key: 'stop' } });

function message(app, what, kind) {
  const dismiss = () => {
    app[what] = '';
    app.notify();
  };
  const name = { class: 'link', 'aria-label': 'close this message', data: { key: 'dismiss' } };
  return el(`span.${kind}`, app[what], button('✕', dismiss, name));
}

const pill = (app, words) =>
  app.words.includes(words)
    ? button([words, ' ✕'], () => app.toggleEdit(words), {
        class: 'pill',
        'aria-label': `undo: ${words}`,
        title: 'undo this edit',
        data: { key: `edit-${words}` },
      })
    : el('span.pill', words);

function tools(app, edits) {
  const command = commandOf(app, edits);
  return [
    app.words.length > 0 ? button('undo all', () => app.edit([]), { class: 'link', data: { key: 'edit-none' } }) : null,
    copyButton('copy as a command', () => command, { class: 'link', title: command, data: { key: 'copy-command' } }),
  ];
}

const SIDES = { before: 'before', after: 'after', difference: 'difference' };

/** The answers of beam search, one above the other. */
function effect(app) {
  const { base, edited } = app;
  const { beam, greedy } = edited.difference;
  const first = beam.first_changed_step;
  const rows = [base, edited].map((trace) => trace.tokens.target_out);
  const marks = marked(...rows);
  const line = (name, trace, i, answer) =>
    el(
      'div.line',
      { data: { side: name } },
      el('span.size', name),
      el(
        'bdi.token',
        rows[i].map((token, at) => {
          const text = token.kind === 'eos' ? '' : visible(token.text);
          return marks[i][at] && text ? el('mark', text) : text;
        }),
        trace.translation ? null : '(empty)',
      ),
      el('small', ` score ${digits(answer.score)}${answer.finished ? '' : ', cut off'}`),
    );
  return el(
    'div.effect',
    el('div.lines', line('before', base, 0, beam.before), line('after', edited, 1, beam.after)),
    el(
      'span.verdict',
      first === null ? '= the same answer' : `≠ from step ${first} on`,
      base.search.beam.num_beams === 1
        ? null
        : el('small', greedy.first_changed_step === null ? 'greedy search: the same' : `greedy search: from step ${greedy.first_changed_step} on`),
    ),
    choices('compare', SIDES, app.state.compare, (compare) => app.set({ compare })),
  );
}

export const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The command that explains a text with the model of a trace. */
export const explainCommand = ({ provenance }, text, options) =>
  ['glassformer explain', quoted(provenance.model.replace(/\/model\.safetensors$/, '')), quoted(text), ...options].join(' ');

/** The command with the same effect. */
function commandOf({ base }, edits) {
  const [text, ...others] = base.inputs ? Object.entries(base.inputs) : [['', base.text]];
  const { num_beams: beams } = base.search.beam;
  return explainCommand(base, text[1], [
    ...others.map(([name, cell]) => `--feature ${quoted(`${name}=${cell}`)}`),
    ...(beams === base.provenance.decoding.num_beams ? [] : [`--beam ${beams}`]),
    ...edits.map((words) => `--edit ${quoted(words)}`),
  ]);
}
