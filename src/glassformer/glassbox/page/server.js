/** The server behind the live page: `glassformer serve`. */

import { button, el } from 'glassbox/dom.js';

export class Server {
  /** The trace of the first example. */
  async first() {
    this.model = await this.get(`api/model${location.search}`); // "?model=name", or the first
    return this.trace(this.model.example, null, null);
  }

  trace(text, target, beams) {
    return this.post('api/trace', { text, target, num_beams: beams, weights: this.model.weights_fit, history: true });
  }

  whatIf({ text, inputs, target, search }, edits) {
    return this.post('api/whatif', { text: inputs ?? text, target, edits, num_beams: search.beam.num_beams });
  }

  get(path) {
    return this.answer(fetch(path));
  }

  post(path, body) {
    return this.answer(
      fetch(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ model: this.model.name, ...body }) }),
    );
  }

  async answer(request) {
    const response = await request.catch(() => {
      throw new Error('no answer from the server: check that “glassformer serve” is running');
    });
    const found = await response.json();
    if (!response.ok)
      throw new Error(
        [found.error.what, found.error.got, found.error.expected, found.error.hint].filter(Boolean).join(' · '),
      );
    return found;
  }
}

/** The text, the gold target and the beam width of the next trace. */
export function askForm(app, server) {
  const field = (label, name, value, attributes = {}) =>
    el(
      'label.field',
      el('span', label),
      el('input', { name, value, autocomplete: 'off', spellcheck: 'false', ...attributes }),
    );
  const attributes = { required: true, maxlength: server.model.limits.text };
  const names = Object.keys(app.trace.inputs ?? {});
  const problem = el('span.wrong', { role: 'alert' });
  const submit = async (event) => {
    event.preventDefault();
    const { elements } = event.target;
    const { target, beams } = elements;
    const text = app.trace.inputs
      ? Object.fromEntries(names.map((name, i) => [name, elements[`input-${i}`].value]))
      : elements.text.value;
    problem.textContent = 'computing …';
    try {
      app.open(await server.trace(text, target.value || null, Number(beams.value)));
      problem.textContent = '';
    } catch (error) {
      problem.textContent = error.message;
    }
  };
  return el(
    'form',
    { on: { submit } },
    app.trace.inputs
      ? names.map((name, i) => field(name, `input-${i}`, app.trace.inputs[name], attributes))
      : field('text', 'text', app.trace.text, attributes),
    field('gold (optional)', 'target', app.trace.target ?? ''),
    field('beam width', 'beams', app.trace.search.beam.num_beams, {
      type: 'number',
      min: 1,
      max: server.model.limits.beams,
    }),
    button('explain', () => {}, { type: 'submit', class: 'primary', data: { key: 'ask' } }),
    problem,
  );
}
