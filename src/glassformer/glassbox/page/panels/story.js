/** The story: eight screens, each with one idea, one picture and a link to the panel that has all of its numbers. */

import { button, el } from 'glassbox/dom.js';
import { arcs } from 'glassbox/story/arcs.js';
import { beam } from 'glassbox/story/beam.js';
import { kinds } from 'glassbox/story/kinds.js';
import { layers } from 'glassbox/story/layers.js';
import { roomOf } from 'glassbox/story/parts.js';
import { positions } from 'glassbox/story/positions.js';
import { query } from 'glassbox/story/query.js';
import { stream } from 'glassbox/story/stream.js';
import { unsure } from 'glassbox/story/unsure.js';

/** @type {{title: string, choose?: (app: any) => object, draw: (app: any) => object}[]}  `choose`: a row and a head */
export const SCREENS = [arcs, query, kinds, layers, stream, beam, positions, unsure];

export function story(app) {
  const at = app.state.screen;
  const screen = SCREENS[at - 1];
  const { words, picture, proof } = screen.draw(app);
  if (picture?.querySelector('svg').getAttribute('width') > roomOf(app))
    picture.querySelector('figcaption').firstChild.after(': the picture is wider than the page, scroll it sideways');
  return el(
    'section.story',
    { 'aria-label': `screen ${at} of ${SCREENS.length}: ${screen.title}`, 'aria-live': 'polite', data: { screen: at } },
    el(
      'div.story-steps',
      button('← Back', () => turn(app, -1), { disabled: at === 1, data: { key: 'story-back' } }),
      el(
        'ol.dots',
        { 'aria-label': 'screens' },
        SCREENS.map(({ title }, i) => el('li', numberButton(app, title, i + 1))),
      ),
      button('Next →', () => turn(app, 1), { class: 'primary', disabled: at === SCREENS.length, data: { key: 'story-next' } }),
    ),
    el('h2', screen.title),
    el('div.story-words', words.map((sentence) => el('p', sentence))),
    picture,
    el('p', el('a.proof', { href: app.link(proof.changes), data: { key: 'proof' } }, `${proof.label} →`)),
  );
}

const numberButton = (app, title, screen) =>
  button(String(screen), () => goTo(app, screen), {
    title,
    'aria-label': `screen ${screen}: ${title}`,
    'aria-current': screen === app.state.screen ? 'step' : null,
    data: { key: `screen-${screen}` },
  });

/** Another screen, counted from 1 as its button is, with the row and the head that it is about. */
function goTo(app, screen) {
  app.set({ screen, ...SCREENS[screen - 1].choose?.(app) });
}

/** The next screen, or the one before. */
export function turn(app, by) {
  const to = app.state.screen + by;
  if (SCREENS[to - 1]) goTo(app, to);
}
