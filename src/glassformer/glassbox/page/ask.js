/** The form above the tabs: another text, its gold target, the beam width. */

import { button, el } from 'glassbox/dom.js';
import { cannotOpen, limitsOf, traceOf } from 'glassbox/typing.js';

/** @param {import('./app.js').App} app */
export function askForm(app) {
  const reason = cannotOpen(app);
  if (reason) return el('p.size.cannot', `Another text: not in this page, because ${reason}. Use “glassformer serve MODEL”.`);
  const limits = limitsOf(app);
  const { base } = app;
  const names = Object.keys(base.inputs ?? {});
  const required = { required: true, maxlength: limits.text };
  const problem = el('span', { 'aria-live': 'assertive' });
  const submit = async (event) => {
    event.preventDefault();
    const { elements } = event.target;
    const inputs = names.length ? Object.fromEntries(names.map((name, i) => [name, elements[`input-${i}`].value])) : null;
    problem.className = 'computing';
    problem.textContent = 'computing …';
    try {
      const text = elements.text?.value;
      app.open(await traceOf(app, { text, inputs, target: elements.target?.value || null, beams: Number(elements.beams.value) }));
      problem.textContent = '';
    } catch (error) {
      problem.className = 'wrong';
      problem.textContent = error.message;
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

const field = (label, name, value, attributes = {}) =>
  el('label.field', el('span', label), el('input', { name, value, autocomplete: 'off', spellcheck: 'false', data: { key: `ask-${name}` }, ...attributes }));
