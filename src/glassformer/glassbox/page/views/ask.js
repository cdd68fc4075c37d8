/** The form above the tabs: another text, its target, the beam width. */

import { cut, el, form, isolated, textField } from 'glassbox/core/dom.js';
import { cannotOpen, limitsOf, traceOf } from 'glassbox/views/typing.js';

/** Why there is no form for another text, or '' if there is one. */
export function refusal(app, kind) {
  const reason = cannotOpen(app);
  return reason && el(`p.${kind}`, `Another text: not in this page, because ${reason}. Use “glassformer serve MODEL”.`);
}

/** @param {import('./app.js').App} app */
export function askForm(app) {
  const refused = refusal(app, 'size.cannot');
  if (refused) return refused;
  const limits = limitsOf(app);
  const { base } = app;
  const required = { required: true, maxlength: limits.text };
  const sources = base.inputs && base.tokenizer('source').inputs.map((one) => inputField(one, base.inputs[one.name], required));
  const problem = el('span.wrong', { 'aria-live': 'assertive' });
  const typed = ({ text }) => ({ text: text?.value, inputs: sources && Object.fromEntries(sources.map(({ name, input }) => [name, input.value])) });
  const send = async (elements) => {
    const [target, beams] = [elements.target?.value || null, Number(elements.beams.value)];
    problem.textContent = '';
    problem.textContent = await openText(app, { ...typed(elements), target, beams });
    if (problem.textContent) app.notify(false, null);
  };
  const element = form(
    'form',
    'explain',
    'ask',
    send,
    sources?.map(({ element }) => element) ?? field('text', 'text', base.text, required),
    app.server ? field('target (optional)', 'target', base.target ?? '') : null,
    field('beam width', 'beams', base.search.beam.num_beams, { type: 'number', required: true, min: 1, max: limits.beams }),
  );
  element.append(problem);
  element.addEventListener('input', () => {
    app.typed = typed(element.elements);
  });
  return element;
}

/** Show another text. @returns {Promise<string>} why that failed, or '' */
export async function openText(app, request) {
  const found = await app.compute(computing(request.text ?? request.inputs), () => traceOf(app, request));
  if (found && !(found instanceof Error)) app.open(found);
  return found instanceof Error ? found.message : '';
}

const MAX_NAMED = 20; // symbols that a field lists

/** A field for one input of a source, see tokenizer/source.js. */
export function inputField({ name, kind, cut, symbols }, value, more = {}) {
  const known = symbols.slice(0, MAX_NAMED).join(', ') + (symbols.length > MAX_NAMED ? ', …' : '');
  const between = cut === ' ' ? 'a space' : `“${cut}”`;
  const many = cut ? `symbols, with ${between} between them` : 'a symbol';
  const [placeholder, title] = kind === 'feature' ? [`${many}: ${known}`, `${many}: ${known}`] : ['', name];
  const input = textField(`input-${name}`, { name: `input-${name}`, value, placeholder, title, ...more });
  return { name, input, element: el('label.field', el('span', name), input) };
}

/** A text, or several inputs, as one text. */
export const readable = (text) => (typeof text === 'string' ? text : Object.values(text).join(', '));

/** What is computed for a text, or for several inputs, in words. */
export const computing = (text) => `Computing every number behind the answer to “${isolated(cut(readable(text), 60))}” …`;

const field = (label, name, value, attributes = {}) =>
  el('label.field', el('span', label), textField(`ask-${name}`, { name, value, ...attributes }));
