/** The story: an opening, then six questions, each with a picture and a link to the panel that has all of its numbers. */

import { button, el } from 'glassbox/core/dom.js';
import { worded } from 'glassbox/story/glossary.js';
import { heads } from 'glassbox/story/heads.js';
import { layers } from 'glassbox/story/layers.js';
import { learning } from 'glassbox/story/learning.js';
import { opening } from 'glassbox/story/opening.js';
import { roomOf } from 'glassbox/story/parts.js';
import { query } from 'glassbox/story/query.js';
import { rival } from 'glassbox/story/rival.js';
import { wrong } from 'glassbox/story/wrong.js';

/** @type {{title: string, draw: (app: any) => object}[]}  their numbers are those of the state */
export const SCREENS = [opening, query, heads, layers, learning, rival, wrong];

export function story(app) {
  const at = app.state.question;
  const { title, draw } = SCREENS[at];
  const { words, picture, more = null, proof, kind = '', style = {} } = draw(app);
  const used = new Set();
  for (const image of picture?.querySelectorAll('.scroller > svg') ?? [])
    if (image.getAttribute('width') > roomOf(app))
      image.closest('figure').querySelector('figcaption').firstChild.after(': the picture is wider than the page, scroll it sideways');
  return el(
    'section.story',
    { 'aria-label': `${at ? `question ${at} of ${SCREENS.length - 1}` : 'opening'}: ${title}`, 'aria-live': 'polite', class: kind, style, data: { question: at } },
    el(
      'div.story-steps',
      button('← Back', () => turn(app, -1), { disabled: at === 0, data: { key: 'story-back' } }),
      el('ol.dots', { 'aria-label': 'questions' }, SCREENS.map((screen, i) => el('li', numberButton(app, screen.title, i)))),
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
    'aria-label': question ? `question ${question}: ${title}` : title,
    'aria-current': question === app.state.question ? 'step' : null,
    data: { key: `question-${question}` },
  });

/** The next screen, or the one before. */
export function turn(app, by) {
  const question = app.state.question + by;
  if (SCREENS[question]) app.set({ question });
}
