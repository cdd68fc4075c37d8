/** What if: edit the model or the text, and compare the outputs, the first changed step and all tensors. */

import { copyButton } from 'glassbox/copy.js';
import { bdi, button, el, select, table } from 'glassbox/dom.js';
import { digits } from 'glassbox/numbers.js';
import { noEdits, titleOf } from 'glassbox/panels/selection.js';
import { commandOf } from 'glassbox/result.js';
import { visible } from 'glassbox/trace.js';

const MAX_CHANGED = 12;

export function whatif(app) {
  if (!app.canEdit) return noEdits(app);
  const shown = app.edited ?? app.base;
  return [
    el(
      'p.lead',
      app.base.hasWeights
        ? 'Edit the model or the text. This page runs the model again and compares the results.'
        : 'Edit the model or the text. The server runs the model again, and the page shows the differences.',
    ),
    shown.difference ? [outcome(shown), commands(app, shown), largest(app, shown)] : el('p.hint', 'There are no edits.'),
    switches(app),
    sublayers(app),
    rowEdit(app),
    typed(app),
  ];
}

const toggle = (app, words, label) =>
  button(label, () => app.toggleEdit(words), {
    'aria-pressed': String(app.words.includes(words)),
    data: { key: `toggle-${words}` },
  });

const switches = (app) =>
  el(
    'section',
    { 'aria-label': 'switches' },
    el('h2', 'Whole model'),
    el(
      'div.row',
      toggle(app, 'positions off', 'no position encoding'),
      toggle(app, 'causal off', 'no causal mask'),
      toggle(app, 'scale off', 'no scaling by √d_k'),
    ),
  );

/** A button for each sublayer and layer, and for each head of an attention. */
function sublayers(app) {
  const layers = ['encoder', 'decoder'].flatMap((side) =>
    Array.from({ length: app.trace.layers(side) }, (_, i) => `${side}.${i}`),
  );
  const attentions = app.trace.attentions();
  const heads = Array.from({ length: app.trace.axes.head.length }, (_, head) => head);
  const rows = layers.map((layer) =>
    el(
      'tr',
      el(
        'th',
        { scope: 'row' },
        toggle(app, `layer ${layer} off`, layer.replace('.', ' layer ')),
      ),
      el(
        'td.switches',
        attentions
          .filter((name) => name.startsWith(`${layer}.`))
          .map((name) =>
            el(
              'div.row',
              toggle(
                app,
                `attention ${name} off`,
                name.split('.')[2] === 'self' ? 'self-attention' : 'cross-attention',
              ),
              heads.map((head) => toggle(app, `head ${name} ${head} off`, `head ${head}`)),
            ),
          ),
        el('div.row', toggle(app, `feed-forward ${layer} off`, 'feed-forward')),
      ),
    ),
  );
  return el(
    'section',
    { 'aria-label': 'switch off' },
    el('h2', 'Switch off'),
    el(
      'p.hint',
      'A head that is off has its rows of W_O set to 0 in a copy of the weights. A sublayer ' +
        'that is off outputs 0; the residual connection and the norm remain.',
    ),
    table('', [], rows),
  );
}

/** Attention weights of one row, set by the user: 1 for one key, 0 for the others. */
function rowEdit(app) {
  const { attention, head } = app.state;
  const weights = app.trace.get(`${attention}.weights`);
  const isDecoder = attention.startsWith('decoder');
  const row = isDecoder ? Math.min(app.row, weights.shape[1] - 1) : Math.min(app.state.column, weights.shape[1] - 1);
  const length = isDecoder && attention.endsWith('self') ? row + 1 : weights.shape[2];
  const apply = (position) => {
    const numbers = Array.from({ length }, (_, key) => (key === position ? 1 : 0)).join(',');
    const start = `attention ${attention} head ${head} row ${row} =`;
    app.edit([...app.words.filter((words) => !words.startsWith(start)), `${start} ${numbers}`]);
  };
  return el(
    'section',
    { 'aria-label': 'attention row' },
    el('h2', 'Attend to one position only'),
    el('p.hint', 'Select a key: its weight in this row becomes 1, and the other weights become 0.'),
    el(
      'div.row',
      select(
        'attention',
        app.trace.attentions().map((name) => [name, titleOf(name)]),
        attention,
        (part) => app.set({ part }),
      ),
      select(
        'head',
        Array.from({ length: weights.shape[0] }, (_, i) => [i, i]),
        head,
        (chosen) => app.set({ head: Number(chosen) }),
      ),
      select(
        'row',
        Array.from({ length: weights.shape[1] }, (_, i) => [i, `${i} ${app.trace.label(weights.axes[1], i)}`]),
        row,
        (chosen) => app.set(isDecoder ? { row: Number(chosen) } : { column: Number(chosen) }),
        'row-choice',
      ),
    ),
    el(
      'div.row',
      Array.from({ length }, (_, key) =>
        button(el('bdi', `${key} ${app.trace.label(weights.axes[2], key)}`), () => apply(key), {
          data: { key: `look-${key}` },
        }),
      ),
    ),
  );
}

