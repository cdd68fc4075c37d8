/** A large matrix as a picture as wide as the card; a frame, which is dragged, marks the part that the table shows. */

import { el } from 'glassbox/core/dom.js';
import { heat } from 'glassbox/views/heat.js';
import { tensorTitle } from 'glassbox/model/labels.js';
import { grouped, scaleOf } from 'glassbox/core/numbers.js';

const [MIN_HEIGHT, MAX_HEIGHT, ROW] = [32, 120, 4];

/**
 * @param view  of matrix.js
 * @param {object} first  the window that is shown first
 * @param {(top: number, left: number) => void} go  moves the window
 * @returns {{element: HTMLElement, show: (shown: object) => void}}  `show` moves the frame
 */
export function overview({ app, name, x }, first, go) {
  const [rows, columns] = x.shape;
  const picture = heat(x, scaleOf(x), {
    width: '100%',
    height: Math.min(Math.max(rows * ROW, MIN_HEIGHT), MAX_HEIGHT),
    role: 'img',
    'aria-label': `overview of ${tensorTitle(app.trace, name)}: ${rows} rows, ${columns} columns; the frame marks the part in the table below`,
  });
  const [frame, words] = [el('i.frame'), el('small')];
  const map = el('div.map', picture, frame);
  let shown = first;
  const follow = (event) => {
    const box = map.getBoundingClientRect();
    const [down, across] = [(event.clientY - box.top) / box.height, (event.clientX - box.left) / box.width];
    go(Math.round(down * rows - shown.height / 2), Math.round(across * columns - shown.width / 2));
  };
  map.addEventListener('pointerdown', (event) => {
    map.setPointerCapture(event.pointerId);
    follow(event);
  });
  map.addEventListener('pointermove', (event) => (map.hasPointerCapture(event.pointerId) ? follow(event) : null));
  const show = (next) => {
    shown = next;
    for (const [side, whole] of Object.entries({ left: columns, top: rows, width: columns, height: rows }))
      frame.style.setProperty(`--${side}`, `${(shown[side] / whole) * 100}%`);
    const [down, across] = [`${shown.top}–${shown.top + shown.height - 1}`, `${shown.left}–${shown.left + shown.width - 1}`];
    words.textContent = `${grouped(rows)} × ${grouped(columns)}; the table shows rows ${down}, columns ${across}. Drag the frame, or use the arrow keys in the table.`;
  };
  return { element: el('div.overview', map, words), show };
}
