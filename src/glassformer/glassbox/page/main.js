/** The page: reads the trace in the file, or asks the server for one, and shows it. */

import { read } from 'glassbox/shell/address.js';
import { computing, readable } from 'glassbox/views/ask.js';
import { button, drawn, el, textField } from 'glassbox/core/dom.js';
import { stopButton } from 'glassbox/views/result.js';
import { Server, Stopped } from 'glassbox/core/server.js';
import { show } from 'glassbox/shell/view.js';

const part = (id) => document.getElementById(id);

async function start() {
  await drawn(); // with the words of index.html
  const inlined = part('trace');
  const server = inlined ? null : new Server();
  const wait = (text) => {
    part('bar').lastElementChild.replaceChildren(textField('waiting', { value: readable(text), disabled: true, 'aria-label': 'text' }));
    part('panel').firstElementChild.replaceChildren(computing(text), ' ', stopButton(server));
  };
  show(inlined ? JSON.parse(inlined.textContent) : await server.first(read(), wait), server);
}

start().catch((error) => {
  part('panel').replaceChildren(
    el('h1', error instanceof Stopped ? 'Nothing was computed' : 'The page cannot be displayed'),
    el('p.wrong', error.message),
    button('try again', () => location.reload(), { data: { key: 'again' } }),
  );
});
