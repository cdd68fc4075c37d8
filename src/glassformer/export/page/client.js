/** The worker, as the page sees it: one job at a time, the newest wins. */

export class Client {
  /** @param {string} engine  the program of the worker @param description  the object of glassformer.json @param {string[]} parts  the weights, in base64 */
  constructor(engine, description, parts) {
    this.job = 0;
    this.listener = null;
    const script = engine.replace(/^export .*$/gm, ''); // from a file, Chromium starts no worker that is a module
    const url = URL.createObjectURL(new Blob([script], { type: 'text/javascript' }));
    const rules = { createScriptURL: (given) => given }; // of the policy of the page
    this.worker = new Worker(globalThis.trustedTypes?.createPolicy('glassformer', rules).createScriptURL(url) ?? url);
    /** Resolves when the model is loaded. */
    this.ready = new Promise((resolve, reject) => {
      this.worker.onmessage = ({ data }) => {
        if (data.ready) resolve();
        else if (data.failed && !data.job) reject(new Error(data.failed));
        else if (data.job === this.job) this.listener?.(data);
      };
      this.worker.onerror = (event) => reject(new Error(event.message || 'the worker does not start'));
    });
    this.worker.postMessage({ load: description, parts });
  }

  /**
   * Start a job; the one before is stopped.
   *
   * @param {string[]} texts @param {number} beams
   * @param {(message: {answers?: object[], done?: boolean, failed?: string}) => void} onMessage
   * @param {boolean} confidence  as in Translator.translate
   */
  start(texts, beams, onMessage, confidence = false) {
    this.job += 1;
    this.listener = onMessage;
    this.worker.postMessage({ job: this.job, texts, beams, confidence });
  }

  stop() {
    this.job += 1;
    this.listener = null;
    this.worker.postMessage({ job: this.job });
  }

  /** The answers to texts, in order. */
  translate(texts, beams) {
    const found = [];
    return new Promise((resolve, reject) => {
      this.start(texts, beams, ({ answers = [], done, failed }) => {
        for (const answer of answers) found[answer.row] = answer;
        if (failed) reject(new Error(failed));
        if (done) resolve(found);
      });
    });
  }
}
