/** Another text: from the server, or computed by this page from the weights in the file. */

import { drawn } from 'glassbox/core/dom.js';
import { cannotSplit } from 'glassbox/model/source.js';
import { readSource } from 'glassbox/tokenizer/source.js';
import { Trace } from 'glassbox/model/trace.js';
import { traceText } from 'glassbox/model/whatif.js';

/** What a text and a beam width may be. @param {import('./app.js').App} app */
export const limitsOf = ({ first, server }) =>
  server?.model.limits ?? { text: 2000, beams: Math.max(20, first.search.beam.num_beams) };

/** Why this page cannot open another text, in words; '' if it can. @param {import('./app.js').App} app */
export function cannotOpen({ first, server }) {
  if (server) return '';
  if (!first.hasWeights) return 'this file does not include the weights of the model';
  if (first.edits.length) return 'this file was written with edits';
  return cannotSplit(first);
}

/**
 * The trace of another text. Throws an error in words if there is none.
 *
 * @param {import('./app.js').App} app
 * @param {{text?: string, inputs?: object, target?: string, beams?: number}} request
 */
export async function traceOf(app, { text, inputs = null, target = null, beams = null }) {
  const width = beams ?? app.base.search.beam.num_beams;
  const { first } = app;
  const most = limitsOf(app).beams;
  if (!Number.isInteger(width) || width < 1 || width > most) throw new Error(`the beam width is a whole number from 1 to ${most}`);
  if (!app.server && text === first.text && width === first.search.beam.num_beams) return first;
  return app.keep(['text', text, inputs, target, width], () => compute(app, { text, inputs, target }, width));
}

async function compute(app, { text, inputs, target }, beams) {
  if (app.server) return new Trace(await app.server.trace(inputs ?? text, target, beams));
  const reason = cannotOpen(app);
  const { inputs: own } = app.first.tokenizer('source');
  if (inputs && !own) throw new Error(`the model takes one text, not the inputs ${Object.keys(inputs).join(', ').slice(0, 60)}`);
  if (reason) throw new Error(`the text “${(text ?? Object.values(inputs).join(', ')).slice(0, 60)}” cannot be opened: ${reason}`);
  await drawn(); // with "computing"
  return app.complete(traceText(app.first, readSource(own, inputs ?? text), beams));
}
