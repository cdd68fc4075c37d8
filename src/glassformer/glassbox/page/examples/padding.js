/** The padding of a batch: texts of different lengths become one rectangle, and the mask gives padding the weight 0. */

import { el, row, select, table, textField, wide } from 'glassbox/dom.js';
import { digits, percent, sumOf } from 'glassbox/numbers.js';
import { fieldTable, finding, numbersOf, plain, Sheet, sheetOf } from 'glassbox/examples/sheet.js';

const TEXTS = ['the ship sails at noon', 'love', 'a short film'];
const SCORES = [2, 1, 0.5, 1.5, 0, 1, 0.5, 2, 1, 1.5];
const MAX_TOKENS = 8; // words of a text

/**
 * Softmax where the mask is true; the others have the weight 0.
 *
 * @param {number[]} scores
 * @param {boolean[]} mask
 */
function maskedSoftmax(scores, mask) {
  const largest = Math.max(...scores.filter((_, i) => mask[i]));
  const powers = scores.map((score, i) => (mask[i] ? Math.exp(score - largest) : 0));
  return powers.map((power) => power / sumOf(powers));
}

/** The rows of a batch: each text as words with `<bos>` and `<eos>`, filled up with `<pad>` to the longest. */
function padded(texts) {
  const rows = texts.map((text) => ['<bos>', ...(text.match(/\S+/g) ?? []), '<eos>']);
  const length = Math.max(...rows.map((row) => row.length));
  return rows.map((row) => [...row, ...Array(length - row.length).fill('<pad>')].map((token, i) => ({ token, isPad: i >= row.length })));
}

const start = () => new Sheet(numbersOf('score', SCORES), [-1000, 1000], { texts: [...TEXTS], row: 1 });

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
  const field = (text, i) => {
    const input = (event) => {
      options.texts[i] = event.target.value;
      show();
    };
    return textField(`text-${i}`, { class: 'text', value: text, 'aria-label': `text ${i}`, maxlength: 120, on: { input } });
  };
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
      (chosen) => sheet.choose(app, { row: Number(chosen) }),
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
  const cell = ({ token, isPad }) =>
    el('td', { class: isPad ? 'masked' : null, data: { pad: String(isPad) } }, el('bdi.token', token), el('small', isPad ? '0' : '1'));
  const lines = rows.map((tokens, i) => row({ class: i === chosen ? 'chosen' : null }, `text ${i}`, ...tokens.map(cell)));
  const found = table('', ['', ...rows[0].map((_, i) => String(i))], lines, { 'aria-label': 'the batch' });
  found.className = 'batch';
  return el(
    'div',
    el('p.size', 'The batch: a row for each text, a column for each position. Below a token: its value in the mask.'),
    wide(found),
    finding(
      count
        ? `${count} of ${cells.length} positions are padding (${percent(count / cells.length)}): the longest text has ${rows[0].length} tokens.`
        : 'No position is padding: all texts have the same number of tokens.',
    ),
  );
}

/** The scores of one query with each position, which can be changed, and both softmaxes. */
function scoresPart(sheet, tokens) {
  const cells = tokens.map(({ isPad }) => ({
    score: el('td', { class: isPad ? 'masked' : null, data: { masked: '' } }),
    weight: el('td'),
    without: el('td'),
  }));
  const lines = tokens.map(({ token, isPad }, i) => {
    const heading = [`${i} `, el('bdi.token', token)];
    const field = sheet.field(`score-${i}`, `score of position ${i}`);
    return row({ class: isPad ? 'pad' : null, data: { position: i } }, heading, field, ...Object.values(cells[i]));
  });
  const draw = () => {
    const scores = sheet.numbers('score', tokens.length);
    const right = maskedSoftmax(scores, tokens.map(({ isPad }) => !isPad));
    const wrong = maskedSoftmax(scores, tokens.map(() => true));
    cells.forEach(({ score, weight, without }, i) => {
      const { isPad } = tokens[i];
      score.textContent = isPad ? '−∞' : plain(scores[i]);
      weight.replaceChildren(digits(right[i]));
      without.replaceChildren(isPad ? el('span.wrong', `✗ ${digits(wrong[i])}`) : digits(wrong[i]));
      weight.dataset.weight = String(right[i]);
      without.dataset.without = String(wrong[i]);
    });
    const lost = sumOf(wrong.filter((_, i) => tokens[i].isPad));
    return [
      finding(
        tokens.some(({ isPad }) => isPad)
          ? `With the mask, padding has the weight 0, and the weights of the tokens add up to 1. Without it, padding has ${percent(lost)} of the weight.`
          : 'This text has no padding: both columns are equal.',
      ),
    ];
  };
  const clear = () => cells.flatMap((each) => Object.values(each)).forEach((cell) => cell.replaceChildren());
  const box = fieldTable('', ['position', 'score', 'masked score', 'weight', 'without the mask'], lines);
  box.firstChild.classList.add('weights');
  return [box, sheet.result(draw, clear)];
}
