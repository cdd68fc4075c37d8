/** Figure 1 as one picture that is sent: an animated SVG, which plays again and again, and a PNG of 1200 × 630 pixels. */

import { el, svg } from 'glassbox/core/dom.js';
import { download } from 'glassbox/views/figure.js';

export const WIDTH = 1200; // pixels
export const HEIGHT = 630;
export const FOOT = 64; // of the words below the figure
const [FADE, PAUSE] = [180, 4000]; // milliseconds: of what appears, and before it begins again
const OWN = /\.(paper|band|stems|strip|lines|token|tokens|column|cable|strand|letter|work|speech|odds|stack|of|poster)\b/;
const OTHER = /hover|focus|small|quick|narrow|figure1|first|open|glow|aria-current|chip|walk/;
const PAST = { strip: 0.7, lines: 0.22 }; // opacities

function opacityOf(element, now) {
  if (element.matches('.work')) return now ? (now.includes('quiet') ? 0.2 : 0.42) : 0;
  return now.includes('past') ? (PAST[element.classList[0]] ?? 1) : Number(now.includes('on'));
}

/**
 * @param {import('./paperfigure.js').PaperFigure} figure  of the size of the poster, without FOOT
 * @param {{frames: object[], starts: number[], length: number}} player  see player.js
 * @param {string[]} words  the lines below the figure
 * @returns {string} the picture, as text
 */
export function poster(figure, { frames, starts, length }, words, isMoving) {
  const timelines = new Map(); // element -> [time, opacity], where it changes
  const note = (element, time, opacity) => {
    const known = timelines.get(element) ?? timelines.set(element, []).get(element);
    if ((known.at(-1)?.[1] ?? 0) !== opacity) known.push([time, opacity]);
  };
  frames.slice(isMoving ? 0 : -1).forEach(({ state, kind }, i) => {
    const time = isMoving ? starts[i] : 0;
    const before = figure.step;
    figure.show(state, true);
    if (figure.step !== before) {
      note(before, time, 0);
      if (isMoving && kind === 'quick') for (const each of figure.step.querySelectorAll('.own, .odds')) each.remove(); // not seen in the time that it has
      note(figure.step, time, 1);
    }
    for (const [element, , now = ''] of [...figure.parts, ...figure.stepParts])
      if (!element.matches('.band')) note(element, time, opacityOf(element, now));
  });
  const lines = words.map((text, i) => svg('text.poster', { x: WIDTH / 2, y: HEIGHT - FOOT + 22 + i * 27, 'text-anchor': 'middle', class: i ? 'strong' : '' }, text));
  figure.element.append(...lines);
  if (isMoving) note(lines.at(-1), starts[frames.findIndex(({ state }) => state === frames.at(-1).state)] - 900, 1);
  const whole = length + PAUSE;
  const names = new Map();
  const at = (time) => `${((100 * time) / whole).toFixed(2)}%`;
  for (const [element, changes] of isMoving ? timelines : []) {
    if (!changes.length) continue;
    const way = element.style.getPropertyValue('--dx') ? `;transform:translate(${element.style.getPropertyValue('--dx')},${element.style.getPropertyValue('--dy')})` : '';
    const keys = changes.map(([time, opacity], i) => `${at(time)}{opacity:${way ? 1 : (changes[i - 1]?.[1] ?? 0)}${way}}${at(time + FADE)}{opacity:${opacity}${way && ';transform:none'}}`);
    const rule = `0%,${way ? at(changes[0][0] - 1) : '0%'}{opacity:0${way}}${keys.join('')}100%{opacity:${changes.at(-1)[1]}}`;
    if (!names.has(rule)) names.set(rule, `k${names.size}`);
    element.dataset.play = names.get(rule);
  }
  const rules = [...names].map(([rule, name]) => `@keyframes ${name}{${rule}}.${name}{animation:${name} ${whole}ms infinite;opacity:0}`);
  const text = serialized(figure.element, isMoving ? `${rules.join('')}@media(prefers-reduced-motion:reduce){*{animation:none!important}}` : '');
  figure.element.remove();
  return text;
}

/** The picture with the rules of the style sheet that are about it, and the colors of the page. */
function serialized(element, more) {
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).filter(({ selectorText }) => OWN.test(selectorText) && !OTHER.test(selectorText));
  const text = rules.map(({ cssText }) => cssText.replace(/(transition|cursor|animation|pointer-events|outline|visibility|stroke-dash\w+): [^;]+;/g, '')).join('');
  const root = getComputedStyle(document.documentElement);
  const colors = [...new Set(text.match(/--[\w-]+/g))].map((name) => `${name}:${root.getPropertyValue(name)}`).join(';');
  const copy = element.cloneNode(true);
  for (const each of copy.querySelectorAll('title, .strip > rect')) each.remove();
  for (const each of [copy, ...copy.querySelectorAll('*')]) {
    if (each.dataset.play) each.classList.add(each.dataset.play);
    for (const { name } of [...each.attributes]) if (/^(data-|aria-|role$|tabindex|pathLength|style$)/.test(name) && !(name === 'style' && each.matches('text'))) each.removeAttribute(name);
  }
  for (const [name, value] of Object.entries({ xmlns: 'http://www.w3.org/2000/svg', width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}` })) copy.setAttribute(name, value);
  copy.prepend(svg('style', `:root{${colors}}${text}${more}`), svg('rect', { width: WIDTH, height: HEIGHT, fill: root.getPropertyValue('--ground') }));
  return new XMLSerializer().serializeToString(copy);
}

/** Save the picture as a file. */
export async function savePoster(name, text, isPng) {
  if (!isPng) return download(`${name}.svg`, [text, 'image/svg+xml']);
  const image = el('img', { src: `data:image/svg+xml,${encodeURIComponent(text)}` });
  await image.decode();
  const canvas = el('canvas', { width: WIDTH, height: HEIGHT });
  canvas.getContext('2d').drawImage(image, 0, 0, WIDTH, HEIGHT);
  canvas.toBlob((blob) => download(`${name}.png`, [blob, 'image/png']));
}