/** Any edit, in the syntax of `explain --edit`. */
function typed(app) {
  const input = el('input', {
    name: 'words',
    'aria-label': 'an edit, as for --edit',
    placeholder: 'token 3=7 · prefix Jan · head encoder.0.self 2 off',
    size: 44,
    autocomplete: 'off',
    spellcheck: 'false',
    data: { key: 'typed' },
  });
  const submit = (event) => {
    event.preventDefault();
    if (input.value.trim()) app.edit([...app.words, input.value.trimStart()]);
  };
  return el(
    'section',
    { 'aria-label': 'any edit' },
    el('h2', 'Any edit, as for --edit'),
    el(
      'form.row',
      { on: { submit } },
      input,
      button('apply', () => {}, { type: 'submit', class: 'primary', data: { key: 'apply' } }),
    ),
  );
}

function outcome({ difference }) {
  const row = (name, { before, after, first_changed_step: first }) =>
    el(
      'tr',
      { data: { outcome: name } },
      el('th', { scope: 'row' }, name),
      [
        bdi(visible(before.text)),
        bdi(visible(after.text)),
        digits(before.score),
        digits(after.score),
        first === null ? 'none' : String(first),
      ].map((part) => el('td', part)),
    );
  return el(
    'section',
    { 'aria-label': 'before and after' },
    el('h2', 'Before and after'),
    el(
      'div.scroller',
      table(
        '',
        ['search', 'before', 'after', 'log-probability before', 'log-probability after', 'first changed step'],
        [row('greedy', difference.greedy), row('beam', difference.beam)],
      ),
    ),
  );
}

function largest(app, { difference }) {
  const changed = Object.entries(difference.largest)
    .filter(([, change]) => change > 0)
    .sort(([, one], [, other]) => other - one);
  return el(
    'section',
    { 'aria-label': 'largest changes' },
    el('h2', 'Largest changes'),
    el(
      'p.hint',
      `${changed.length} ${changed.length === 1 ? 'tensor' : 'tensors'} changed. ` +
        'For this comparison the decoder input is the output from before the edits.',
    ),
    table(
      '',
      ['tensor', 'largest change'],
      changed.slice(0, MAX_CHANGED).map(([name, change]) =>
        el(
          'tr',
          el(
            'th',
            { scope: 'row' },
            button(el('code', name), () => app.goTo(name), { class: 'link', data: { key: `changed-${name}` } }),
          ),
          el('td', digits(change)),
        ),
      ),
    ),
  );
}

/** The command with the same effect, and of several edits each by itself. */
function commands(app, { edits }) {
  const all = commandOf(app, edits);
  return el(
    'section',
    { 'aria-label': 'as a command' },
    el('h2', 'Equivalent command'),
    el('pre', { tabindex: 0 }, el('code', all)),
    copyButton('copy', () => all, { data: { key: 'copy' } }),
    edits.length > 1
      ? el(
          'ul.own-edits',
          { 'aria-label': 'each edit by itself' },
          edits.map((words) =>
            el(
              'li',
              el('code', words),
              app.words.includes(words)
                ? button('undo', () => app.toggleEdit(words), { class: 'link', 'aria-label': `undo ${words}`, data: { key: `own-${words}` } })
                : null,
              copyButton('copy its command', () => commandOf(app, [words]), { class: 'link', data: { key: `command-${words}` } }),
            ),
          ),
        )
      : null,
  );
}
