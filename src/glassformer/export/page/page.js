/** The translator: a text or many lines on the left, the answers on the right. */

import { button, el, slider, switchLight } from 'glassbox/core/dom.js';
import { grouped } from 'glassbox/core/numbers.js';
import { readLines, readable } from 'glassbox/tokenizer/source.js';
import { addressOf, answerCard } from 'translator/answers.js';
import { OtherInputs } from 'translator/inputs.js';
import { Lines } from 'translator/lines.js';

const DELAY = 80; // milliseconds after the last key
const LARGEST_CACHE = 50_000; // answers that are kept
const MAX_BEAMS = 10;
const MAX_JUDGED = 100; // texts whose answers get a confidence, for which greedy search alone is not enough

export class TranslatorPage {
  constructor(description, client) {
    this.description = description;
    this.client = client;
    this.beams = description.search.num_beams;
    this.known = new Map(); // beams, whether it has a confidence, and text -> answer
    this.file = null; // { name, lines } of a file that was opened
    this.isReady = false;
    this.timer = 0;
    this.build();
  }

  // Elements

  build() {
    this.input = el('textarea', {
      id: 'text',
      rows: 3,
      spellcheck: 'false',
      autocapitalize: 'off',
      autocomplete: 'off',
      placeholder: 'Type or paste a text. Several lines are several texts.',
      data: { key: 'text' },
      on: { input: () => this.typed() },
    });
    this.chooser = el('input', {
      type: 'file',
      hidden: true,
      accept: '.txt,.csv,.tsv,text/plain',
      on: { change: () => this.open(this.chooser.files[0]) },
    });
    this.inputs = this.description.source.inputs ?? null;
    this.others = new OtherInputs(this.inputs, () => this.typed());
    this.source = el('div.source');
    this.output = el('div.output-area', { 'aria-live': 'polite', 'aria-busy': 'true' });
    const { models, labels, opens_glass_box: hasGlassBox } = this.description;
    const words = `${models.length} members answer together; the glass box shows the first of them.`;
    const about = models.length > 1 && hasGlassBox && el('p.hint', words);
    const columns = el(
      'main.columns-2',
      el('section.card', el('h2', el('label', { for: 'text' }, labels[0])), this.source),
      el('section.card', { 'aria-label': labels[1] }, el('h2', labels[1]), this.output, about),
    );
    const options = el('details', el('summary', 'Options'), this.searchSetting());
    this.elements = [this.header(), columns, options, this.footer()];
    this.drawSource();
    this.output.replaceChildren(el('p.hint', 'Loading the model …'));
    addEventListener('keydown', (event) => event.key === 'Escape' && this.lines && this.stop());
    this.acceptDrops();
  }

  header() {
    return el(
      'header.top',
      el('h1.brand', this.description.title),
      el('span.size', 'This page translates on your device. It sends nothing and needs no network.'),
      button('◐', switchLight, { 'aria-label': 'light or dark theme', data: { key: 'light' } }),
    );
  }

  footer() {
    const { parameters, precision, max_source_tokens: longest, source, target } = this.description;
    const tokens = source.kind === target.kind ? source.kind : `${source.kind} to ${target.kind}`;
    const facts = [
      'glassformer',
      `${grouped(parameters)} parameters in ${precision}`,
      tokens,
      `texts of at most ${grouped(longest)} tokens`,
    ];
    return el('footer.facts-line', facts.join(' · '));
  }

  /** The width of the beam; 1 is greedy search. */
  searchSetting() {
    const range = { min: 1, max: Math.max(MAX_BEAMS, this.beams), value: this.beams };
    const field = slider('beam width (1: greedy)', range, (beams) => {
      this.beams = beams;
      field.querySelector('output').textContent = beams;
      this.translate();
    });
    return field;
  }

  drawSource() {
    const openButton = button('Open a file …', () => this.chooser.click(), { data: { key: 'open' } });
    const { example } = this.description;
    const words = example && readable(this.inputs, example);
    const hint = el(
      'p.row',
      example && el('span.size', 'Example:'),
      example && button(el('bdi', { title: words }, words), () => this.tryExample(), { data: { key: 'example' } }),
      openButton,
      this.chooser,
      el('span.size.drop-hint', 'or drop one here: one text in each line'),
    );
    if (!this.file) {
      this.source.replaceChildren(this.input, ...this.others.elements, hint);
      return;
    }
    const close = button('Close the file', () => this.closeFile(), { data: { key: 'close-file' } });
    const { name, lines } = this.file;
    this.source.replaceChildren(
      el('p.file', el('strong', el('bdi', name)), el('span.size', `${grouped(lines.length)} lines`)),
      ...this.others.elements,
      el('p.row', close),
    );
    close.focus();
  }

