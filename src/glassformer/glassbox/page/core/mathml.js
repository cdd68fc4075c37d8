/** Formulas: the MathML of a trace, read with a list of the allowed elements. */

const NAMESPACE = 'http://www.w3.org/1998/Math/MathML';
const ALLOWED = new Set('math mrow mi mn mo msub msup msubsup munder mfrac msqrt mtext'.split(' '));
const ENTITIES = { '&lt;': '<', '&gt;': '>', '&amp;': '&', '&quot;': '"' };
const PARTS = /<(\/?)([a-z]+)[^>]*>|([^<]+)/g;

/** @param {string} text @returns {Element|null}  null where the text is not a formula */
export function formula(text) {
  const open = [document.createElement('span')];
  for (const [, closing, tag, letters] of text.matchAll(PARTS)) {
    if (letters !== undefined) open.at(-1).append(letters.replace(/&\w+;/g, (entity) => ENTITIES[entity] ?? entity));
    else if (!ALLOWED.has(tag)) return null;
    else if (closing) open.pop();
    else {
      const element = document.createElementNS(NAMESPACE, tag);
      if (tag === 'math') element.setAttribute('display', 'block');
      open.at(-1)?.append(element);
      open.push(element);
    }
    if (!open.length) return null;
  }
  return open[0].firstElementChild;
}
