/** The form above the tabs: another text, its gold target, the beam width. */

import { button, cut, el, textField } from 'glassbox/dom.js';
import { cannotOpen, limitsOf, traceOf } from 'glassbox/typing.js';

/** @param {import('./app.js').App} app */
export function askForm(app) {
  const reason = cannotOpen(app);
  if (reason) return el('p.size.cannot', `Another text: not in this page, because ${reason}. Use “glassformer serve MODEL”.`);
  const limits = limitsOf(app);
  const { base } = app;
  const names = Object.keys(base.inputs ?? {});
  const required = { required: true, maxlength: limits.text };
  const problem = el('span.wrong', { 'aria-live': 'assertive' });
  const submit = async (event) => {
    event.preventDefault();
    const { elements } = event.target;
    const inputs = names.length ? Object.fromEntries(names.map((name, i) => [name, elements[`input-${i}`].value])) : null;
    const [text, target, beams] = [elements.text?.value, elements.target?.value || null, Number(elements.beams.value)];
    problem.textContent = '';
    const found = await app.compute(computing(text ?? inputs), () => traceOf(app, { text, inputs, target, beams }));
    if (found && !(found instanceof Error)) app.open(found);
    else if (found) {
      problem.textContent = found.message;
      app.notify(false, null);
    }
  };
  return el(
    'form',
    { on: { submit } },
    names.length
      ? names.map((name, i) => field(name, `input-${i}`, base.inputs[name], required))
      : field('text', 'text', base.text, required),
    app.server ? field('gold (optional)', 'target', base.target ?? '') : null,
    field('beam width', 'beams', base.search.beam.num_beams, { type: 'number', required: true, min: 1, max: limits.beams }),
    button('explain', () => {}, { type: 'submit', class: 'primary', data: { key: 'ask' } }),
    problem,
  );
}

/** What is computed for a text, or for several inputs, in words. */
export const computing = (text) => [
  'Computing every number behind the answer to “',
  el('bdi', cut(typeof text === 'string' ? text : Object.values(text).join(', '), 60)),
  '” …',
];

const field = (label, name, value, attributes = {}) =>
  el('label.field', el('span', label), textField(`ask-${name}`, { name, value, ...attributes }));
