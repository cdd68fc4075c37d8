/** The inputs of a source after the first: a field for each, whose value is that of all lines. */

import { el, textField } from 'glassbox/dom.js';
import { cellsOf, isBlank } from 'translator/engine.js';

const MAX_NAMED = 20; // symbols that a field lists
const SEPARATOR = '\x1f';

export class OtherInputs {
  /** @param inputs  of the source, or null for a single text @param {() => void} changed */
  constructor(inputs, changed) {
    this.inputs = inputs;
    this.fields = (inputs ?? []).slice(1).map((one) => fieldOf(one, '', { on: { input: changed } }));
    const names = (inputs ?? []).map(({ name }) => name).join(', ');
    const hint = `or give all inputs in each line, separated by tabs: ${names}`;
    this.elements = inputs ? [...this.fields.map(({ element }) => element), el('p.hint', hint)] : [];
  }

  /** The source of a line: its cells, or else its text and the values of the fields. */
  sourceOf(line) {
    if (!this.inputs || isBlank(line)) return line;
    const cells = line.split('\t');
    const all = cells.length === this.inputs.length ? cells : [line, ...this.fields.map(({ input }) => input.value)];
    return all.join(SEPARATOR);
  }
}

/** A field for one input. */
export function fieldOf({ name, kind, cut, symbols }, value, more = {}) {
  const known = symbols.slice(0, MAX_NAMED).join(', ') + (symbols.length > MAX_NAMED ? ', …' : '');
  const between = cut === ' ' ? 'a space' : `“${cut}”`;
  const many = cut ? `symbols, with ${between} between them` : 'a symbol';
  const [placeholder, title] = kind === 'feature' ? [`${many}: ${known}`, `${many}: ${known}`] : ['', name];
  const input = textField(`input-${name}`, { name, value, placeholder, title, ...more });
  return { input, element: el('label.field', el('span', name), input) };
}

/** The fields of a whole source, and a function that returns it as it is then. */
export function fieldsOf(inputs, source) {
  const cells = cellsOf(inputs, source);
  const given = inputs ?? [{ name: 'text', kind: 'text', symbols: [] }];
  const fields = given.map((one, i) => fieldOf(one, cells[i] ?? '', { 'aria-label': one.name }));
  const read = () => fields.map(({ input }) => input.value).join(SEPARATOR);
  return { elements: fields.map(({ element }) => element), read };
}
