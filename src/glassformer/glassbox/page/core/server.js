/** The server behind the live page: `glassformer serve`. */

/** The reason why there is no result. */
export class Stopped extends Error {
  constructor() {
    super('the computation was stopped');
  }
}

export class Server {
  stopper = new AbortController();

  /**
   * The trace of the text of the address, or of the example.
   *
   * @param {import('./address.js').Address} address
   * @param {(text: string|Object<string, string>) => void} onAsk  is called before a text is computed
   */
  async first({ request: { text, inputs, target, beams } }, onAsk) {
    const fetched = [`v1/model${location.search}`, 'v1/models']; // "?model=name", or the first
    const [model, { models }] = await Promise.all(fetched.map((path) => this.answer(fetch(path))));
    Object.assign(this, { model, names: models.map(({ name }) => name) });
    const ask = (source, ...rest) => {
      onAsk(source);
      return this.trace(source, ...rest);
    };
    const example = (error) => {
      if (error instanceof Stopped) throw error;
      return ask(this.model.example, null, null);
    };
    if (text === null && !inputs) return example();
    return ask(inputs ?? text, target, beams).catch(example); // then the page says what is wrong
  }

  /** Stop what is computed now. The server notices that nobody waits for it. */
  stop() {
    this.stopper.abort(new Stopped());
    this.stopper = new AbortController();
  }

  trace(text, target, beams) {
    return this.post('v1/trace', { text, target, num_beams: beams, weights: this.model.weights_fit, history: true });
  }

  whatIf({ text, inputs, target, search }, edits) {
    return this.post('v1/whatif', { text: inputs ?? text, target, edits, num_beams: search.beam.num_beams });
  }

  post(path, body) {
    return this.answer(
      fetch(path, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ model: this.model.name, ...body }),
        signal: this.stopper.signal,
      }),
    );
  }

  async answer(request) {
    const response = await request.catch((error) => {
      if (error instanceof Stopped) throw error;
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
