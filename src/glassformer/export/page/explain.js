/** The glass box of one text, in this page: every number behind the answer, computed from the weights in the file. */

import { button, el } from 'glassbox/dom.js';
import { named } from 'glassbox/numbers.js';
import { Trace } from 'glassbox/trace.js';
import { show } from 'glassbox/view.js';
import { traceText } from 'glassbox/whatif.js';
import { addressOf } from 'translator/answers.js';
import { Tokenizer, decodeParts, encodeSource, readTensor } from 'translator/engine.js';

/** Replace the page by the glass box of a text. */
export async function openGlassBox(description, parts, text, beams) {
  document.title = `${text}: every number`;
  document
    .getElementById('page')
    .replaceChildren(
      el('p.lead', { role: 'status' }, 'Computing every number behind the answer to “', el('bdi', text), '” …'),
    );
  await new Promise((resolve) => setTimeout(resolve, 30)); // let the browser draw
  const trace = traceOf(description, parts, text, beams >= 1 ? beams : description.search.num_beams);
  document.body.replaceChildren(document.getElementById('glassbox').content.cloneNode(true));
  show(trace, null, bar(text, trace.search.beam.num_beams));
}

/** The trace of a text. Throws an error in words for a text that has none. */
export function traceOf(description, parts, text, beams) {
  const { template } = description;
  if (!template) throw new Error('the model is too large for the glass box in a page: use “glassformer explain”');
  const tokenizer = new Tokenizer(description.source);
  const ids = encodeSource(tokenizer, text, description.max_source_tokens);
  if (!ids) throw new Error('there is nothing to explain: the text is empty');
  const base = baseTrace(description, parts, tokenizer, new Tokenizer(description.target));
  return traceText(base, text, tokensOf(base, tokenizer, text, ids), beams);
}

/** The template with the weights and the labels of the vocabularies. */
function baseTrace({ template, tensors, weight_bytes: size }, parts, source, target) {
  const bytes = decodeParts(parts, size);
  const weights = new Map();
  const entries = {};
  for (const entry of tensors) {
    const axes = template.weights[entry.name];
    weights.set(entry.name, named(axes, entry.shape, Float64Array.from(readTensor(bytes, entry))));
    entries[entry.name] = { axes, dtype: 'float32', data: '', origin: 'weight' };
  }
  const axes = { ...template.axes };
  const { vocabularies } = template;
  axes[vocabularies.source.axis] = { ...axes[vocabularies.source.axis], labels: source.pieces };
  axes[vocabularies.target.axis] = { ...axes[vocabularies.target.axis], labels: target.pieces };
  return new Trace({ ...template, axes, tensors: { ...template.tensors, ...entries } }, weights);
}

/** The framed ids of a text as tokens of a trace. */
function tokensOf({ vocabularies }, tokenizer, text, ids) {
  const { specials, counts } = vocabularies.source;
  const kinds = new Map(Object.entries(specials).map(([kind, id]) => [id, kind]));
  const unknown = tokenizer.unknown(text).values();
  return ids.map((id) => ({
    id,
    text: tokenizer.pieces[id],
    kind: kinds.get(id) ?? 'ordinary',
    count: counts[id] ?? null,
    given: id === tokenizer.unk ? (unknown.next().value ?? null) : null,
    input: null, // a model with several inputs is not exported
  }));
}

/** Another text, and the way back to the translator. */
function bar(text, beams) {
  const input = el('input', {
    name: 'text',
    value: text,
    'aria-label': 'text',
    autocomplete: 'off',
    spellcheck: 'false',
  });
  const submit = (event) => {
    event.preventDefault();
    location.assign(addressOf(input.value, beams) + location.hash);
  };
  return el(
    'form',
    { on: { submit } },
    el('a', { href: location.pathname }, '← translator'),
    el('label.field', el('span', 'text'), input),
    button('explain', () => {}, { type: 'submit', class: 'primary', data: { key: 'ask' } }),
  );
}
