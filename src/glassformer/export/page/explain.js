/** The glass box of one text, in this page: every number behind the answer of the first model, from the weights in the file. */

import { computing } from 'glassbox/views/ask.js';
import { drawn, el } from 'glassbox/core/dom.js';
import { readable } from 'glassbox/tokenizer/source.js';
import { show } from 'glassbox/shell/view.js';
import { traceText } from 'glassbox/model/whatif.js';
import { Translator } from 'translator/translator.js';

/** Replace the page by the glass box of a source. */
export async function openGlassBox(description, parts, source, beams) {
  const text = readable(description.source.inputs, source);
  document.title = `${text}: every number`;
  document.getElementById('page').replaceChildren(el('p.lead', { role: 'status' }, computing(text)));
  await drawn();
  if (!description.opens_glass_box) throw new Error('the model is too large for the glass box in a page: use “glassformer explain”');
  const translator = new Translator(description, parts);
  const trace = traceOf(translator, source, beams >= 1 ? beams : description.search.num_beams);
  document.body.replaceChildren(document.getElementById('glassbox').content.cloneNode(true));
  const home = el('a', { href: location.pathname }, '← translator');
  show(trace, null, { home, complete: (other) => complete(translator, other) });
}

/** The trace of a source. Throws an error in words for one that has none. */
export const traceOf = (translator, source, beams) =>
  complete(translator, traceText(translator.models[0].trace, source, beams));

/** A trace with the confidence of its answer; of several members, with the answer of all if it is another one. */
function complete(translator, trace) {
  const { models, calibration } = translator.description;
  const { num_beams: beams } = trace.search.beam;
  if (models.length === 1 && beams !== calibration.num_beams) return trace;
  const { text, confidence } = [...translator.translate([trace.inputs ?? trace.text], beams, true)].at(-1);
  if (models.length === 1) trace.confidence = confidence;
  else if (text !== trace.translation) trace.warning = `all ${models.length} members together answer “${text || '(empty)'}”`;
  return trace;
}
