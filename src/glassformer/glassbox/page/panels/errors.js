/** Errors: the wrong answers on held-out rows, grouped by the kind of error. */

import { bdi, button, el, table } from 'glassbox/dom.js';
import { digits, grouped, percent } from 'glassbox/numbers.js';
import { normalize } from 'glassbox/text.js';
import { visible } from 'glassbox/trace.js';

const LISTED = 50;

export function errors(app) {
  const found = app.trace.errors;
  if (!found) {
    return [
      (app.trace.notices ?? []).map((notice) => el('p.wrong', notice)),
      el(
        'p.hint',
        'The wrong answers on held-out rows are not available in this trace. To list them: ',
        el('code', 'glassformer evaluate MODEL TABLE --json'),
        '. To open one of them together with its gold target: ',
        el('code', 'glassformer explain MODEL SOURCE --target GOLD --html FILE'),
        '.',
      ),
    ];
  }
  if (!found.wrong)
    return el('p.lead', `All ${grouped(found.rows)} held-out sources that were translated have a correct answer.`);
  const groups = Map.groupBy(found.examples, (example) => groupOf(app, example));
  return [
    el(
      'p.lead',
      `${grouped(found.wrong)} of ${grouped(found.rows)} held-out sources that were translated ` +
        `have a wrong answer (${percent(found.wrong / found.rows)}).`,
      found.examples.length < found.wrong ? ` The trace has ${grouped(found.examples.length)} of them.` : null,
    ),
    [...groups]
      .sort(([, one], [, other]) => other.length - one.length)
      .map(([name, examples]) => group(app, name, examples)),
  ];
}

/** The kind of error, from the texts alone. */
function groupOf(app, { source, gold, answer }) {
  const { axis } = app.trace.vocabularies.source;
  const settings = app.trace.provenance.settings.tokens.source;
  const known = new Set(app.trace.axes[axis].labels);
  if (settings.kind === 'characters' && [...normalize(settings, source)].some((letter) => !known.has(letter)))
    return 'unknown characters in the source';
  if (answer.length < gold.length)
    return gold.startsWith(answer) ? 'prefix of the gold target' : 'shorter than the gold target';
  if (answer.length > gold.length) return 'longer than the gold target';
  return [...answer].sort().join('') === [...gold].sort().join('')
    ? 'same characters, wrong order'
    : 'same length, different characters';
}

function group(app, name, examples) {
  return el(
    'section',
    { 'aria-label': name },
    el('h2', `${name}: ${grouped(examples.length)}`),
    el(
      'div.scroller',
      table(
        '',
        ['source', 'gold', 'answer', 'log-probability', ''],
        examples.slice(0, LISTED).map((example) =>
          el(
            'tr',
            [example.source, example.gold, example.answer].map((text) => el('td', bdi(visible(text)))),
            el('td', digits(example.score)),
            el('td', opener(app, example)),
          ),
        ),
      ),
    ),
    examples.length > LISTED ? el('p.size', `the first ${LISTED} of ${grouped(examples.length)}`) : null,
  );
}

/** With a server a button that opens the pair; in a file the command that does it. */
function opener(app, { source, gold }) {
  if (!app.server) return el('code', 'explain … --target …');
  const open = async () => app.open(await app.server.trace(source, gold, app.trace.search.beam.num_beams));
  return button('open', open, { class: 'link' });
}
