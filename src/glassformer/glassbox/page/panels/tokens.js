/** Tokens: text → tokens → ids and training counts; the decoder input and the target, shifted by one. */

import { bdi, button, el, range, row, section, table, textField, wide } from 'glassbox/core/dom.js';
import { digits, grouped, percent } from 'glassbox/core/numbers.js';
import { noEdits } from 'glassbox/panels/selection.js';
import { pickable } from 'glassbox/views/pick.js';
import { ordinary, visible } from 'glassbox/model/trace.js';

const LISTED = 200;

export function tokens(app) {
  const { depth, gold } = app.state;
  return [
    el(
      'p.lead',
      'A model reads token ids, not text. The text is split into tokens, each token ' +
        `has an id, and ${app.trace.tokens.source[0].kind === 'bos' ? '<bos> and <eos> are' : '<eos> is'} added.`,
    ),
    section('source', 'The source', chips(app), noEdits(app)),
    section(
      'target',
      gold ? 'Decoder input and target, shifted by one' : 'Decoder input and output, shifted by one',
      el(
        'p.words',
        gold
          ? 'Each row has an input token of the decoder, and its target, the next token. The target is the ' +
              'whole sequence, shifted by one.'
          : 'Each row has an input token of the decoder, and the next token of the output, which is the next ' +
              'decoder input.',
      ),
      shifted(app),
      depth === 'words' ? null : targetTable(app),
    ),
    section(
      'vocabularies',
      'Vocabularies and training counts',
      ['source', 'target'].map((side) => coverage(app, side)),
    ),
  ];
}

const SUGGESTED = 2000; // pieces in the list of suggestions

const chips = (app) => [
  suggestions(app),
  el(
    'ol.chips',
    app.trace.tokens.source.map((token, position) => {
      const isEdited = app.base.tokens.source[position]?.id !== token.id;
      return el(
        'li.chip',
        { class: `${token.kind} ${isEdited ? 'changed' : ''}`, data: { at: `s${position}` } },
        el('small', String(position)),
        editable(app, token, position),
        el('small.id', `id ${token.id}`),
        token.count === null ? null : el('small', { title: 'times in the training data' }, `${grouped(token.count)}×`),
        token.given ? el('small.wrong', 'unknown: ', bdi(token.given)) : null,
        token.input ? el('small.id', bdi(token.input)) : null,
      );
    }),
  ),
];

const suggestions = ({ base }) =>
  el(
    'datalist',
    { id: 'pieces' },
    ordinary(base, 'source')
      .slice(0, SUGGESTED)
      .map(({ text }) => el('option', { value: text })),
  );

/** A token as a field: another token is an edit. */
function editable(app, token, position) {
  if (!app.canEdit || ['bos', 'eos', 'pad'].includes(token.kind)) return bdi(visible(token.text));
  const change = (event) => {
    const others = app.words.filter((words) => !words.startsWith(`token ${position}=`));
    const isBack = event.target.value === app.base.tokens.source[position].text;
    app.edit(isBack || event.target.value === '' ? others : [...others, `token ${position}=${event.target.value}`]);
  };
  return textField(`token-${position}`, {
    class: 'piece',
    value: token.text,
    list: 'pieces',
    size: Math.max(1, Math.min(12, token.text.length)),
    'aria-label': `source token ${position}, ${token.text}: type another token`,
    on: { change, focus: (event) => event.target.select() },
  });
}

const count = (token) => (token.count === null ? 'not available' : grouped(token.count));

/** How a decoder row is lit: where it is selected, and with its token, see hover.js. */
const lit = (app, i) => ({
  class: i === app.row ? 'lit' : null,
  data: { at: `${app.state.gold ? 'g' : 't'}${i}` },
});

/** The decoder input and the target as two lines, one above the other. */
function shifted(app) {
  const { inputs, targets, kind } = app.rows;
  const step = (i) => button(String(i), () => app.set({ row: i }), { class: 'link', data: { key: `shift-${i}` } });
  const cells = (tokens) => tokens.map((token, i) => el('td', lit(app, i), bdi(visible(token.text), token.kind)));
  const rows = [
    row('step', ...range(inputs.length).map(step)),
    row('decoder input', ...cells(inputs)),
    row(kind, ...cells(targets)),
  ];
  return wide(el('table.shift', { 'aria-label': `decoder input and ${kind}` }, el('tbody', rows)));
}

function targetTable(app) {
  const { trace, state } = app;
  const { inputs, targets, kind } = app.rows;
  const losses = state.gold ? trace.get('gold.losses') : null;
  const smoothing = trace.provenance.settings.training?.label_smoothing ?? 0;
  const columns = ['step', 'decoder input', kind, 'id', 'training count', 'probability'];
  const known = (p, text) => (p === null ? 'not available' : text(p));
  const ofLoss = (p, i) => [
    known(p, () => digits(-Math.log(p))),
    pickable(app, 'gold.losses', [i], digits(losses.numbers[i])),
  ];
  const lines = targets.map((token, i) => {
    const p = trace.probabilityOf(app.name('logits'), i, token.id);
    const probability = () => pickable(app, app.name('log_probs'), [i, token.id], percent(p));
    const texts = [inputs[i], token].map(({ text }) => bdi(visible(text)));
    const numbers = [String(token.id), count(token), known(p, probability), ...(losses ? ofLoss(p, i) : [])];
    return row(lit(app, i), String(i), ...texts, ...numbers);
  });
  return table(
    state.gold ? 'target, teacher forcing' : 'output',
    losses ? [...columns, 'cross-entropy', `loss (label smoothing ${smoothing})`] : columns,
    lines,
  );
}

/** The vocabulary of a side; tokens that are not in the training data are gray, and counted. */
function coverage({ trace }, side) {
  const { axis, counts } = trace.vocabularies[side];
  const all = trace.axes[axis].labels.length;
  if (!counts.length) return el('p.hint', `${side}: ${grouped(all)} tokens; the training counts are not available.`);
  const listed = ordinary(trace, side);
  const unseen = listed.filter((token) => token.count === 0).length;
  return el(
    'div',
    el(
      'p',
      `${side}: ${grouped(all)} tokens, ${all - listed.length} of them special. ` +
        (unseen
          ? `${grouped(unseen)} of the other ${grouped(listed.length)} are not in the training data (gray).`
          : `All other ${grouped(listed.length)} are in the training data.`),
    ),
    el(
      'ul.vocabulary',
      { 'aria-label': `${side} vocabulary` },
      listed.slice(0, LISTED).map(({ id, text, count: times }) => {
        const title = `id ${id}, ${grouped(times)} times in the training data`;
        return el('li', { class: times === 0 ? 'never' : null, title }, el('bdi', visible(text)));
      }),
    ),
    listed.length > LISTED ? el('p.size', `the first ${LISTED} of ${grouped(listed.length)}`) : null,
  );
}
