/** The glass box of one text, in this page: every number behind the answer of the first model, from the weights in the file. */

import { computing } from 'glassbox/ask.js';
import { drawn, el } from 'glassbox/dom.js';
import { readable } from 'glassbox/tokenizer/source.js';
import { show } from 'glassbox/view.js';
import { traceText } from 'glassbox/whatif.js';
import { Translator, baseTrace, decodeParts } from 'translator/engine.js';

/** Replace the page by the glass box of a source. */
export async function openGlassBox(description, parts, source, beams) {
  const text = readable(description.source.inputs, source);
  document.title = `${text}: every number`;
  document.getElementById('page').replaceChildren(el('p.lead', { role: 'status' }, computing(text)));
  await drawn();
  const trace = traceOf(description, parts, source, beams >= 1 ? beams : description.search.num_beams);
  document.body.replaceChildren(document.getElementById('glassbox').content.cloneNode(true));
  const home = el('a', { href: location.pathname }, '← translator');
  show(trace, null, { home, complete: (other) => complete(description, parts, other) });
}

/** The trace of a source. Throws an error in words for one that has none. */
export function traceOf(description, parts, source, beams) {
  if (!description.opens_glass_box) throw new Error('the model is too large for the glass box in a page: use “glassformer explain”');
  const base = baseTrace(description, decodeParts(parts, description.weight_bytes));
  return complete(description, parts, traceText(base, source, beams));
}

const translators = new WeakMap(); // description -> the translator of all members

/** A trace with the probability that its answer is right; of several members, with the answer of all if it is another one. */
function complete(description, parts, trace) {
  const n = description.models.length;
  const { num_beams: beams } = trace.search.beam;
  if (n === 1 && beams !== description.calibration.num_beams) return trace;
  if (!translators.has(description)) translators.set(description, new Translator(description, parts));
  const given = [trace.inputs ?? trace.text];
  const { text, probability } = [...translators.get(description).translate(given, beams, true)].at(-1);
  if (n === 1) trace.probability = probability;
  else if (text !== trace.translation) trace.warning = `all ${n} members together answer “${text || '(empty)'}”`;
  return trace;
}
