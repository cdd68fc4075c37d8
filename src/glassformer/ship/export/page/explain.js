/** The glass box of one text, in this page: every number behind the answer of the first model, from the weights in the file. */

import { computing } from 'glassbox/ask.js';
import { button, drawn, el } from 'glassbox/dom.js';
import { named } from 'glassbox/numbers.js';
import { Trace } from 'glassbox/trace.js';
import { show } from 'glassbox/view.js';
import { traceText } from 'glassbox/whatif.js';
import { addressOf } from 'translator/answers.js';
import { Tokenizer, Translator, decodeParts, readTensor, readable } from 'translator/engine.js';
import { fieldsOf } from 'translator/inputs.js';

/** Replace the page by the glass box of a source. */
export async function openGlassBox(description, parts, source, beams) {
  const { inputs } = description.source;
  const text = readable(inputs, source);
  document.title = `${text}: every number`;
  document.getElementById('page').replaceChildren(el('p.lead', { role: 'status' }, computing(text)));
  await drawn();
  const trace = traceOf(description, parts, source, beams >= 1 ? beams : description.search.num_beams);
  document.body.replaceChildren(document.getElementById('glassbox').content.cloneNode(true));
  show(trace, null, bar(description.source, source, trace.search.beam.num_beams));
}

/** The trace of a source. Throws an error in words for one that has none. */
export function traceOf(description, parts, source, beams) {
  if (!description.template) throw new Error('the model is too large for the glass box in a page: use “glassformer explain”');
  const trace = traceText(baseTrace(description, parts), source, beams);
  const n = description.models.length;
  if (n === 1 && beams !== description.calibration.num_beams) return trace;
  const [{ text, probability }] = new Translator(description, parts).answers([source], beams, true);
  if (n === 1) trace.probability = probability;
  else if (text !== trace.translation) trace.warning = `all ${n} members together answer “${text || '(empty)'}”`;
  return trace;
}

/** The template with the weights and the labels of the vocabularies. */
function baseTrace({ template, tensors, weight_bytes: size, ...sides }, parts) {
  const bytes = decodeParts(parts, size);
  const weights = new Map();
  const entries = {};
  for (const entry of tensors.filter(({ name }) => name in template.weights)) {
    const axes = template.weights[entry.name];
    weights.set(entry.name, named(axes, entry.shape, Float64Array.from(readTensor(bytes, entry))));
    entries[entry.name] = { axes, dtype: 'float32', data: '', origin: 'weight' };
  }
  const axes = { ...template.axes };
  for (const [side, { axis }] of Object.entries(template.vocabularies))
    axes[axis] = { ...axes[axis], labels: new Tokenizer(sides[side]).pieces };
  return new Trace({ ...template, axes, tensors: { ...template.tensors, ...entries } }, weights);
}

/** Another source, and the way back to the translator. */
function bar({ inputs }, source, beams) {
  const fields = fieldsOf(inputs, source);
  const submit = (event) => {
    event.preventDefault();
    location.assign(addressOf(fields.read(), beams) + location.hash);
  };
  return el(
    'form',
    { on: { submit } },
    el('a', { href: location.pathname }, '← translator'),
    ...fields.elements,
    button('explain', () => {}, { type: 'submit', class: 'primary', data: { key: 'ask' } }),
  );
}
