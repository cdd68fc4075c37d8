/** Many texts: progress, a table of answers as they are found, and files to download. */

import { bdi, button, el, shown, table } from 'glassbox/core/dom.js';
import { download } from 'glassbox/views/figure.js';
import { grouped } from 'glassbox/core/numbers.js';
import { cellsOf, readable } from 'glassbox/tokenizer/source.js';
import { confidenceOf, glassBoxLink, remarks, scoreOf } from 'translator/answers.js';

const MAX_SHOWN = 500; // rows of the table; the files have all
const REPORT = 500; // milliseconds between two announcements
const LONG = 20; // characters of a text that a phone may cut

/** A text in a column; of a long one the first lines, and all when it is pressed. */
const cell = (text) => (text.length > LONG ? el('details.cut', el('summary', bdi(text))) : bdi(text));

export class Lines {
  /**
   * @param inputs  of the source, or null @param {(string|string[])[]} texts @param {string|undefined} fileName
   * @param {() => void} stop
   * @param {{labels: string[], isJudged: boolean, linkOf: (text: string|string[]) => string|null}} look  isJudged: with confidence
   */
  constructor(inputs, texts, fileName, stop, { labels, isJudged, linkOf }) {
    Object.assign(this, { inputs, texts, fileName, isJudged, linkOf, answers: Array(texts.length), n: 0, isOver: false });
    this.started = performance.now();
    this.reported = this.started;
    this.meter = el('progress', { max: texts.length, value: 0, 'aria-label': 'texts translated' });
    this.status = el('span.size', { role: 'status' });
    this.stopButton = button('Stop', stop, { data: { key: 'stop' } });
    this.downloads = el('p.row.downloads');
    this.rows = texts.slice(0, MAX_SHOWN).map((text, row) => this.emptyRow(text, row));
    const more =
      texts.length > MAX_SHOWN ? `The first ${MAX_SHOWN} of ${grouped(texts.length)} texts; a download has all.` : null;
    this.elements = [
      el('div.progress', this.meter, el('div.row', this.status, this.stopButton)),
      this.downloads,
      table('', ['', ...labels, isJudged ? 'confidence' : 'score', ''], this.rows, { class: 'answers' }),
      more ? el('p.hint', more) : null,
    ].filter(Boolean);
    this.report();
  }

  emptyRow(text, row) {
    const source = cell(readable(this.inputs, text));
    return el('tr', el('td.size', String(row + 1)), el('td', source), el('td.missing', '…'), el('td'), el('td'));
  }

  /** Fill in the answer to text `row`. */
  show(row, answer) {
    if (!this.answers[row]) this.n += 1;
    this.answers[row] = answer;
    this.meter.value = this.n;
    if (row < MAX_SHOWN) {
      const [, , output, sure, link] = this.rows[row].cells;
      const notes = remarks(answer).map((note) => el(answer.error ? 'div.wrong' : 'div.note', note));
      output.className = '';
      output.replaceChildren(...(answer.error ? notes : [cell(answer.text), ...notes]));
      const isPlain = !answer.error && cellsOf(this.texts[row])[0].trim();
      sure.replaceChildren(...shown([isPlain && (this.isJudged ? confidenceOf : scoreOf)(answer)]));
      const href = isPlain ? this.linkOf(this.texts[row]) : null;
      link.replaceChildren(...shown([glassBoxLink(href, readable(this.inputs, this.texts[row]), '↗')]));
    }
    if (performance.now() > this.reported + REPORT) this.report();
  }

  report() {
    this.reported = performance.now();
    const seconds = (this.reported - this.started) / 1000;
    const refused = this.answers.filter((answer) => answer?.error).length;
    const rate = seconds > 0.5 && this.n >= seconds ? `, ${grouped(Math.round(this.n / seconds))} a second` : '';
    const without = refused ? `; ${grouped(refused)} without an answer` : '';
    this.status.textContent = `${grouped(this.n)} of ${grouped(this.texts.length)} texts${rate}${without}`;
  }

  /** No more answers will come: all are here, or it was stopped. */
  end(isStopped = false) {
    if (this.isOver) return;
    this.isOver = true;
    this.report();
    if (isStopped && this.n < this.texts.length) this.status.textContent += ', stopped';
    this.stopButton.remove();
    this.meter.hidden = this.n === this.texts.length;
    if (!this.n) return;
    this.downloads.replaceChildren(
      button('Download the answers', () => this.save('.txt', this.asLines()), { data: { key: 'save-text' } }),
      button('with scores (JSON Lines)', () => this.save('.jsonl', this.asJson()), { data: { key: 'save-json' } }),
    );
  }

  /** One answer in each line; a line break inside an answer becomes a space, and no answer is an empty line. */
  asLines() {
    return this.texts.map((_, row) => `${(this.answers[row]?.text ?? '').replace(/[\r\n]+/g, ' ')}\n`).join('');
  }

  asJson() {
    const line = (text, row) => `${JSON.stringify({ source: this.given(text), ...this.fields(row) })}\n`;
    return this.texts.map(line).join('');
  }

  /** A source for programs: the text, or an object with each input by name. */
  given(source) {
    const { inputs } = this;
    return inputs ? Object.fromEntries(cellsOf(source).map((cell, i) => [inputs[i].name, cell])) : source;
  }

  fields(row) {
    const answer = this.answers[row];
    if (!answer) return { error: 'stopped before this text' };
    if (answer.error) return { error: answer.error };
    const { text, confidence, score, rank_score: rankScore, finished, unknown, unlike } = answer;
    return { text, confidence, score, rank_score: rankScore, finished, unknown, unlike };
  }

  save(ending, text) {
    const name = (this.fileName ?? 'texts').replace(/\.[^.]*$/, '');
    download(`${name}.answers${ending}`, [text, 'text/plain']);
  }
}
