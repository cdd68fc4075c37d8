/** Logits: what the model would say next, how sure it is, and what it would have said after each layer. */

import { bdi, button, el, table } from 'glassbox/dom.js';
import { digits, percent } from 'glassbox/numbers.js';
import { noEdits, spoken } from 'glassbox/panels/place.js';
import { decodeIds } from 'glassbox/whatif.js';
import { stage } from 'glassbox/stage.js';
import { visible } from 'glassbox/trace.js';

export function logits(app) {
  const { row } = app;
  const { fed, asked } = app.rows;
  const found = app.trace.predictions[app.name('logits')][row];
  return [
    el('p.lead', 'A number for each token of the vocabulary; softmax makes shares of them.'),
    el(
      'section',
      { 'aria-label': 'predictions' },
      el('h2', `Row ${row}: after `, bdi(visible(fed[row].text)), ' comes …'),
      el(
        'p',
        'asked for ',
        bdi(visible(asked[row].text)),
        `: rank ${found.rank}, the best is ${digits(found.margin)} nats ahead of the next`,
      ),
      el(
        'ul.bars',
        found.top.map(([id, text, share]) => option(app, id, text, share, id === asked[row].id)),
      ),
      app.canEdit
        ? el('p.hint', 'Choose a token to force it here: the answer so far and this token become the start.')
        : noEdits(app),
    ),
    lens(app),
    stage(app, app.name('logits'), { row, onRow: (place) => app.set({ row: place }) }),
    stage(app, app.name('log_probs'), { row, onRow: (place) => app.set({ row: place }) }),
    app.state.gold ? [stage(app, 'gold.wanted', { row }), stage(app, 'gold.losses')] : null,
  ];
}

function option(app, id, text, share, isAsked) {
  const inside = [
    el('bdi', { title: text }, visible(text)),
    el('i', { style: { '--share': `${share * 100}%` } }),
    el('span', percent(share)),
    isAsked ? el('small', ' ← asked for') : null,
  ];
  const special = Object.values(app.trace.vocabularies.target.specials).includes(id);
  if (!app.canEdit || special || app.state.gold) return el('li', inside);
  const force = () => {
    const ids = [...app.rows.asked.slice(0, app.row).map((token) => token.id), id];
    const others = app.words.filter((words) => !words.startsWith('prefix '));
    app.edit([...others, `prefix ${decodeIds(app.base, 'target', ids)}`]);
  };
  return el('li', button(inside, force, { class: 'bar', title: `force ${text}`, data: { key: `force-${id}` } }));
}

/** The prediction read off after each layer, as if the others were not there. */
function lens(app) {
  const names = Object.keys(app.trace.predictions).filter(
    (name) => name.endsWith('lens.logits') && name.startsWith('gold.') === (app.name('logits') === 'gold.logits'),
  );
  if (!names.length)
    return el(
      'p.hint',
      app.trace.layers('decoder') > 1
        ? 'Predictions after each layer are left out of the trace of a large vocabulary.'
        : null,
    );
  const all = [...names, app.name('logits')];
  const { asked } = app.rows;
  const title = (name) =>
    name.endsWith('lens.logits')
      ? spoken(name.replace('gold.', '').replace('.lens.logits', '')).replace(/\.\d+$/, '')
      : 'the model';
  const layerOf = (name, i) =>
    name.endsWith('lens.logits') ? `after layer ${i + 1}` : `after layer ${i + 1}: the answer`;
  return el(
    'section',
    { 'aria-label': 'after each layer' },
    el('h2', 'Read off after each layer'),
    el(
      'div.scroller',
      table(
        '',
        ['row', 'asked for', ...all.map(layerOf)],
        asked.map((token, row) =>
          el(
            'tr',
            { class: row === app.row ? 'lit' : null },
            el('th', { scope: 'row' }, String(row)),
            el('td', bdi(visible(token.text))),
            all.map((name) => {
              const {
                top: [[id, text, share]],
                rank,
              } = app.trace.predictions[name][row];
              return el(
                'td',
                {
                  class: id === token.id ? 'right' : null,
                  title: `${title(name)}: rank of the token asked for ${rank}`,
                },
                bdi(visible(text)),
                el('small', ` ${percent(share)}${id === token.id ? ' ✓' : ''}`),
              );
            }),
          ),
        ),
      ),
    ),
  );
}
