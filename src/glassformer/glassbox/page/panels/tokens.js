/** Tokens: text → tokens → ids; what the decoder is fed beside what it is asked for. */

import { bdi, button, el, table } from 'glassbox/dom.js';
import { digits, grouped, percent } from 'glassbox/numbers.js';
import { noEdits } from 'glassbox/panels/place.js';
import { visible } from 'glassbox/trace.js';

const LISTED = 200;

export function tokens(app) {
  const { depth } = app.state;
  return [
    el(
      'p.lead',
      'A model reads no text. The text is cut into tokens, each token ' +
        'has a number, and the numbers are framed by <bos> and <eos>.',
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
      el('h2', 'The target, shifted by one'),
      el(
        'p.words',
        'In each row the decoder is fed one token and is asked for the next one. ' +
          'That is the whole sequence, shifted: it is not asked for <eos> alone.',
      ),
      shifted(app),
      depth === 'words' ? null : targetTable(app),
    ),
    el(
      'section',
      { 'aria-label': 'vocabularies' },
      el('h2', 'What was trained'),
      ['source', 'target'].map((side) => coverage(app, side)),
    ),
  ];
}

const SUGGESTED = 2000; // pieces that a field of tokens offers

const chips = (app) => [
  suggestions(app),
  el(
    'ol.chips',
    app.trace.tokens.source.map((token, place) => {
      const isEdited = app.base.tokens.source[place]?.id !== token.id;
      return el(
        'li.chip',
        { class: `${token.kind} ${isEdited ? 'changed' : ''}` },
        el('small', String(place)),
        editable(app, token, place),
        el('small.id', `id ${token.id}`),
        token.given ? el('small.wrong', 'unknown: ', bdi(token.given)) : null,
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

/** A token that can be another one: the choice is an edit. */
function editable(app, token, place) {
  if (!app.canEdit || ['bos', 'eos', 'pad'].includes(token.kind)) return bdi(visible(token.text));
  const change = (event) => {
    const others = app.words.filter((words) => !words.startsWith(`token ${place}=`));
    const isBack = event.target.value === app.base.tokens.source[place].text;
    app.edit(isBack || event.target.value === '' ? others : [...others, `token ${place}=${event.target.value}`]);
  };
  return el('input.piece', {
    value: token.text,
    list: 'pieces',
    size: Math.max(1, Math.min(12, token.text.length)),
    autocomplete: 'off',
    spellcheck: 'false',
    'aria-label': `source token ${place}, ${token.text}: type another one`,
    data: { key: `token-${place}` },
    on: { change, focus: (event) => event.target.select() },
  });
}

const count = (token) => (token.count === null ? '?' : grouped(token.count));

const sourceTable = ({ trace }) =>
  table(
    'each source position',
    ['position', 'token', 'id', 'kind', 'times trained'],
    trace.tokens.source.map((token, place) =>
      el(
        'tr',
        el('th', { scope: 'row' }, String(place)),
        [bdi(visible(token.text)), String(token.id), token.kind, count(token)].map((part) => el('td', part)),
      ),
    ),
  );

/** Two lines, one above the other: fed and asked for. */
function shifted(app) {
  const { fed, asked } = app.rows;
  const line = (name, listed) =>
    el(
      'tr',
      el('th', { scope: 'row' }, name),
      listed.map((token, row) =>
        el('td', { class: row === app.row ? 'lit' : null }, bdi(visible(token.text), token.kind)),
      ),
    );
  return el(
    'div.scroller',
    el(
      'table.shift',
      { 'aria-label': 'fed and asked for' },
      el(
        'tbody',
        el(
          'tr',
          el('th', { scope: 'row' }, 'row'),
          fed.map((_, row) =>
            el(
              'td',
              button(String(row), () => app.set({ row }), { class: 'link', data: { key: `shift-${row}` } }),
            ),
          ),
        ),
        line('fed', fed),
        line('asked for', asked),
      ),
    ),
  );
}

function targetTable(app) {
  const { trace, state } = app;
  const { fed, asked } = app.rows;
  const logProbs = trace.get(app.name('log_probs'));
  const losses = state.gold ? trace.get('gold.losses') : null;
  const smoothing = trace.provenance.settings.training?.label_smoothing ?? 0;
  const columns = ['row', 'fed', 'asked for', 'id', 'times trained', 'probability'];
  return table(
    state.gold ? 'the given target, teacher-forced' : 'the answer',
    losses ? [...columns, 'cross-entropy', `loss (smoothing ${smoothing})`] : columns,
    asked.map((token, row) => {
      const log = logProbs.numbers[row * logProbs.shape[1] + token.id];
      const cells = [
        bdi(visible(fed[row].text)),
        bdi(visible(token.text)),
        String(token.id),
        count(token),
        percent(Math.exp(log)),
      ];
      if (losses) cells.push(digits(-log), digits(losses.numbers[row]));
      return el(
        'tr',
        { class: row === app.row ? 'lit' : null },
        el('th', { scope: 'row' }, String(row)),
        cells.map((part) => el('td', part)),
      );
    }),
  );
}

/** Tokens that training never saw are grey, and counted. */
function coverage({ trace }, side) {
  const { axis, counts, specials } = trace.vocabularies[side];
  const { labels } = trace.axes[axis];
  const special = new Set(Object.values(specials));
  if (!counts.length)
    return el(
      'p.hint',
      `${side}: ${grouped(labels.length)} tokens; the model file does not say how often each was trained.`,
    );
  const listed = labels.map((text, id) => ({ text, id, count: counts[id] })).filter(({ id }) => !special.has(id));
  const never = listed.filter((token) => token.count === 0);
  return el(
    'div',
    el(
      'p',
      `${side}: ${grouped(labels.length)} tokens, ${special.size} of them special; ${grouped(never.length)} ` +
        `of the other ${grouped(listed.length)} were never trained${never.length ? ' (grey)' : ''}.`,
    ),
    el(
      'ul.vocabulary',
      { 'aria-label': `${side} vocabulary` },
      listed
        .slice(0, LISTED)
        .map((token) =>
          el(
            'li',
            {
              class: token.count === 0 ? 'never' : null,
              title: `id ${token.id}, trained ${grouped(token.count)} times`,
            },
            el('bdi', visible(token.text)),
          ),
        ),
    ),
    listed.length > LISTED ? el('p.size', `the first ${LISTED} of ${grouped(listed.length)}`) : null,
  );
}
