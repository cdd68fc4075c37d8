/**
 * The inspector: a tensor, or one cell of it, with its terms, formula, operands, statistics and check. It is empty, and
 * not on the screen, until something is selected. Escape closes it.
 */

import { button, el, section } from 'glassbox/core/dom.js';
import { headTitle, place, tensorTitle } from 'glassbox/model/labels.js';
import { formula } from 'glassbox/core/mathml.js';
import { matrix, size } from 'glassbox/views/matrix.js';
import { at, digits, headOf, shapeText, sizeOf, statistics } from 'glassbox/core/numbers.js';
import { product } from 'glassbox/views/product.js';
import { badge } from 'glassbox/views/stage.js';
import { termList } from 'glassbox/views/termlist.js';

export function inspector(app) {
  const { tensor: name, cell } = app.state;
  const x = name && app.trace.get(name);
  if (!x) return [];
  const step = app.trace.stepOf.get(name);
  const [title, ...parts] = tensorTitle(app.trace, name).split(' · ');
  return [
    button('✕', () => close(app), { class: 'close', 'aria-label': 'close the inspector', data: { key: 'close' } }),
    el('h2', step?.title ?? title),
    el('p.part', parts.concat(app.state.compare === 'difference' ? 'before the edits' : []).join(' · '), ' ', step ? badge(app.trace, name) : ''),
    cell && sizeOf(x.shape) ? cellPart(app, name, x, step, cell) : null,
    elsewhere(app, name, cell),
    step ? stepPart(app, step) : null,
    statisticsPart(x, cell),
    usersPart(app, name),
    identifier(name, x, step),
  ];
}

function cellPart(app, name, x, step, cell) {
  return section(
    'the cell',
    '',
    el('p.where', place(app.trace, x.axes, cell)),
    el('output.value', { data: { value: String(at(x, cell)) } }, digits(at(x, cell))),
    step && x.axes[0] === 'head' ? product(app, step, cell[0], 270) : null,
    step
      ? termList(app, step, cell, open)
      : el('p', `This number is ${name.startsWith('evidence.') ? 'measured, see the panel “Alignment”' : 'given, not computed'}.`),
  );
}

/** The tensor itself, where the panel does not show it: weights, for example. */
function elsewhere(app, name, cell) {
  if (document.querySelector(`#panel [data-tensor="${CSS.escape(name)}"]`)) return null;
  const head = cell?.length === 3 ? cell[0] : app.state.head;
  return section('numbers', '', el('h3', 'numbers'), matrix(app, name, { head, width: 330 }));
}

/** Open a tensor in its panel; the focus goes to the cell. */
function open(app, name, cell = null) {
  app.goTo(name, cell);
  cellOf(name, cell)?.focus({ preventScroll: true });
}

const cellOf = (name, cell) =>
  cell && document.querySelector(`[data-tensor="${CSS.escape(name)}"] td[data-cell="${cell.join()}"]`);

/**
 * Where the focus is, before the panel is drawn again: the function that is returned puts it back, and scrolls so that
 * the number stays where it was when the inspector makes the panel narrower.
 */
export function keepPlace() {
  const before = document.activeElement;
  const cell = before?.closest?.('#panel td[data-cell]');
  if (!cell) return () => {};
  const [name, index] = [cell.closest('[data-tensor]').dataset.tensor, cell.dataset.cell.split(',')];
  const { top } = cell.getBoundingClientRect();
  return () => {
    const found = cellOf(name, index);
    if (!found) return;
    if (document.activeElement === document.body) found.focus({ preventScroll: true });
    scrollBy(0, found.getBoundingClientRect().top - top);
    found.scrollIntoView({ block: 'nearest', inline: 'nearest' }); // not below the sheet of a narrow window
  };
}

const link = (app, name, key) =>
  button(tensorTitle(app.trace, name), () => open(app, name), { class: 'link', title: name, data: { key } });

function stepPart(app, step) {
  const inputs = step.inputs.map((name) => {
    const x = app.trace.get(name);
    return x
      ? el('li', link(app, name, `input-${name}`), el('span.size', ` ${size(x)}`))
      : el('li', el('code', name), el('span.size', ' not in this page'));
  });
  const { passed, largest, note } = app.trace.verdict(step.output);
  const verdict =
    passed === null
      ? `Not recomputed: ${note}.`
      : passed
        ? `Recomputed by this page from these inputs: largest difference ${largest.toExponential(1)}.`
        : `This tensor does not follow from its inputs: ${note || `largest difference ${largest.toPrecision(3)}`}.`;
  return section(
    'the operation',
    '',
    el('p.words', step.words),
    formula(step.formula),
    el('h3', 'computed from'),
    el('ul.inputs', inputs),
    el('p', { class: passed === false ? 'wrong' : null }, verdict),
    step.section ? el('p.size', `Section ${step.section} of the paper`) : null,
  );
}

function statisticsPart(x, cell) {
  const part = cell && x.axes[0] === 'head' ? headOf(x, cell[0]) : x;
  if (sizeOf(part.shape) < 2) return null;
  const { smallest, largest, mean, deviation, zeros } = statistics(part.numbers);
  const rows = {
    smallest: digits(smallest),
    largest: digits(largest),
    mean: digits(mean),
    'standard deviation': digits(deviation),
    'fraction of zeros': `${(zeros * 100).toFixed(1)}\u00a0%`,
  };
  return section(
    'statistics',
    '',
    el('h3', part === x ? 'all numbers of the tensor' : `all numbers of ${headTitle(cell[0])}`),
    el('dl', Object.entries(rows).map(([name, value]) => [el('dt', name), el('dd', value)])),
  );
}

function usersPart(app, name) {
  const users = app.trace.usersOf(name);
  if (!users.length) return null;
  const links = users.slice(0, 12).map(({ output }) => el('li', link(app, output, `user-${output}`)));
  return section('used by', '', el('h3', 'used by'), el('ul.inputs', links));
}

/** Names as in the trace, for the command line. */
function identifier(name, x, step) {
  const attributes = Object.entries(step?.attributes ?? {}).map(([key, value]) => `${key} = ${value}`);
  return el(
    'details.identifier',
    el('summary', 'name in the trace'),
    el('p', el('code', name)),
    step ? el('p', 'operation ', el('code', step.op), attributes.length ? ` (${attributes.join(', ')})` : '') : null,
    el('p.size', shapeText(x)),
    el('p.size', 'In this name layers count from 0, as heads do on the command line: ', el('code', `--tensor ${name}`)),
  );
}

/** The focus returns to the number. */
export function close(app) {
  const { tensor, cell } = app.state;
  const keyed = (key) => document.querySelector(`[data-key="${CSS.escape(key)}"]`);
  const opener = app.opener && keyed(app.opener);
  app.pick(null, null);
  (opener ?? cellOf(tensor, cell) ?? keyed(`stage-${tensor}`))?.focus();
}
