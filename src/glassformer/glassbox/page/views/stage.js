/** One tensor as all panels show it: title, shape, check, words or formula, numbers. */

import { button, el, range } from 'glassbox/core/dom.js';
import { tensorTitle } from 'glassbox/model/labels.js';
import { saveButtons } from 'glassbox/views/figure.js';
import { heatmap } from 'glassbox/views/heatmap.js';
import { formula } from 'glassbox/core/mathml.js';
import { matrix, size } from 'glassbox/views/matrix.js';
import { headOf, named, shapeText } from 'glassbox/core/numbers.js';

/** The check of a tensor: green, red, or gray where it cannot be recomputed; a sign and a word repeat the color. */
export function badge(trace, name) {
  const { passed, largest, note } = trace.verdict(name);
  const [kind, sign, word] =
    passed === null ? ['gray', '–', trace.isDerived(name) ? 'computed here' : 'not recomputed'] : passed ? ['green', '✓', 'recomputed'] : ['red', '✗', 'wrong'];
  const title = note || `recomputed from its inputs; largest difference ${largest.toExponential(1)}`;
  return el(`span.badge.${kind}`, { title, data: { verdict: String(passed), step: name } }, `${sign} ${word}`);
}

/**
 * @param {import('./app.js').App} app
 * @param {string} name  of a tensor
 * @param {object} options  those of `matrix`, and `title`, `words`, `before` and `after` (elements above and below the matrix)
 */
export function stage(app, name, options = {}) {
  const x = app.trace.get(name);
  if (!x) return null;
  const step = app.trace.stepOf.get(name);
  const isChange = app.state.compare === 'difference';
  const change = isChange ? app.changeOf(name) : null;
  const title = (options.title ?? step?.title ?? name) + (isChange ? ': after − before' : '');
  return el(
    'section.stage',
    { 'aria-label': `${title}: ${tensorTitle(app.trace, name)}`, data: { stage: name } },
    el(
      'header',
      el('h2', title),
      el('span.size', { title: shapeText(x) }, size(headOf(x, 0))),
      step ? badge(app.trace, name) : el('span.badge.gray', 'given'),
      button(app.state.depth === 'formula' ? el('code', name) : 'inspect', () => app.pick(name, null), { class: 'link', 'aria-label': `inspect ${tensorTitle(app.trace, name)}`, title: name, data: { key: `stage-${name}` } }),
      x.axes.length ? saveButtons(name, () => imageOf(app.trace, name, change ?? x, options.head)) : null,
    ),
    explanation(app, step, options.words),
    options.before,
    isChange && !change
      ? el('p.hint', 'There is no difference to show: the tensor has other rows after the edits, or it is not computed.')
      : matrix(app, name, isChange ? { ...options, whole: change } : options),
    options.after,
  );
}

/** Stages that are one below the other where the panel has columns too: a short one leaves no gap below it. */
export const together = (...stages) => el('div.together', stages);

/** The numbers as a picture with their labels, of the head that is shown. */
function imageOf(trace, name, whole, head = 0) {
  const { axes, shape, numbers } = headOf(whole, head);
  const [down, across] = axes.length > 1 ? axes : ['', axes[0]];
  const [height, width] = axes.length > 1 ? shape : [1, shape[0]];
  const labels = (axis, length) => range(length).map((i) => (axis ? `${i} ${trace.label(axis, i)}`.trim() : ''));
  const x = named([down, across], [height, width], numbers);
  return heatmap(name, x, { rows: labels(down, height), columns: labels(across, width) }).querySelector('.scroller > svg');
}

function explanation(app, step, words) {
  const { depth } = app.state;
  if (depth === 'words') return el('p.words', words ?? step?.words ?? 'Given, not computed.');
  if (depth === 'numbers' || !step) return null;
  const operands = step.inputs.map((name) => {
    const x = app.trace.get(name);
    return el('li', { title: name }, tensorTitle(app.trace, name), x ? el('span.size', ` ${size(x)}`) : '');
  });
  return el('div.formula', formula(step.formula), el('ul.inputs', el('li', 'computed from'), operands));
}
