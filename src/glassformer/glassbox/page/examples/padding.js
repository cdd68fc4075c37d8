/** The padding of a batch: texts of different lengths become one rectangle, and the mask gives padding the weight 0. */

import { el, select } from 'glassbox/dom.js';
import { digits, percent } from 'glassbox/numbers.js';
import { finding, plain, Sheet, sheetOf } from 'glassbox/examples/sheet.js';

const TEXTS = ['the ship sails at noon', 'love', 'a short film'];
const SCORES = [2, 1, 0.5, 1.5, 0, 1, 0.5, 2, 1, 1.5];
const MAX_TOKENS = 8; // words of a text

/**
 * Softmax where the mask is true; the others have the weight 0.
 *
 * @param {number[]} scores
 * @param {boolean[]} mask
 */
export function maskedSoftmax(scores, mask) {
  const largest = Math.max(...scores.filter((_, i) => mask[i]));
  const powers = scores.map((score, i) => (mask[i] ? Math.exp(score - largest) : 0));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

/** The rows of a batch: each text as words with `<bos>` and `<eos>`, filled up with `<pad>` to the longest. */
export function padded(texts) {
  const rows = texts.map((text) => ['<bos>', ...(text.match(/\S+/g) ?? []), '<eos>']);
  const length = Math.max(...rows.map((row) => row.length));
  return rows.map((row) => [...row, ...Array(length - row.length).fill('<pad>')].map((token, i) => ({ token, isPad: i >= row.length })));
}

function start() {
  const sheet = new Sheet(Object.fromEntries(SCORES.map((number, i) => [`score-${i}`, number])), [-1000, 1000]);
  sheet.options = { texts: [...TEXTS], row: 1 };
  return sheet;
}

const tooLong = (text) => (text.match(/\S+/g) ?? []).length > MAX_TOKENS;

export function padding(app) {
  const sheet = sheetOf(app, 'padding', start);
  const { options } = sheet;
  const [batch, scores] = [el('div'), el('div')];
  const show = () => {
    const long = options.texts.findIndex(tooLong);
    if (long >= 0) {
      batch.replaceChildren(el('p.wrong', { role: 'alert' }, `Text ${long} has more than ${MAX_TOKENS} words.`));
      scores.replaceChildren();
      return;
    }
    const rows = padded(options.texts);
    batch.replaceChildren(batchTable(rows, options.row));
    scores.replaceChildren(...scoresPart(sheet, rows[options.row]));
  };
  const field = (text, i) =>
    el('input.text', {
      value: text,
      'aria-label': `text ${i}`,
      autocomplete: 'off',
      spellcheck: 'false',
      maxlength: 120,
      data: { key: `text-${i}` },
      on: {
        input: (event) => {
          options.texts[i] = event.target.value;
          show();
        },
      },
    });
  show();
  return [
    el(
      'p.lead',
      'A batch is computed as one rectangle of token ids, so that shorter texts are filled up with the token <pad>. The mask says ' +
        'which positions are padding: their scores become −∞ before softmax, and their weights are 0.',
    ),
    el('ol.texts', { start: 0 }, options.texts.map((text, i) => el('li', field(text, i)))),
    batch,
    el('h2', 'One query of one text'),
    select(
      'text',
      options.texts.map((_, i) => [i, `text ${i}`]),
      options.row,
      (row) => {
        options.row = Number(row);
        app.notify(false, null);
      },
      'padding-text',
    ),
    scores,
    el(
      'p.hint',
      'Padding changes no answer of a model whose masks are right: “glassformer explain MODEL TEXT --pad-to 20” pads the source ' +
        'of this page, and the panels show its padding hatched. The scores above are made up.',
    ),
  ];
}

function batchTable(rows, chosen) {
  const cells = rows.flat();
  const count = cells.filter(({ isPad }) => isPad).length;
  return el(
    'div',
    el('p.size', 'The batch: a row for each text, a column for each position. Below a token: its value in the mask.'),
    el(
      'div.scroller',
      el(
        'table.batch',
        { 'aria-label': 'the batch' },
        el('thead', el('tr', el('td'), rows[0].map((_, i) => el('th', { scope: 'col' }, String(i))))),
        el(
          'tbody',
          rows.map((row, r) =>
            el(
              'tr',
              { class: r === chosen ? 'chosen' : null },
              el('th', { scope: 'row' }, `text ${r}`),
              row.map(({ token, isPad }) =>
                el('td', { class: isPad ? 'masked' : null, data: { pad: String(isPad) } }, el('bdi.token', token), el('small', isPad ? '0' : '1')),
              ),
            ),
          ),
        ),
      ),
    ),
    finding(
      count
        ? `${count} of ${cells.length} positions are padding (${percent(count / cells.length)}): the longest text has ${rows[0].length} tokens.`
        : 'No position is padding: all texts have the same number of tokens.',
    ),
  );
}

/** The scores of one query with each position, which can be changed, and both softmaxes. */
function scoresPart(sheet, row) {
  const weights = row.map((_, i) => [el('td'), el('td')]);
  const body = row.map(({ token, isPad }, i) =>
    el(
      'tr',
      { class: isPad ? 'pad' : null, data: { position: i } },
      el('th', { scope: 'row' }, `${i} `, el('bdi.token', token)),
      el('td', sheet.field(`score-${i}`, `score of position ${i}`)),
      el('td', { class: isPad ? 'masked' : null, data: { masked: '' } }),
      weights[i],
    ),
  );
  const fill = () => {
    const scores = row.map((_, i) => sheet.number(`score-${i}`));
    const visible = row.map(({ isPad }) => !isPad);
    const [right, wrong] = [maskedSoftmax(scores, visible), maskedSoftmax(scores, scores.map(() => true))];
    for (const [i, tr] of body.entries()) {
      tr.querySelector('[data-masked]').textContent = row[i].isPad ? '−∞' : plain(scores[i]);
      [right, wrong].forEach((list, at) => {
        const isWrong = at === 1 && row[i].isPad;
        weights[i][at].replaceChildren(isWrong ? el('span.wrong', `✗ ${digits(list[i])}`) : digits(list[i]));
        weights[i][at].dataset[at ? 'without' : 'weight'] = String(list[i]);
      });
    }
    const lost = wrong.reduce((sum, weight, i) => (row[i].isPad ? sum + weight : sum), 0);
    return [
      finding(
        row.some(({ isPad }) => isPad)
          ? `With the mask, padding has the weight 0, and the weights of the tokens add up to 1. Without it, padding has ${percent(lost)} of the weight.`
          : 'This text has no padding: both columns are equal.',
      ),
    ];
  };
  const clear = () => body.forEach((tr) => tr.querySelectorAll('[data-masked], [data-weight], [data-without]').forEach((cell) => cell.replaceChildren()));
  const result = sheet.result(fill, clear);
  const columns = ['position', 'score', 'masked score', 'weight', 'without the mask'];
  return [
    el(
      'div.scroller',
      el('table.sheet.weights', el('thead', el('tr', columns.map((name) => el('th', { scope: 'col' }, name)))), el('tbody', body)),
    ),
    result,
  ];
}
