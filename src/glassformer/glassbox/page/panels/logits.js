/** Logits: the most probable next tokens, with temperature and top-p, and the prediction after each layer (logit lens). */

import { bdi, button, choices, el, slider, table } from 'glassbox/dom.js';
import { digits, percent, rowOf } from 'glassbox/numbers.js';
import { noEdits } from 'glassbox/panels/selection.js';
import { pickable } from 'glassbox/pick.js';
import { probabilityOf, sampled } from 'glassbox/sampling.js';
import { decodeIds, specialIds } from 'glassbox/whatif.js';
import { stage } from 'glassbox/stage.js';
import { visible } from 'glassbox/trace.js';

const [MIN_DECADES, MAX_DECADES] = [3, 12]; // of the log scale

export function logits(app) {
  const { row } = app;
  const { inputs, targets, kind } = app.rows;
  const found = app.trace.predictions[app.name('logits')][row];
  return [
    el('p.lead', 'One logit for each token of the vocabulary. Softmax turns the logits of a row into probabilities.'),
    el(
      'section',
      { 'aria-label': 'predictions' },
      el('h2', `Step ${row}: the next token after `, bdi(`'${visible(inputs[row].text)}'`)),
      el(
        'p',
        `${kind} `,
        bdi(`'${visible(targets[row].text)}'`),
        `: rank ${found.rank}. Margin of the most probable token over the second: ${digits(found.margin)} nats.`,
      ),
      distribution(app, row, found, targets[row].id),
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

/** The most probable tokens as bars, with a scale, a temperature and top-p; only this part is drawn again. */
function distribution(app, row, { top }, target) {
  const all = app.trace.get(app.name('logits'));
  const bars = el('ul.bars.distribution');
  const words = el('p.size', { role: 'status' });
  const setting = (name, initial) => app.state[name] ?? initial;
  const isLog = app.state.scale === 'log';
  const decades = decadesOf(top);
  const length = isLog ? (p) => Math.max(0, 1 + Math.log10(Math.max(p, 1e-300)) / decades) : (p) => p;
  const text = (p) => (isLog && p > 0 && p < 1e-4 ? p.toExponential(1).replace('-', '−') : percent(p));
  const draw = () => {
    const [temperature, topP] = [setting('temperature', 1), setting('topP', 1)];
    const { probabilities, kept } = all
      ? sampled(rowOf(all, row), temperature, topP)
      : { probabilities: null, kept: null };
    bars.replaceChildren(
      ...top.map(([id, token, probability]) =>
        option(app, {
          id,
          token,
          length,
          text,
          probability,
          drawn: probabilities?.[id] ?? probability,
          isKept: kept?.has(id) ?? true,
          isTarget: id === target,
        }),
      ),
    );
    const outside = temperature === 1 && topP === 1 ? '' : ' A mark on a bar: the probability without these settings.';
    words.textContent = kept
      ? `Sampling with temperature ${temperature} and top-p ${topP} draws from ${kept.size} of ${all.shape[1]} tokens.${outside}`
      : 'Temperature and top-p need the logits of all tokens.';
  };
  const change = (name) => (value) => {
    app.state[name] = value;
    draw();
  };
  const control = (name, label, options, key) => {
    const field = slider(label, { ...options, value: setting(name, 1) }, change(name), key);
    const input = field.querySelector('input');
    input.disabled = !all;
    input.addEventListener('input', () => (field.querySelector('output').textContent = input.value));
    return field;
  };
  draw();
  return [
    el(
      'div.row',
      choices(
        'scale',
        [
          ['linear', 'linear'],
          ['log', 'log scale'],
        ],
        app.state.scale ?? 'linear',
        (scale) => app.set({ scale }),
      ),
      control('temperature', 'temperature', { min: 0.1, max: 2, step: 0.1 }, 'temperature'),
      control('topP', 'top-p', { min: 0.05, max: 1, step: 0.05 }, 'top-p'),
    ),
    bars,
    isLog ? el('p.size', 'Log scale: a full bar is 1, an empty one 10', el('sup', `−${decades}`), '.') : null,
    words,
  ];
}

/** How many powers of ten the log scale has, so that all of the most probable tokens have a bar. */
const decadesOf = (top) =>
  Math.min(MAX_DECADES, Math.max(MIN_DECADES, Math.ceil(0.2 - Math.log10(Math.max(top.at(-1)[2], 1e-300)))));

function option(app, { id, token, length, text, probability, drawn, isKept, isTarget }) {
  const percentOf = (number) => `${length(number) * 100}%`;
  const mark = Math.abs(drawn - probability) < 1e-6 ? null : el('b', { style: { '--at': percentOf(probability) } });
  const inside = [
    el('bdi', { title: token }, visible(token)),
    el('i', { class: isKept ? null : 'cut', style: { '--fraction': percentOf(drawn) } }, mark),
  ];
  const facts = [
    el('span', pickable(app, app.name('log_probs'), [app.row, id], text(drawn))),
    el('small', isKept ? '' : 'outside top-p ', isTarget ? `← ${app.rows.kind}` : ''),
  ];
  const special = specialIds(app.trace.vocabularies.target).has(id);
  if (!app.canEdit || special || app.state.gold)
    return el('li', { data: { token: id } }, el('span.bar', inside), facts);
  const force = () => {
    const ids = [...app.rows.targets.slice(0, app.row).map((token) => token.id), id];
    const others = app.words.filter((words) => !words.startsWith('prefix '));
    app.edit([...others, `prefix ${decodeIds(app.base, 'target', ids)}`]);
  };
  return el(
    'li',
    { data: { token: id } },
    button(inside, force, {
      class: 'bar',
      title: `force ${token}`,
      'aria-label': `force '${token}'`,
      data: { key: `force-${id}` },
    }),
    facts,
  );
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
  const layerOf = (name, i) => (name.endsWith('lens.logits') ? `after layer ${i}` : `after layer ${i}: the model`);
  return el(
    'section',
    { 'aria-label': 'after each layer' },
    el('h2', 'Prediction after each layer (logit lens)'),
    el(
      'p.hint',
      `In each cell: the most probable token, and a bar with the probability of the ${kind}. ✓: they are the same.`,
    ),
    el(
      'div.scroller',
      table(
        '',
        ['step', kind, ...all.map(layerOf)],
        targets.map((token, row) =>
          el(
            'tr',
            { class: row === app.row ? 'lit' : null, data: { at: `${app.state.gold ? 'g' : 't'}${row}` } },
            el('th', { scope: 'row' }, String(row)),
            el('td', bdi(visible(token.text))),
            all.map((name, i) => lensCell(app, name, row, token, `${layerOf(name, i)}: the ${kind} has rank`)),
          ),
        ),
      ),
    ),
  );
}

function lensCell(app, name, row, token, title) {
  const { top, rank } = app.trace.predictions[name][row];
  const [id, text, probability] = top[0];
  const x = app.trace.get(name);
  const ofTarget = x ? probabilityOf(rowOf(x, row), token.id) : (top.find(([other]) => other === token.id)?.[2] ?? 0);
  return el(
    'td.lens',
    { class: id === token.id ? 'right' : null, title: `${title} ${rank}` },
    el('i', { style: { '--fraction': `${ofTarget * 100}%` }, data: { probability: ofTarget } }),
    bdi(visible(text)),
    ' ',
    pickable(app, name, [row, id], percent(probability)),
    id === token.id ? ' ✓' : '',
  );
}
