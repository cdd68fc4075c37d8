/** What if: edit the model or the text; the answers before and after are above every panel (see result.js). */

import { button, el, range, row, section, select, table, textField } from 'glassbox/dom.js';
import { digits } from 'glassbox/numbers.js';
import { attentionSelect, noEdits, rowOfPart } from 'glassbox/panels/selection.js';

const MAX_CHANGED = 12;

export function whatif(app) {
  if (!app.canEdit) return noEdits(app);
  const { difference } = app.edited ?? app.base;
  return [
    el(
      'p.lead',
      app.base.hasWeights
        ? 'Edit the model or the text. This page runs the model again and compares the results.'
        : 'Edit the model or the text. The server runs the model again, and the page shows the differences.',
    ),
    difference ? largest(app, difference) : el('p.hint', 'There are no edits.'),
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
  section(
    'switches',
    'Whole model',
    el(
      'div.row',
      toggle(app, 'positions off', 'no position encoding'),
      toggle(app, 'causal off', 'no causal mask'),
      toggle(app, 'scale off', 'no scaling by √d_k'),
    ),
  );

/** A button for each sublayer and layer, and for each head of an attention. */
function sublayers(app) {
  const { trace } = app;
  const layers = ['encoder', 'decoder'].flatMap((side) => range(trace.layers(side)).map((i) => `${side}.${i}`));
  const headsOf = (name) =>
    range(trace.axes.head.length).map((head) => toggle(app, `head ${name} ${head} off`, `head ${head}`));
  const attention = (name) =>
    el('div.row', toggle(app, `attention ${name} off`, `${name.split('.')[2]}-attention`), headsOf(name));
  const rows = layers.map((layer) => {
    const attentions = trace.attentions().filter((name) => name.startsWith(`${layer}.`));
    const feedForward = el('div.row', toggle(app, `feed-forward ${layer} off`, 'feed-forward'));
    const heading = toggle(app, `layer ${layer} off`, layer.replace('.', ' layer '));
    return row(heading, el('td.switches', attentions.map(attention), feedForward));
  });
  return section(
    'switch off',
    'Switch off',
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
  const { axes, shape } = app.trace.get(`${attention}.weights`);
  const { row: chosen, onRow } = rowOfPart(app, attention);
  const line = Math.min(chosen, shape[1] - 1);
  const keys = range(/^decoder.*self$/.test(attention) ? line + 1 : shape[2]);
  const title = (axis, i) => `${i} ${app.trace.label(axes[axis], i)}`;
  const apply = (position) => {
    const numbers = keys.map((key) => (key === position ? 1 : 0)).join(',');
    const start = `attention ${attention} head ${head} row ${line} =`;
    app.edit([...app.words.filter((words) => !words.startsWith(start)), `${start} ${numbers}`]);
  };
  const lookAt = (key) => button(el('bdi', title(2, key)), () => apply(key), { data: { key: `look-${key}` } });
  const rows = range(shape[1]).map((i) => [i, title(1, i)]);
  const heads = range(shape[0]).map((i) => [i, i]);
  return section(
    'attention row',
    'Attend to one position only',
    el('p.hint', 'Select a key: its weight in this row becomes 1, and the other weights become 0.'),
    el(
      'div.row',
      attentionSelect(app),
      select('head', heads, head, (other) => app.set({ head: Number(other) })),
      select('row', rows, line, (other) => onRow(Number(other)), 'row-choice'),
    ),
    el('div.row', keys.map(lookAt)),
  );
}

/** Any edit, in the syntax of `explain --edit`. */
function typed(app) {
  const input = textField('typed', {
    name: 'words',
    'aria-label': 'an edit, as for --edit',
    placeholder: 'token 3=7 · prefix Jan · head encoder.0.self 2 off',
    size: 44,
  });
  const submit = (event) => {
    event.preventDefault();
    if (input.value.trim()) app.edit([...app.words, input.value.trimStart()]);
  };
  return section(
    'any edit',
    'Any edit, as for --edit',
    el(
      'form.row',
      { on: { submit } },
      input,
      button('apply', () => {}, { type: 'submit', class: 'primary', data: { key: 'apply' } }),
    ),
  );
}

/** The tensors that changed most; each is a link to its panel. */
function largest(app, difference) {
  const changed = Object.entries(difference.largest).filter(([, change]) => change > 0);
  changed.sort(([, one], [, other]) => other - one);
  const link = (name) =>
    button(el('code', name), () => app.goTo(name), { class: 'link', data: { key: `changed-${name}` } });
  return section(
    'largest changes',
    'Largest changes',
    el(
      'p.hint',
      `${changed.length} ${changed.length === 1 ? 'tensor' : 'tensors'} changed. ` +
        'For this comparison the decoder input is the output from before the edits.',
    ),
    table(
      '',
      ['tensor', 'largest change'],
      changed.slice(0, MAX_CHANGED).map(([name, change]) => row(link(name), digits(change))),
    ),
  );
}
