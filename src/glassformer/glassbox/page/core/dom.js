/** Elements from data. Every text becomes a text node: nothing in a trace is read as HTML. */

const SVG = 'http://www.w3.org/2000/svg';

/**
 * An element: `el('p.hint', { title: '…' }, 'some text', child)`. The options are optional.
 *
 * @param {string} tag  a name, with classes after dots
 * @param {...any} parts  first, if it is a plain object: attributes, where `on` holds listeners, `data` the
 *   data- attributes, `style` the properties; then nodes, texts, lists of them (null and false are left out)
 */
export function el(tag, ...parts) {
  const [name, ...classes] = tag.split('.');
  return fill(document.createElement(name), classes, ...split(parts));
}

export function svg(tag, ...parts) {
  const [name, ...classes] = tag.split('.');
  return fill(document.createElementNS(SVG, name), classes, ...split(parts));
}

const split = (parts) => (parts[0]?.constructor === Object ? [parts[0], parts.slice(1)] : [{}, parts]);

function fill(element, classes, { on = {}, data = {}, style = {}, class: more, ...attributes }, children) {
  element.classList.add(...[...classes, ...(more ?? '').split(' ')].filter(Boolean));
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, '');
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  Object.assign(element.dataset, data);
  for (const [name, value] of Object.entries(style)) element.style.setProperty(name, value);
  for (const [event, listener] of Object.entries(on)) element.addEventListener(event, listener);
  element.append(...shown(children).map(node));
  return element;
}

/** Nodes and texts, without the lists around them and without what is null or false. */
export const shown = (children) =>
  children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== '');

const node = (child) => (child instanceof Node ? child : document.createTextNode(String(child)));

export const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}]/u;

/** A text, isolated so that one from right to left does not reorder the text around it; and a token as an element. */
export const isolated = (text) => (RIGHT_TO_LEFT.test(text) ? `\u2068${text}\u2069` : text);
export const bdi = (text, kind = '') => el('bdi.token', { class: kind, title: text }, text);

export function button(label, onClick, options = {}) {
  return el('button', { type: 'button', ...options, on: { click: onClick } }, label);
}

/** A field for text, which the browser neither completes nor corrects. */
export const textField = (key, attributes) =>
  el('input', { autocomplete: 'off', spellcheck: 'false', data: { key }, ...attributes });

/** Fields with a button that sends them: `onSend` gets the elements of the form. */
export function form(tag, label, key, onSend, ...fields) {
  const submit = (event) => {
    event.preventDefault();
    onSend(event.target.elements);
  };
  return el(tag, { on: { submit } }, fields, el('button.primary', { type: 'submit', data: { key } }, label));
}

/** Values with their texts: an object, or pairs where the values are not strings. */
const pairs = (options) => (Array.isArray(options) ? options : Object.entries(options));

/** One of several choices; the native element has keyboard support and a name. */
export function select(label, options, chosen, onChange, key = label) {
  const isChosen = (value) => String(value) === String(chosen);
  const listed = pairs(options).map(([value, text]) => el('option', { value, selected: isChosen(value) }, text));
  const control = el('select', { data: { key }, on: { change: () => onChange(control.value) } }, listed);
  return el('label.field', el('span', label), control);
}

/** A row of mutually exclusive choices. */
export function choices(label, options, chosen, onChoose) {
  const attributes = (value) => ({ 'aria-pressed': String(value === chosen), data: { key: `${label}-${value}` } });
  const buttons = pairs(options).map(([value, text]) => button(text, () => onChoose(value), attributes(value)));
  return el('div.choices', { role: 'group', 'aria-label': label }, buttons);
}

/** A number on a scale, which is written next to it; `onChange` gets it when the slider is released. */
export function slider(label, { min = 0, max, value, step = 1 }, onInput, { key = label, onChange = () => {} } = {}) {
  const output = el('output', String(value));
  const input = () => {
    output.textContent = control.value;
    onInput(Number(control.value));
  };
  const on = { input, change: () => onChange(Number(control.value)) };
  const control = el('input', { type: 'range', min, max, step, value, data: { key }, on });
  return el('label.field', el('span', label), control, output);
}

/** @param {HTMLElement[]} rows  see `row` */
export function table(caption, columns, rows, options = {}) {
  const headings = columns.map((column) => (column === '' ? el('td') : el('th', { scope: 'col' }, column)));
  return el('table.plain', options, caption && el('caption', caption), el('thead', el('tr', headings)), el('tbody', rows));
}

/** A row of a table: its heading and its cells, after attributes if there are any. */
export function row(...parts) {
  const [attributes, [heading, ...cells]] = split(parts);
  const isCell = (cell) => cell instanceof Element && cell.matches('td');
  return el('tr', attributes, el('th', { scope: 'row' }, heading), cells.map((cell) => (isCell(cell) ? cell : el('td', cell))));
}

/** What may be wider than its place: it scrolls sideways. */
export const wide = (...parts) => el('div.scroller', parts);

/** A part of a panel: its name for screen readers, its title, attributes if there are any, and what is in it. */
export function section(name, title, ...parts) {
  const [attributes, children] = split(parts);
  return el('section', { 'aria-label': name, ...attributes }, title ? el('h2', title) : null, children);
}

/** A picture of a size in pixels, what it shows in words, attributes if there are any, and its parts. */
export function image(width, height, label, ...parts) {
  const [attributes, children] = split(parts);
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  return svg('svg', { ...size, role: 'img', 'aria-label': label, ...attributes }, children);
}

/** The indices of a list of this length. */
export const range = (length) => Array.from({ length }, (_, i) => i);

/** Which way an arrow key goes: rows down, columns to the right. */
export const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** Listeners of an element that is not a button, but is pressed like one. */
export const pressed = (act) => ({
  click: act,
  keydown: (event) => (event.key === 'Enter' || event.key === ' ' ? act(event) : null),
});

/** "the weights of a head" as a sentence: "The weights of a head." */
export const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

/** The first characters of a text that is longer. */
export const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** What scrolls sideways and has nothing in it that takes the focus takes it itself, so that the keyboard scrolls it. */
export function letKeyboardScroll(root) {
  for (const box of root.querySelectorAll('.scroller:not([tabindex])')) {
    if (box.scrollWidth <= box.clientWidth || box.querySelector('button, [tabindex="0"], input')) continue;
    const name = box.querySelector('caption')?.textContent || box.closest('section, figure')?.ariaLabel || 'table';
    for (const [attribute, value] of Object.entries({ tabindex: 0, role: 'group', 'aria-label': name }))
      box.setAttribute(attribute, value);
  }
}

/** Wait until the browser has drawn the page as it is; it draws none in the background. */
export const drawn = () =>
  new Promise((resolve) => (document.hidden ? resolve() : requestAnimationFrame(() => setTimeout(resolve))));

const PAUSE = 25; // milliseconds of work, after which the browser may draw

/** Do what is done in the steps of an iterator, without keeping the browser from drawing, as long as it is wanted. */
export async function unhurried(steps, isWanted = () => true) {
  let until = 0;
  for (const _ of steps) {
    if (performance.now() < until) continue;
    await new Promise((resolve) => setTimeout(resolve));
    if (!isWanted()) return;
    until = performance.now() + PAUSE;
  }
}

/** Change from the light to the dark theme, or back. */
export function switchLight() {
  const root = document.documentElement;
  const isDark = getComputedStyle(root).getPropertyValue('color-scheme').trim() === 'dark';
  root.dataset.light = isDark ? 'light' : 'dark';
}
