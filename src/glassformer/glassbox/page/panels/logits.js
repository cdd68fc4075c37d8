/** Logits: the most probable next tokens, the prediction after each layer (logit lens), and what each head adds to a logit. */

import { bdi, button, choices, el, row, section, slider, table, wide } from 'glassbox/core/dom.js';
import { digits, percent, rowOf } from 'glassbox/core/numbers.js';
import { noEdits, rowOfPart } from 'glassbox/panels/selection.js';
import { pickable } from 'glassbox/views/pick.js';
import { sampled } from 'glassbox/model/sampling.js';
import { specialIds } from 'glassbox/model/source.js';
import { additions } from 'glassbox/story/layers.js';
import { predictionsOf } from 'glassbox/story/thread.js';
import { decodeIds } from 'glassbox/model/whatif.js';
import { stage } from 'glassbox/views/stage.js';
import { visible } from 'glassbox/model/trace.js';

const OF_SOURCE = ['copied_tokens', 'copy_keys']; // of a copy mechanism
const OF_ROWS = ['copy_products', 'copy_scores', 'own_logits', 'logits', 'log_probs'];
const [MIN_DECADES, MAX_DECADES] = [3, 12]; // of the log scale

export function logits(app) {
  const { row: step } = app;
  const { inputs, targets, kind } = app.rows;
  const found = app.trace.predictions[app.name('logits')][step];
  return [
    el('p.lead', 'One logit for each token of the vocabulary. Softmax turns the logits of a row into probabilities.'),
    app.trace.stepOf.has('copy_scores')
      ? el('p', 'A source token can be copied too: the copy scores of the positions that have a token are part of its logit.')
      : null,
    section(
      'predictions',
      [`Step ${step}: the next token after `, bdi(`'${visible(inputs[step].text)}'`)],
      el(
        'p',
        `${kind} `,
        bdi(`'${visible(targets[step].text)}'`),
        `: rank ${found.rank}. Margin of the most probable token over the second: ${digits(found.margin)} nats.`,
      ),
      distribution(app, step, found, targets[step].id),
      app.canEdit
        ? el('p.hint', 'Select a token to force it: the output up to this row and the token become a forced prefix.')
        : noEdits(app),
    ),
    lens(app),
    attribution(app, targets[step]),
    app.trace.has(app.name('logits'))
      ? null
      : el('p.hint', 'This page has no logits of all tokens: for a large vocabulary they are left out of the file.'),
    OF_SOURCE.map((name) => stage(app, name)),
    OF_ROWS.map((name) => stage(app, app.name(name), rowOfPart(app, 'decoder'))),
    app.state.gold ? [stage(app, 'gold.smoothed_targets', { row: step }), stage(app, 'gold.losses')] : null,
  ];
}

