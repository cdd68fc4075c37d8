/** The inputs of a source after the first: a field for each, whose value is that of all lines. */

import { inputField } from 'glassbox/views/ask.js';
import { el } from 'glassbox/core/dom.js';
import { isBlank } from 'glassbox/tokenizer/segmenters.js';
import { cellsOf } from 'glassbox/tokenizer/source.js';

export class OtherInputs {
  /** @param inputs  of the source, or null for a single text @param {() => void} changed */
  constructor(inputs, changed) {
    this.inputs = inputs;
    this.fields = (inputs ?? []).slice(1).map((one) => inputField(one, '', { on: { input: changed } }));
    const names = (inputs ?? []).map(({ name }) => name).join(', ');
    const hint = `or give all inputs in each line, separated by tabs: ${names}`;
    this.elements = inputs ? [...this.fields.map(({ element }) => element), el('p.hint', hint)] : [];
  }

  /** Fill the fields with the cells of a source, and return its text. */
  fill(source) {
    const [text, ...rest] = cellsOf(source);
    for (const [i, cell] of rest.entries()) this.fields[i].input.value = cell;
    return text;
  }

  /** The source of a line: its cells, or else its text and the values of the fields. */
  sourceOf(line) {
    if (!this.inputs || isBlank(line)) return line;
    const cells = line.split('\t');
    return cells.length === this.inputs.length ? cells : [line, ...this.fields.map(({ input }) => input.value)];
  }
}
