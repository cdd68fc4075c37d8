/** Logits: the most probable next tokens with their probabilities, and the prediction after each layer (logit lens). */

import { bdi, button, el, table } from 'glassbox/dom.js';
import { digits, percent } from 'glassbox/numbers.js';
import { noEdits } from 'glassbox/panels/selection.js';
import { decodeIds, specialIds } from 'glassbox/whatif.js';
import { stage } from 'glassbox/stage.js';
import { visible } from 'glassbox/trace.js';

export function logits(app) {
  const { row } = app;
  const { inputs, targets, kind } = app.rows;
  const found = app.trace.predictions[app.name('logits')][row];
  return [
    el('p.lead', 'One logit for each token of the vocabulary. Softmax turns the logits of a row into probabilities.'),
    el(
      'section',
      { 'aria-label': 'predictions' },
      el('h2', `Row ${row}: the next token after `, bdi(visible(inputs[row].text))),
      el(
        'p',
        `${kind} `,
        bdi(visible(targets[row].text)),
        `: rank ${found.rank}. Margin of the most probable token over the second: ${digits(found.margin)} nats.`,
      ),
      el(
        'ul.bars',
        found.top.map(([id, text, probability]) => option(app, id, text, probability, id === targets[row].id)),
      ),
      app.canEdit
        ? el('p.hint', 'Select a token to force it: the output up to this row and the token become a forced prefix.')
        : noEdits(app),
    ),
    lens(app),
    app.trace.has(app.name('logits'))
      ? null
      : el('p.hint', 'This page has no logits of all tokens: for a large vocabulary they are left out of the file.'),
    stage(app, app.name('logits'), { row, onRow: (chosen) => app.set({ row: chosen }) }),
    stage(app, app.name('log_probs'), { row, onRow: (chosen) => app.set({ row: chosen }) }),
    app.state.gold ? [stage(app, 'gold.smoothed_targets', { row }), stage(app, 'gold.losses')] : null,
  ];
}

function option(app, id, text, probability, isTarget) {
  const inside = [
    el('bdi', { title: text }, visible(text)),
    el('i', { style: { '--fraction': `${probability * 100}%` } }),
    el('span', percent(probability)),
    isTarget ? el('small', ` ← ${app.rows.kind}`) : null,
  ];
  const special = specialIds(app.trace.vocabularies.target).has(id);
  if (!app.canEdit || special || app.state.gold) return el('li', inside);
  const force = () => {
    const ids = [...app.rows.targets.slice(0, app.row).map((token) => token.id), id];
    const others = app.words.filter((words) => !words.startsWith('prefix '));
    app.edit([...others, `prefix ${decodeIds(app.base, 'target', ids)}`]);
  };
  return el('li', button(inside, force, { class: 'bar', title: `force ${text}`, data: { key: `force-${id}` } }));
}

/** The logit lens: the prediction after each decoder layer, without the layers above it. */
function lens(app) {
  const names = Object.keys(app.trace.predictions).filter(
    (name) => name.endsWith('lens.logits') && name.startsWith('gold.') === (app.name('logits') === 'gold.logits'),
  );
  if (!names.length)
    return el(
      'p.hint',
      app.trace.layers('decoder') > 1
        ? 'The predictions after each layer are not available: the trace of a large vocabulary leaves them out.'
        : null,
    );
  const all = [...names, app.name('logits')];
  const { targets, kind } = app.rows;
  const layerOf = (name, i) =>
    name.endsWith('lens.logits') ? `after layer ${i}` : `after layer ${i}: the model`;
  return el(
    'section',
    { 'aria-label': 'after each layer' },
    el('h2', 'Prediction after each layer (logit lens)'),
    el(
      'div.scroller',
      table(
        '',
        ['row', kind, ...all.map(layerOf)],
        targets.map((token, row) =>
          el(
            'tr',
            { class: row === app.row ? 'lit' : null },
            el('th', { scope: 'row' }, String(row)),
            el('td', bdi(visible(token.text))),
            all.map((name, i) => {
              const {
                top: [[id, text, probability]],
                rank,
              } = app.trace.predictions[name][row];
              return el(
                'td',
                {
                  class: id === token.id ? 'right' : null,
                  title: `${layerOf(name, i)}: the ${kind} has rank ${rank}`,
                },
                bdi(visible(text)),
                el('small', ` ${percent(probability)}${id === token.id ? ' ✓' : ''}`),
              );
            }),
          ),
        ),
      ),
    ),
  );
}
