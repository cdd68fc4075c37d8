/** Errors: the wrong held-out pairs, grouped by how they are wrong. */

import { bdi, button, el, table } from 'glassbox/dom.js';
import { digits, grouped, percent } from 'glassbox/numbers.js';
import { normalise } from 'glassbox/text.js';
import { visible } from 'glassbox/trace.js';

const LISTED = 50;

export function errors(app) {
  const found = app.trace.errors;
  if (!found) {
    return [
      (app.trace.notices ?? []).map((notice) => el('p.wrong', notice)),
      el(
        'p.hint',
        'The trace holds no wrong pairs. The report of an evaluation lists them: ',
        el('code', 'glassformer evaluate MODEL TABLE --json'),
        ', and each can be opened with its gold beside: ',
        el('code', 'glassformer explain MODEL SOURCE --target GOLD --html FILE'),
      ),
    ];
  }
  if (!found.wrong) return el('p.lead', `None of ${grouped(found.rows)} held-out pairs is wrong.`);
  const groups = Map.groupBy(found.examples, (example) => groupOf(app, example));
  return [
    el(
      'p.lead',
      `${grouped(found.wrong)} of ${grouped(found.rows)} held-out ` +
        `pairs are wrong (${percent(found.wrong / found.rows)}).`,
    ),
    [...groups]
      .sort(([, one], [, other]) => other.length - one.length)
      .map(([name, examples]) => group(app, name, examples)),
  ];
}

/** What kind of mistake it is, from the texts alone. */
function groupOf(app, { source, gold, answer }) {
  const { axis } = app.trace.vocabularies.source;
  const settings = app.trace.provenance.settings.tokens.source;
  const known = new Set(app.trace.axes[axis].labels);
  if (settings.kind === 'characters' && [...normalise(settings, source)].some((letter) => !known.has(letter)))
    return 'unseen characters in the source';
  if (answer.length < gold.length) return gold.startsWith(answer) ? 'cut short' : 'something left out';
  if (answer.length > gold.length) return 'something added';
  return [...answer].sort().join('') === [...gold].sort().join('') ? 'the order is wrong' : 'something replaced';
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
  );
}

/** Live, the pair opens here; in a file, the command that does it. */
function opener(app, { source, gold }) {
  if (!app.server) return el('code', 'explain … --target …');
  const open = async () => app.open(await app.server.trace(source, gold, app.trace.search.beam.num_beams));
  return button('open', open, { class: 'link' });
}
