/** The page: it translates, or with "?explain=TEXT" in its address, one for each input, it opens the glass box of that text. */

import { drawn, el } from 'glassbox/core/dom.js';
import { Client } from 'translator/client.js';
import { openGlassBox } from 'translator/explain.js';
import { TranslatorPage } from 'translator/page.js';

const part = (id) => document.getElementById(id);

/* global description, engine, weights -- which scripts of the page define, if the browser finds them as they were written */

async function start() {
  await drawn(); // with the words of index.html
  if (typeof description === 'undefined') throw new Error('this file is not the one that was exported');
  const query = new URLSearchParams(location.search);
  if (query.has('explain')) {
    const source = description.source.inputs ? query.getAll('explain') : query.get('explain');
    await openGlassBox(description, weights, source, Number(query.get('beams')));
    return;
  }
  const client = new Client(engine, description, weights);
  const page = new TranslatorPage(description, client);
  part('page').replaceChildren(...page.elements);
  /** For programs: `await glassformer.translate(["1845-01-05"], 5)`. */
  globalThis.glassformer = {
    translate: (texts, beams = description.search.num_beams) => client.ready.then(() => client.translate(texts, beams)),
  };
  await client.ready;
  page.begin();
  document.body.dataset.ready = 'true';
}

start().catch((error) => {
  document.body.dataset.ready = 'failed';
  part('page').replaceChildren(el('h1', 'The page cannot be displayed'), el('p.wrong', error.message));
});
