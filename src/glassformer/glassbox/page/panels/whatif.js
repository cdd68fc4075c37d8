/** What if: edit the model, or compare two texts; the answers before and after are above every panel (see result.js). */

import { el, form, range, row, section, table, textField } from 'glassbox/core/dom.js';
import { headTitle, layerTitle } from 'glassbox/model/labels.js';
import { twoTexts } from 'glassbox/panels/patching.js';
import { editButton, noEdits } from 'glassbox/panels/selection.js';

export function whatif(app) {
  if (!app.canEdit) return noEdits(app);
  return [
    el(
      'p.lead',
      app.base.hasWeights
        ? 'Edit the model or the text. This page runs the model again and compares the results.'
        : 'Edit the model or the text. The server runs the model again, and the page shows the differences.',
    ),
    twoTexts(app),
    switches(app),
    sublayers(app),
    typed(app),
  ];
}

const switches = (app) =>
  section(
    'switches',
    'Whole model',
    el(
      'div.row',
      editButton(app, 'positions off', 'no position encoding'),
      editButton(app, 'causal off', 'no causal mask'),
      editButton(app, 'scale off', 'no scaling by √d_k'),
    ),
  );

/** A button for each sublayer and layer, and for each head of an attention. */
function sublayers(app) {
  const { trace } = app;
  const layers = ['encoder', 'decoder'].flatMap((side) => range(trace.layers(side)).map((i) => `${side}.${i}`));
  const headsOf = (name) =>
    range(trace.axes.head.length).map((head) => editButton(app, `head ${name} ${head} off`, headTitle(head)));
  const attention = (name) =>
    el('div.row', editButton(app, `attention ${name} off`, `${name.split('.')[2]}-attention`), headsOf(name));
  const rows = layers.map((layer) => {
    const attentions = trace.attentions().filter((name) => name.startsWith(`${layer}.`));
    const feedForward = el('div.row', editButton(app, `feed-forward ${layer} off`, 'feed-forward'));
    const heading = editButton(app, `layer ${layer} off`, `${layer.split('.')[0]} ${layerTitle(trace, ...layer.split('.'))}`);
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

/** Any edit, in the syntax of `explain --edit`. */
function typed(app) {
  const input = textField('typed', {
    name: 'words',
    'aria-label': 'an edit, as for --edit',
    placeholder: 'token 3=7 · prefix Jan · head encoder.0.self 2 off',
    size: 44,
  });
  const apply = () => input.value.trim() && app.edit([...app.words, input.value.trimStart()]);
  return section('any edit', 'Any edit, as for --edit', form('form.row', 'apply', 'apply', apply, input));
}
