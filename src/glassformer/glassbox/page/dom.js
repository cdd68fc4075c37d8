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
  element.append(
    ...children
      .flat(Infinity)
      .filter((child) => child !== null && child !== undefined && child !== false)
      .map(node),
  );
  return element;
}

const node = (child) => (child instanceof Node ? child : document.createTextNode(String(child)));

/** A token, isolated so that right-to-left text does not reorder the text around it. */
export const bdi = (text, kind = '') => el('bdi.token', { class: kind, title: text }, text);

export function button(label, onClick, options = {}) {
  return el('button', { type: 'button', ...options, on: { click: onClick } }, label);
}

/** One of several choices; the native element has keyboard support and a name. */
export function select(label, choices, chosen, onChange, key = label) {
  const options = choices.map(([value, text]) =>
    el('option', { value, selected: String(value) === String(chosen) }, text),
  );
  const control = el('select', { data: { key }, on: { change: () => onChange(control.value) } }, options);
  return el('label.field', el('span', label), control);
}

/** A row of mutually exclusive choices. */
export function choices(label, options, chosen, onChoose) {
  return el(
    'div.choices',
    { role: 'group', 'aria-label': label },
    options.map(([value, text]) =>
      button(text, () => onChoose(value), {
        'aria-pressed': String(value === chosen),
        data: { key: `${label}-${value}` },
      }),
    ),
  );
}

export function slider(label, { min = 0, max, value, step = 1 }, onInput, key = label) {
  const control = el('input', {
    type: 'range',
    min,
    max,
    step,
    value,
    data: { key },
    on: { input: () => onInput(Number(control.value)) },
  });
  return el('label.field', el('span', label), control, el('output', String(value)));
}

export const table = (caption, columns, rows, options = {}) =>
  el(
    'table.plain',
    options,
    caption ? el('caption', caption) : null,
    el(
      'thead',
      el(
        'tr',
        columns.map((column) => (column === '' ? el('td') : el('th', { scope: 'col' }, column))),
      ),
    ),
    el('tbody', rows),
  );

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

/** Change from the light to the dark theme, or back. */
export function switchLight() {
  const root = document.documentElement;
  const isDark = getComputedStyle(root).getPropertyValue('color-scheme').trim() === 'dark';
  root.dataset.light = isDark ? 'light' : 'dark';
}
