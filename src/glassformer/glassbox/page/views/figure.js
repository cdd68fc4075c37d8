/**
 * A figure with buttons that save it: as SVG, with the colors of the page, and as CSV.
 *
 * @example figure('weights of step 3', svg('svg', …), [['key', 'weight'], ['<bos>', 0.5]])
 */

import { button, el, svg } from 'glassbox/core/dom.js';

const STYLES = [
  'fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'stroke-dasharray', 'opacity', 'font-family',
  'font-size', 'font-weight', 'text-anchor', 'visibility',
]; // prettier-ignore

/**
 * @param {string} title  also the name of the files
 * @param {SVGElement|HTMLElement} content
 * @param {(string|number)[][]|null} rows  the numbers, with the names of the columns first
 */
export function figure(title, content, rows = null) {
  const image = content.matches('svg') ? content : content.querySelector('svg');
  return el('figure.saved', el('div.scroller', content), el('figcaption', title, saveButtons(title, image, rows && (() => rows))));
}

/**
 * The buttons alone, for a figure that is made elsewhere.
 *
 * @param {string} title  the name of the files
 * @param {SVGElement|(() => SVGElement)|null} image  or what makes it when it is saved
 * @param {(() => (string|number)[][])|null} rows  as in `figure`; they are made when they are saved
 */
export function saveButtons(title, image, rows) {
  const save = (what, label, make) =>
    button(label, () => download(`${nameOf(title)}.${what}`, make()), {
      class: 'link',
      'aria-label': `save ${title} as ${label}`,
      title: `save as ${label}`,
      data: { key: `${what}-${nameOf(title)}` },
    });
  return el(
    'span.save',
    image ? save('svg', 'SVG', () => [image instanceof Function ? drawn(image()) : standalone(image), 'image/svg+xml']) : null,
    rows ? save('csv', 'CSV', () => [csv(rows()), 'text/csv']) : null,
  );
}

const nameOf = (title) => title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '').slice(0, 60) || 'figure';

/** A picture that is made to be saved: it is in the page for a moment, which gives it its colors. */
function drawn(image) {
  const box = el('div.heatmap-box.visually-hidden', image);
  document.body.append(box);
  const text = standalone(image);
  box.remove();
  return text;
}

/** RFC 4180. A text that a spreadsheet would take for a formula is preceded by an apostrophe. */
export function csv(rows) {
  const cell = (value) => {
    const text = typeof value === 'string' && /^[=+@\t\r-]/.test(value) ? `'${value}` : String(value ?? '');
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return `${rows.map((row) => row.map(cell).join(',')).join('\r\n')}\r\n`;
}

/** The picture without the style sheet of the page: each element has its colors as attributes, which the policy of the page allows. */
export function standalone(image) {
  const copy = image.cloneNode(true);
  const [from, to] = [image, copy].map((root) => [root, ...root.querySelectorAll('*')]);
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of ['class', 'style']) to[i].removeAttribute(name);
    for (const name of STYLES) to[i].setAttribute(name, style.getPropertyValue(name));
  });
  const ground = getComputedStyle(document.documentElement).getPropertyValue('--panel').trim();
  const box = image.getBoundingClientRect();
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  if (!copy.hasAttribute('width')) copy.setAttribute('width', Math.round(box.width));
  const back = svg('rect', { width: '100%', height: '100%', fill: ground });
  back.removeAttribute('class');
  copy.prepend(back);
  return new XMLSerializer().serializeToString(copy);
}

export function download(name, [text, type]) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  el('a', { download: name, href: url }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
