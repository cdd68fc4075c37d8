/** Keyboard shortcuts, and the sheet that lists them: "?". */

import { button, el } from 'glassbox/core/dom.js';
import { close } from 'glassbox/views/inspector.js';
import { turn } from 'glassbox/panels/story.js';

const KEYS = [
  ['?', 'this list'],
  ['← →', 'in the story: the screen before, the next screen; on a tab or a decoding step: the one before, the next'],
  ['← → ↑ ↓', 'in a matrix: the next cell, or from its edge to the headings; in a figure: the next part of it'],
  ['[ ]', 'the panel before, the next panel'],
  [', .', 'the decoding step before, the next step'],
  ['m', 'the first matrix, number or figure of the panel'],
  ['w n f', 'words, numbers, formula'],
  ['d', 'light or dark theme'],
  ['e', 'another text'],
  ['Esc', 'close the inspector, an opened band or this list; leave a text field'],
];

/** Show the list of shortcuts; its focus stays inside until it is closed. */
export function showKeys() {
  document.querySelector('dialog')?.remove();
  const dialog = el(
    'dialog.keys',
    { 'aria-label': 'keyboard shortcuts', on: { close: () => dialog.remove() } },
    el('h2', 'Keyboard shortcuts'),
    el('dl', KEYS.map(([keys, what]) => el('div', el('dt', keys.split(' ').map((key) => el('kbd', key))), el('dd', what)))),
    button('close', () => dialog.close(), { class: 'primary' }),
  );
  document.body.append(dialog);
  dialog.showModal();
}

/** @param {import('./app.js').App} app  @param {string[]} panels  their names, in the order of the tabs */
export function listenToKeys(app, panels) {
  const press = (key) => document.querySelector(`[data-key="${key}"]`)?.click();
  const panel = (by) => {
    const to = panels.indexOf(app.state.panel) + by;
    if (panels[to]) app.set({ panel: panels[to] });
  };
  const actions = {
    '?': showKeys,
    '[': () => panel(-1),
    ']': () => panel(1),
    ',': () => press('step-back'),
    '.': () => press('step-on'),
    m: () => document.querySelector('#panel td[tabindex="0"], #panel .number, #panel [role=region], #panel figure button')?.focus(),
    w: () => app.set({ depth: 'words' }),
    n: () => app.set({ depth: 'numbers' }),
    f: () => app.set({ depth: 'formula' }),
    d: () => press('light'),
    e: () => [...document.querySelectorAll('.live input, #ask input')].find((field) => field.checkVisibility())?.select(),
    Escape: () => (app.state.tensor ? close(app) : press('close-band')),
  };
  const arrows = (by, target) => {
    if (target.closest('#steps')) return () => go('#steps', () => press(by < 0 ? 'step-back' : 'step-on'));
    if (target.closest('#tabs')) return () => go('#tabs', () => panel(by));
    return app.state.panel === 'story' && !target.closest('input, [role=grid]') ? () => turn(app, by) : null;
  };
  addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest('input:not([type=range], [type=checkbox]), select, textarea, dialog')) return void (event.key === 'Escape' && event.target.blur());
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const action = by ? arrows(by, event.target) : actions[event.key];
    if (!action || (event.key === 'Escape' && !app.state.tensor && !app.state.band)) return;
    event.preventDefault();
    action();
  });
}

/** Go to another step or panel; the focus moves to its button. */
function go(buttons, act) {
  act();
  document.querySelector(`${buttons} [aria-current]`).focus({ preventScroll: true });
}
