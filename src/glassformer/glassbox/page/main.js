/** The page: reads the trace in the file, or asks the server for one, and shows it. */

import { read } from 'glassbox/address.js';
import { drawn, el } from 'glassbox/dom.js';
import { Server } from 'glassbox/server.js';
import { show } from 'glassbox/view.js';

const part = (id) => document.getElementById(id);

async function start() {
  await drawn(); // with the words of index.html
  const inlined = part('trace');
  const server = inlined ? null : new Server();
  show(inlined ? JSON.parse(inlined.textContent) : await server.first(read()), server);
}

start().catch((error) => {
  part('panel').replaceChildren(el('h1', 'The page cannot be displayed'), el('p.wrong', error.message));
});
