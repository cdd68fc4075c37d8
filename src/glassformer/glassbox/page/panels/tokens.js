/** Tokens: text → tokens → ids; the decoder input and the target, shifted by one. */

import { bdi, button, el, table } from 'glassbox/dom.js';
import { digits, grouped, percent } from 'glassbox/numbers.js';
import { noEdits } from 'glassbox/panels/selection.js';
import { pickable } from 'glassbox/pick.js';
import { visible } from 'glassbox/trace.js';

const LISTED = 200;

export function tokens(app) {
  const { depth } = app.state;
  return [
    el(
      'p.lead',
      'A model reads token ids, not text. The text is split into tokens, each token ' +
        `has an id, and ${app.trace.tokens.source[0].kind === 'bos' ? '<bos> and <eos> are' : '<eos> is'} added.`,
    ),
    el(
      'section',
      { 'aria-label': 'source' },
      el('h2', 'The source'),
      chips(app),
      depth === 'words' ? null : sourceTable(app),
      noEdits(app),
    ),
    el(
      'section',
      { 'aria-label': 'target' },
      el(
        'h2',
        app.state.gold ? 'Decoder input and target, shifted by one' : 'Decoder input and output, shifted by one',
      ),
      el(
        'p.words',
        app.state.gold
          ? 'Each row has an input token of the decoder, and its target, the next token. The target is the ' +
              'whole sequence, shifted by one.'
          : 'Each row has an input token of the decoder, and the next token of the output, which is the next ' +
              'decoder input.',
      ),
      shifted(app),
      depth === 'words' ? null : targetTable(app),
    ),
    el(
      'section',
      { 'aria-label': 'vocabularies' },
      el('h2', 'Vocabularies and training counts'),
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
        token.given ? el('small.wrong', 'unknown: ', bdi(token.given)) : null,
        token.input ? el('small.id', bdi(token.input)) : null,
      );
    }),
  ),
];

function suggestions(app) {
  const { axis, specials } = app.base.vocabularies.source;
  const special = new Set(Object.values(specials));
  const pieces = app.base.axes[axis].labels.filter((_, id) => !special.has(id)).slice(0, SUGGESTED);
  return el(
    'datalist',
    { id: 'pieces' },
    pieces.map((value) => el('option', { value })),
  );
}

/** A token as a field: another token is an edit. */
function editable(app, token, position) {
  if (!app.canEdit || ['bos', 'eos', 'pad'].includes(token.kind)) return bdi(visible(token.text));
  const change = (event) => {
    const others = app.words.filter((words) => !words.startsWith(`token ${position}=`));
    const isBack = event.target.value === app.base.tokens.source[position].text;
    app.edit(isBack || event.target.value === '' ? others : [...others, `token ${position}=${event.target.value}`]);
  };
  return el('input.piece', {
    value: token.text,
    list: 'pieces',
    size: Math.max(1, Math.min(12, token.text.length)),
    autocomplete: 'off',
    spellcheck: 'false',
    'aria-label': `source token ${position}, ${token.text}: type another token`,
    data: { key: `token-${position}` },
    on: { change, focus: (event) => event.target.select() },
  });
}

const count = (token) => (token.count === null ? 'not available' : grouped(token.count));

const kindOf = (token) => (token.input ? `${token.kind}: ${token.input}` : token.kind);

const sourceTable = ({ trace }) =>
  table(
    'source tokens',
    ['position', 'token', 'id', 'kind', 'training count'],
    trace.tokens.source.map((token, position) =>
      el(
        'tr',
        { data: { at: `s${position}` } },
        el('th', { scope: 'row' }, String(position)),
        [bdi(visible(token.text)), String(token.id), bdi(kindOf(token)), count(token)].map((part) => el('td', part)),
      ),
    ),
  );

const lightOfRow = (app, row) => `${app.state.gold ? 'g' : 't'}${row}`;

