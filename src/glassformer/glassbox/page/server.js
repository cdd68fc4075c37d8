/** The server behind the live page: `glassformer serve`. */

export class Server {
  /** The trace of the text of the address, or of the example. @param {import('./address.js').Address} address */
  async first({ model, request: { text, inputs, target, beams } }) {
    this.model = await this.get(`api/model${location.search}`); // "?model=name", or the first
    const example = () => this.trace(this.model.example, null, null);
    if (text === null && !inputs) return example();
    return this.trace(inputs ?? text, target, beams).catch(example); // then the page says what is wrong
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
