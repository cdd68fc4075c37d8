/**
 * The numbers of a worked example: a field for each, what is wrong with a field in words, and a result that is computed
 * again at each edit. The numbers are kept while the page is open.
 */

import { button, el, range, shown, table, wide } from 'glassbox/dom.js';

const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)$/;

/**
 * The number in a text, or what is wrong with it.
 *
 * @param {string} text
 * @param {[number, number]} limits
 * @returns {{number: number, problem: string}}
 */
export function parse(text, [low, high]) {
  const plain = text.trim().replace('−', '-');
  const fails = (problem) => ({ number: NaN, problem });
  if (!plain) return fails('the field is empty');
  if (/^[-+]?\d+,\d+$/.test(plain)) return fails(`“${text}” is not a number; write ${plain.replace(',', '.')}`);
  if (!NUMBER.test(plain)) return fails(`“${text.slice(0, 40)}” is not a number`);
  const number = Number(plain);
  if (number < low || number > high) return fails(`${plain} is not between ${low} and ${high}`);
  return { number, problem: '' };
}

export class Sheet {
  /**
   * @param {Object<string, number>} start  the numbers by name
   * @param {[number, number]} limits  of every number
   * @param {object} options  what else the reader chooses
   */
  constructor(start, limits, options = {}) {
    this.start = start;
    this.limits = limits;
    this.texts = texts(start);
    this.names = {}; // of the fields, for messages
    this.options = options;
    this.show = () => {}; // draws the result
    this.follow = () => ({}); // numbers that follow from an edit
  }

  number(name) {
    return parse(this.texts[name], this.limits).number;
  }

  /** The numbers whose names are a prefix with an index. */
  numbers(prefix, length) {
    return range(length).map((i) => this.number(`${prefix}-${i}`));
  }

  /** Change what else the reader chooses, and draw again. */
  choose(app, changes) {
    Object.assign(this.options, changes);
    app.notify(false, null);
  }

  /** In words, what is wrong with the numbers. */
  get problems() {
    return Object.keys(this.texts).flatMap((name) => {
      const { problem } = parse(this.texts[name], this.limits);
      return problem ? [`${this.names[name] ?? name}: ${problem}`] : [];
    });
  }

  /** A field for one number. */
  field(name, label) {
    this.names[name] = label;
    const input = el('input.figure', {
      type: 'text',
      inputmode: 'decimal',
      autocomplete: 'off',
      spellcheck: 'false',
      value: this.texts[name],
      'aria-label': label,
      data: { key: `field-${name}`, field: name },
      on: {
        input: () => {
          this.set(name, input.value);
          this.show();
        },
      },
    });
    mark(input, parse(this.texts[name], this.limits).problem);
    return input;
  }

  set(name, text) {
    this.texts[name] = text;
    const { number, problem } = parse(text, this.limits);
    if (!problem) this.write(this.follow(name, number));
    for (const input of fieldsOf(name)) mark(input, problem);
  }

  /** Replace numbers, in the fields too. @param {Object<string, number>} numbers */
  write(numbers) {
    Object.assign(this.texts, texts(numbers));
    for (const name of Object.keys(numbers))
      for (const input of fieldsOf(name)) {
        input.value = this.texts[name];
        mark(input, '');
      }
  }

  /** A button that writes numbers. */
  preset(label, numbers) {
    const write = () => {
      this.write(numbers);
      this.show();
    };
    return button(label, write, { data: { key: `preset-${label}` } });
  }

  /**
   * The place of the result; where a number is not valid, what is wrong is there instead.
   *
   * @param {() => any[]} draw
   * @param {() => void} clear  removes results that are elsewhere
   */
  result(draw, clear = () => {}) {
    const box = el('div.result', { data: { result: '' } });
    this.show = () => {
      const { problems } = this;
      if (problems.length) clear();
      box.replaceChildren(...shown(problems.length ? wrong(problems) : draw()));
    };
    this.show();
    return box;
  }
}

const wrong = (problems) => [
  el('p.wrong', { role: 'alert' }, 'The result is not computed.'),
  el('ul.wrong', problems.map((problem) => el('li', problem))),
];

/** Numbers by name: the prefix, with the indices of the lists that they are in. */
export const numbersOf = (prefix, numbers) =>
  Object.fromEntries(
    numbers.flatMap((one, i) =>
      Array.isArray(one) ? Object.entries(numbersOf(`${prefix}-${i}`, one)) : [[`${prefix}-${i}`, one]],
    ),
  );

/** A table of fields. */
export function fieldTable(caption, columns, rows) {
  const found = table(caption, columns, rows);
  found.className = 'sheet';
  return wide(found);
}

const texts = (numbers) => Object.fromEntries(Object.entries(numbers).map(([name, number]) => [name, written(number)]));

/** Without the digits that binary fractions add: 1 − 0.9 is 0.1. */
const written = (number) => String(Number(number.toFixed(10)));

const fieldsOf = (name) => document.querySelectorAll(`#panel [data-field="${CSS.escape(name)}"]`);

function mark(input, problem) {
  if (problem) input.setAttribute('aria-invalid', 'true');
  else input.removeAttribute('aria-invalid');
  input.title = problem;
}

/** The sheet of an example, which is made once. @param {import('../app.js').App} app  @param {() => Sheet} make */
export function sheetOf(app, name, make) {
  if (!app.sheets.has(name)) app.sheets.set(name, make());
  return app.sheets.get(name);
}

/** A number of a formula: at most four digits after the point, without zeros at the end. */
export const plain = (number) => String(Number(number.toFixed(4))).replace('-', '−');

/** The sentence that says what the numbers show. It is read aloud when it changes. */
export const finding = (...parts) => el('p.finding', { role: 'status' }, parts);