/** The decoder input and the target as two lines, one above the other. */
function shifted(app) {
  const { inputs, targets, kind } = app.rows;
  const line = (name, listed) =>
    el(
      'tr',
      el('th', { scope: 'row' }, name),
      listed.map((token, row) =>
        el(
          'td',
          { class: row === app.row ? 'lit' : null, data: { at: lightOfRow(app, row) } },
          bdi(visible(token.text), token.kind),
        ),
      ),
    );
  return el(
    'div.scroller',
    el(
      'table.shift',
      { 'aria-label': `decoder input and ${kind}` },
      el(
        'tbody',
        el(
          'tr',
          el('th', { scope: 'row' }, 'step'),
          inputs.map((_, row) =>
            el(
              'td',
              button(String(row), () => app.set({ row }), { class: 'link', data: { key: `shift-${row}` } }),
            ),
          ),
        ),
        line('decoder input', inputs),
        line(kind, targets),
      ),
    ),
  );
}

function targetTable(app) {
  const { trace, state } = app;
  const { inputs, targets, kind } = app.rows;
  const losses = state.gold ? trace.get('gold.losses') : null;
  const smoothing = trace.provenance.settings.training?.label_smoothing ?? 0;
  const columns = ['step', 'decoder input', kind, 'id', 'training count', 'probability'];
  return table(
    state.gold ? 'gold target, teacher forcing' : 'output',
    losses ? [...columns, 'cross-entropy', `loss (label smoothing ${smoothing})`] : columns,
    targets.map((token, row) => {
      const log = logProbOf(app, row, token.id);
      const cells = [
        bdi(visible(inputs[row].text)),
        bdi(visible(token.text)),
        String(token.id),
        count(token),
        log === null ? 'not available' : pickable(app, app.name('log_probs'), [row, token.id], percent(Math.exp(log))),
      ];
      if (losses)
        cells.push(
          log === null ? 'not available' : digits(-log),
          pickable(app, 'gold.losses', [row], digits(losses.numbers[row])),
        );
      return el(
        'tr',
        { class: row === app.row ? 'lit' : null, data: { at: lightOfRow(app, row) } },
        el('th', { scope: 'row' }, String(row)),
        cells.map((part) => el('td', part)),
      );
    }),
  );
}

/** The log-probability of a token in a row; without logits only that of the most probable ones is known, else null. */
function logProbOf(app, row, id) {
  const logProbs = app.trace.get(app.name('log_probs'));
  if (logProbs) return logProbs.numbers[row * logProbs.shape[1] + id];
  const found = app.trace.predictions[app.name('logits')][row].top.find(([token]) => token === id);
  return found ? Math.log(found[2]) : null;
}

/** The vocabulary of a side; tokens that are not in the training data are gray, and counted. */
function coverage({ trace }, side) {
  const { axis, counts, specials } = trace.vocabularies[side];
  const { labels } = trace.axes[axis];
  const special = new Set(Object.values(specials));
  if (!counts.length)
    return el('p.hint', `${side}: ${grouped(labels.length)} tokens; the training counts are not available.`);
  const listed = labels.map((text, id) => ({ text, id, count: counts[id] })).filter(({ id }) => !special.has(id));
  const unseen = listed.filter((token) => token.count === 0);
  return el(
    'div',
    el(
      'p',
      `${side}: ${grouped(labels.length)} tokens, ${special.size} of them special. ` +
        (unseen.length
          ? `${grouped(unseen.length)} of the other ${grouped(listed.length)} are not in the training data (gray).`
          : `All other ${grouped(listed.length)} are in the training data.`),
    ),
    el(
      'ul.vocabulary',
      { 'aria-label': `${side} vocabulary` },
      listed.slice(0, LISTED).map((token) =>
        el(
          'li',
          {
            class: token.count === 0 ? 'never' : null,
            title: `id ${token.id}, ${grouped(token.count)} times in the training data`,
          },
          el('bdi', visible(token.text)),
        ),
      ),
    ),
    listed.length > LISTED ? el('p.size', `the first ${LISTED} of ${grouped(listed.length)}`) : null,
  );
}
