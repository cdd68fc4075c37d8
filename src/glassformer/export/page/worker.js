/**
 * The translator in a worker, so that the page never freezes. This file, joined with all that it imports, runs in Node too.
 *
 *     page -> worker   { load: description, parts }, { job, texts, beams, confidence }, { job } to stop
 *     worker -> page   { ready }, { failed: message }, { job, answers, done }
 */

import { Translator } from 'translator/translator.js';

const PAUSE = 30; // milliseconds between two looks at new messages

/** Answer the messages of the page. Only the newest job is worked on. @param {DedicatedWorkerGlobalScope} scope */
function listen(scope) {
  let translator = null;
  let newest = 0;
  let queue = Promise.resolve();
  const { port1, port2 } = new MessageChannel();
  const pause = () =>
    new Promise((resolve) => {
      port1.onmessage = resolve;
      port2.postMessage(null);
    });

  async function run({ job, texts, beams, confidence }) {
    let pending = [];
    let until = 0; // the first answer is sent at once
    if (job !== newest) return;
    for (const answer of translator.translate(texts, beams, confidence)) {
      pending.push(answer);
      if (performance.now() < until) continue;
      if (pending.length) scope.postMessage({ job, answers: pending, done: false });
      pending = [];
      await pause();
      if (job !== newest) return;
      until = performance.now() + PAUSE;
    }
    scope.postMessage({ job, answers: pending, done: true });
  }

  scope.onmessage = ({ data }) => {
    if (data.job) newest = data.job;
    queue = queue
      .then(() => {
        if (data.load) {
          translator = new Translator(data.load, data.parts);
          scope.postMessage({ ready: true });
        } else if (data.texts) return run(data);
        return null;
      })
      .catch((error) => scope.postMessage({ failed: error.message, job: data.job }));
  };
}

if (typeof WorkerGlobalScope !== 'undefined' && globalThis instanceof WorkerGlobalScope) listen(globalThis);
