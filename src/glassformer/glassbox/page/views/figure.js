/** A button that saves a picture as SVG, with the colors of the page. */

import { button, el, svg } from 'glassbox/core/dom.js';

const STYLES = [
  'fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'stroke-dasharray', 'opacity', 'font-family',
  'font-size', 'font-weight', 'text-anchor', 'visibility',
]; // prettier-ignore

/**
 * @param {string} title  the name of the file
 * @param {SVGElement|(() => SVGElement)} image  or what makes it when it is saved
 */
export function saveButtons(title, image) {
  const save = () => download(`${nameOf(title)}.svg`, [image instanceof Function ? drawn(image()) : standalone(image), 'image/svg+xml']);
  const name = { 'aria-label': `save ${title} as SVG`, title: 'save as SVG', data: { key: `svg-${nameOf(title)}` } };
  return el('span.save', button('SVG', save, { class: 'link', ...name }));
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
