/** A field for another text, which is answered while it is typed. */

import { refusal } from 'glassbox/views/ask.js';
import { drawn, el, textField } from 'glassbox/core/dom.js';
import { threadOf } from 'glassbox/story/thread.js';
import { limitsOf, traceOf } from 'glassbox/views/typing.js';

const PAUSE = 350; // milliseconds after the last key
const forms = new WeakMap(); // app -> its form, which stays the same element so that the cursor stays where it is

/** The fields of the source, each with the name of its column. @param {import('../app.js').App} app */
export function liveForm(app) {
  const refused = refusal(app, 'hint');
  if (refused) return refused;
  if (!forms.has(app)) forms.set(app, make(app));
  const { element, fields } = forms.get(app);
  for (const [name, field] of fields) if (field !== document.activeElement) field.value = app.base.inputs?.[name] ?? app.base.text;
  return element;
}

function make(app) {
  const { inputs, provenance } = app.base;
  const columns = inputs ? Object.keys(inputs) : [(provenance.columns?.[0] ?? 'text').replace(/ \(column \d+\)$/, '')];
  const status = el('span.size', { role: 'status', 'aria-label': 'what is computed' });
  let timer = 0;
  const on = {
    input: () => {
      app.typed = requestOf(app, fields);
      clearTimeout(timer);
      timer = setTimeout(() => answer(app, fields, status), PAUSE);
    },
  };
  const fields = columns.map((name, i) => [name, textField(`live-${i}`, { size: 24, maxlength: limitsOf(app).text, on })]);
  const element = el(
    'div.row.live',
    el('span', 'Your own:'),
    fields.map(([name, field]) => el('label.field', el('span', /^\d+$/.test(name) ? `column ${name}` : name), field)),
    status,
  );
  return { element, fields };
}

const requestOf = ({ base }, fields) =>
  base.inputs ? { inputs: Object.fromEntries(fields.map(([name, field]) => [name, field.value])) } : { text: fields[0][1].value };

/** Open what is typed, in place of what is shown. */
async function answer(app, fields, status) {
  const request = requestOf(app, fields);
  const turn = app.begin('', false);
  status.textContent = 'computing …';
  await drawn();
  const found = await traceOf(app, request).catch((error) => error);
  if (turn !== app.turn) return;
  status.textContent = found instanceof Error ? found.message : '';
  status.classList.toggle('wrong', found instanceof Error);
  if (!(found instanceof Error) && found !== app.base) app.open(found, threadOf(found), false);
}
