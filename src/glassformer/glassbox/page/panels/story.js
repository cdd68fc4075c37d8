/** The story: an opening, how a text becomes rows, one layer, and six questions; each leads to the panel that has its numbers. */

import { button, el } from 'glassbox/core/dom.js';
import { worded } from 'glassbox/story/glossary.js';
import { heads } from 'glassbox/story/heads.js';
import { layer } from 'glassbox/story/layer.js';
import { layers } from 'glassbox/story/layers.js';
import { learning } from 'glassbox/story/learning.js';
import { opening } from 'glassbox/story/opening.js';
import { query } from 'glassbox/story/query.js';
import { rival } from 'glassbox/story/rival.js';
import { rows } from 'glassbox/story/rows.js';
import { wrong } from 'glassbox/story/wrong.js';

/** @type {{title: string, hasStep?: boolean, draw: (app: any) => object}[]}  their numbers are those of the state; without `hasStep` no step is chosen */
export const SCREENS = [opening, rows, layer, query, heads, layers, learning, rival, wrong];

export function story(app) {
  const at = app.state.question;
  const { title, draw, hasStep = true } = SCREENS[at];
  const { words, picture, more = null, proof, kind = '' } = draw(app);
  const used = new Set();
  return el(
    'section.story',
    { 'aria-label': `screen ${at + 1} of ${SCREENS.length}: ${title}`, 'aria-live': 'polite', class: kind || (picture ? 'pictured' : null), data: { question: at, steps: hasStep } },
    el(
      'div.story-steps',
      button('← Back', () => turn(app, -1), { disabled: at === 0, data: { key: 'story-back' } }),
      el('ol.dots', { 'aria-label': 'screens' }, SCREENS.map((screen, i) => el('li', numberButton(app, screen.title, i)))),
      button('Next →', () => turn(app, 1), { class: 'primary', disabled: at === SCREENS.length - 1, data: { key: 'story-next' } }),
    ),
    el('h2', title),
    el('div.story-words', words.filter(Boolean).map((sentence) => el('p', worded(sentence, used)))),
    picture,
    more,
    el('p', el('a.proof', { href: app.link(proof.changes), data: { key: 'proof' } }, `${proof.label} →`)),
  );
}

const numberButton = (app, title, question) =>
  button(question ? String(question) : '▶', () => app.set({ question }), {
    title,
    'aria-label': `screen ${question + 1}: ${title}`,
    'aria-current': question === app.state.question ? 'step' : null,
    data: { key: `question-${question}` },
  });

/** The next screen, or the one before. */
export function turn(app, by) {
  const question = app.state.question + by;
  if (SCREENS[question]) app.set({ question });
}