/** The most probable tokens as bars, with a scale, a temperature and top-p; only this part is drawn again. */
function distribution(app, step, { top }, target) {
  const all = app.trace.get(app.name('logits'));
  const bars = el('ul.bars.distribution');
  const words = el('p.size', { role: 'status' });
  const isLog = app.state.scale === 'log';
  const decades = decadesOf(top);
  const length = isLog ? (p) => Math.max(0, 1 + Math.log10(Math.max(p, 1e-300)) / decades) : (p) => p;
  const text = (p) => (isLog && p > 0 && p < 1e-4 ? p.toExponential(1).replace('-', '−') : percent(p));
  const draw = () => {
    const { temperature = 1, topP = 1 } = app.state;
    const { probabilities, kept } = all ? sampled(rowOf(all, step), temperature, topP) : {};
    const options = top.map(([id, token, probability]) => {
      const drawn = probabilities?.[id] ?? probability;
      const isKept = kept?.has(id) ?? true;
      return option(app, { id, token, length, text, probability, drawn, isKept, isTarget: id === target });
    });
    bars.replaceChildren(...options);
    const outside = temperature === 1 && topP === 1 ? '' : ' A mark on a bar: the probability without these settings.';
    words.textContent = kept
      ? `Sampling with temperature ${temperature} and top-p ${topP} draws from ${kept.size} of ${all.shape[1]} tokens.${outside}`
      : 'Temperature and top-p need the logits of all tokens.';
  };
  const control = (name, label, limits) => {
    const change = (value) => {
      app.state[name] = value;
      draw();
    };
    const field = slider(label, { ...limits, value: app.state[name] ?? 1 }, change);
    field.querySelector('input').disabled = !all;
    return field;
  };
  draw();
  return [
    el(
      'div.row',
      choices('scale', { linear: 'linear', log: 'log scale' }, app.state.scale, (scale) => app.set({ scale })),
      control('temperature', 'temperature', { min: 0.1, max: 2, step: 0.1 }),
      control('topP', 'top-p', { min: 0.05, max: 1, step: 0.05 }),
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
  const isFixed = !app.canEdit || app.state.gold || specialIds(app.trace.vocabularies.target).has(id);
  const select = () => force(app, [...app.rows.targets.slice(0, app.row).map((before) => before.id), id]);
  const title = { title: `force ${token}`, 'aria-label': `force '${token}'` };
  return el(
    'li',
    { data: { token: id } },
    isFixed ? el('span.bar', inside) : button(inside, select, { class: 'bar', ...title, data: { key: `force-${id}` } }),
    el('span', pickable(app, app.name('log_probs'), [app.row, id], text(drawn))),
    el('small', isKept ? '' : 'outside top-p ', isTarget ? `← ${app.rows.kind}` : ''),
  );
}

/** The model again, with these output tokens as a forced prefix in place of another one. */
export function force(app, ids) {
  const others = app.words.filter((words) => !words.startsWith('prefix '));
  return app.edit(ids.length ? [...others, `prefix ${decodeIds(app.base, 'target', ids)}`] : others);
}

/** The logit lens: the prediction after each decoder layer, without the layers above it. */
function lens(app) {
  const { targets, kind } = app.rows;
  const all = predictionsOf(app.trace, app.name('logits').replace('logits', ''));
  if (all.length < 2)
    return app.trace.layers('decoder') > 1 ? el('p.hint', 'The predictions after each layer are not available: the trace of a large vocabulary leaves them out.') : null;
  const cell = ({ top: [[id, text, p]] }, i) => {
    const isRight = id === targets[i].id;
    const title = `${visible(text)}: ${percent(p)}${isRight ? '' : `, not the ${kind}`}`;
    return el('td.lens-cell', { class: `${isRight ? 'right' : 'different'} ${i === app.row ? 'here' : ''}`, title, on: { click: () => app.set({ row: i }) } }, el('bdi', visible(text)), el('small', `${Math.round(p * 100)}\u00a0%`));
  };
  const layers = all.map((rows, layer) => row(`layer ${layer + 1}`, ...rows.map(cell)));
  return section(
    'after each layer',
    'Prediction after each layer (logit lens)',
    el('p.hint', `In each cell: the most probable token after the layer. What is not the ${kind} is dashed.`),
    wide(table('', [kind, ...targets.map(({ text }) => el('bdi', visible(text)))], layers.toReversed(), { class: 'lens' })),
  );
}

/** What each head and sublayer adds to the logit of the token of the step. */
function attribution(app, { id, text }) {
  const { trace, row: step } = app;
  const name = trace.projected(app.name('logits'));
  const found = additions(app, app.name('logits'), step, id);
  if (!found) return null;
  return section(
    'direct logit attribution',
    'What each head and layer adds to the logit (direct logit attribution)',
    el(
      'p.hint',
      'Each head and sublayer adds a vector to the residual stream. A bar is the part of the logit of ',
      bdi(`'${visible(text)}'`),
      ` that this vector makes, with the deviations of the norms as they are. The sum is ${name.endsWith('own_logits') ? 'its part without copying' : 'the logit'}: `,
      pickable(app, name, [step, id], digits(found.sum)),
      '.',
    ),
    found.element,
  );
}