  // Texts

  begin() {
    this.isReady = true;
    if (window === top) this.input.focus(); // in a frame, a site would scroll to it
    this.translate();
  }

  tryExample() {
    this.input.value = this.others.fill(this.description.example);
    this.typed();
  }

  typed() {
    this.fitHeight();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.translate(), DELAY);
  }

  fitHeight() {
    this.input.style.setProperty('height', 'auto');
    this.input.style.setProperty(
      'height',
      `${Math.min(this.input.scrollHeight + 2, innerHeight * (innerWidth > 720 ? 0.6 : 0.3))}px`,
    );
  }

  get texts() {
    return (this.file ? this.file.lines : readLines(this.input.value)).map((line) => this.others.sourceOf(line));
  }

  acceptDrops() {
    const hasFile = (event) => event.dataTransfer?.types.includes('Files');
    const mark = (isOver) => document.body.classList.toggle('dropping', isOver);
    addEventListener('dragover', (event) => {
      if (!hasFile(event)) return;
      event.preventDefault();
      mark(true);
    });
    addEventListener('dragleave', (event) => event.relatedTarget || mark(false));
    addEventListener('drop', (event) => {
      if (!hasFile(event)) return;
      event.preventDefault();
      mark(false);
      this.open(event.dataTransfer.files[0]);
    });
  }

  async open(file) {
    if (!file) return;
    this.chooser.value = '';
    try {
      const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
      this.file = { name: file.name, lines: readLines(text) };
      this.drawSource();
      this.translate();
    } catch (error) {
      const what = error instanceof TypeError ? 'it is not text in UTF-8' : error.message;
      this.stop();
      this.output.replaceChildren(el('p.wrong', { role: 'alert' }, `The file ${file.name} cannot be read: ${what}.`));
    }
  }

  closeFile() {
    this.file = null;
    this.drawSource();
    this.input.focus();
    this.translate();
  }

  // Answers

  /** Translate what is in the page now; whatever was going on is stopped. */
  translate() {
    clearTimeout(this.timer);
    if (!this.isReady) return;
    const { texts, beams } = this;
    const isMany = this.file !== null || texts.length > 1;
    const isJudged = texts.length <= MAX_JUDGED && beams === this.description.calibration.num_beams;
    this.lines?.end();
    const look = { labels: this.description.labels, isJudged, linkOf: this.linkOf(beams) };
    this.lines = isMany ? new Lines(this.inputs, texts, this.file?.name, () => this.stop(), look) : null;
    if (this.lines) this.output.replaceChildren(...this.lines.elements);
    this.output.setAttribute('aria-live', isMany ? 'off' : 'polite'); // the progress has a status of its own
    const keyOf = (text) => JSON.stringify([beams, isJudged, text]);
    const missing = [...texts.keys()].filter((row) => !this.show(row, this.known.get(keyOf(texts[row]))));
    if (!missing.length) {
      this.client.stop();
      this.finish();
      return;
    }
    this.output.setAttribute('aria-busy', 'true');
    const rowsOf = Map.groupBy(missing, (row) => keyOf(texts[row]));
    const wanted = [...rowsOf.keys()];
    const onMessage = ({ answers = [], done, failed }) => {
      for (const answer of answers) {
        const key = wanted[answer.row];
        if (!answer.isFirst && this.known.size < LARGEST_CACHE) this.known.set(key, answer);
        for (const row of rowsOf.get(key)) this.show(row, answer);
      }
      if (failed) this.output.replaceChildren(el('p.wrong', { role: 'alert' }, `The model failed: ${failed}`));
      if (done) this.finish();
    };
    this.client.start(wanted.map((key) => texts[rowsOf.get(key)[0]]), beams, onMessage, isJudged);
  }

  /** Show the answer to text `row`; false if there is none. */
  show(row, answer) {
    if (!answer) return false;
    if (this.lines) this.lines.show(row, answer);
    else this.output.replaceChildren(...answerCard(this.texts[0], answer, this.linkOf(this.beams)));
    return true;
  }

  finish() {
    this.output.setAttribute('aria-busy', 'false');
    this.lines?.end();
  }

  stop() {
    this.client.stop();
    this.output.setAttribute('aria-busy', 'false');
    this.lines?.end(true);
  }

  /** The address of the glass box of a text, or null where the model is too large for a browser. */
  linkOf(beams) {
    if (!this.description.opens_glass_box) return () => null;
    return (text) => addressOf(text, beams);
  }
}
