/** A button that copies a text; where the browser refuses, the text is shown and selected. */

import { button, el } from 'glassbox/core/dom.js';

const SHOWN = 1600; // milliseconds

/** @param {string|HTMLElement} label  @param {() => string} text  @param {object} options  attributes of the button */
export function copyButton(label, text, options = {}) {
  const status = el('span.copied', { 'aria-live': 'polite' });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
      status.replaceChildren(' copied');
      setTimeout(() => status.replaceChildren(), SHOWN);
    } catch {
      const field = el('input', { value: text(), readonly: true, 'aria-label': 'copy this text', size: 30 });
      status.replaceChildren(field);
      field.select();
    }
  };
  return el('span.copy', button(label, copy, options), status);
}
