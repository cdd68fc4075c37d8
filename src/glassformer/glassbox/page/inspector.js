/** The inspector: a tensor, or one cell of it, with its formula, operands, statistics and check. */

import { button, el } from 'glassbox/dom.js';
import { formula } from 'glassbox/mathml.js';
import { size } from 'glassbox/matrix.js';
import { at, digits, headOf, shapeText, sizeOf, statistics } from 'glassbox/numbers.js';
import { badge } from 'glassbox/stage.js';
import { termsOf } from 'glassbox/terms.js';

const MAX_TERMS = 400;

export function inspector(app) {
  const { tensor: name, cell } = app.state;
  const x = name && app.trace.get(name);
  if (!x)
    return [
      el('h2', 'Inspector'),
      el('p.hint', 'Select a number, with the mouse or with Tab and the arrow keys, to see how it is computed.'),
    ];
  const step = app.trace.stepOf.get(name);
  return [
    el(
      'h2',
      step?.title ?? (app.trace.tensors[name]?.origin === 'weight' ? 'weights of the model' : 'given, not computed'),
    ),
    el('p', el('code', name), ' ', step ? badge(app.trace, name) : ''),
    el('p.size', shapeText(x)),
    cell && sizeOf(x.shape) ? cellPart(app, name, x, step, cell) : null,
    step ? stepPart(app, step) : null,
    statisticsPart(x, cell),
    usersPart(app, name),
  ];
}

function cellPart(app, name, x, step, cell) {
  const where = x.axes.map((axis, i) => el('li', `${axis} ${cell[i]} `, el('bdi', app.trace.label(axis, cell[i]))));
  return el(
    'section',
    { 'aria-label': 'the cell' },
    el('output.value', { data: { value: String(at(x, cell)) } }, digits(at(x, cell))),
    el('ul.where', where),
    step ? terms(app, step, cell) : el('p', 'This number is given, not computed.'),
  );
}

function terms(app, step, cell) {
  const found = termsOf(app.trace, step, cell);
  if (!found) {
    const missing = step.inputs.filter((name) => !app.trace.has(name));
    return el(
      'p.missing',
      `The terms are not available: this page does not include ${missing.join(', ')}. ` +
        'In Python, “glassformer.explain(model, text, weights=True)” includes the weights.',
    );
  }
  const text = (part) => (typeof part === 'number' ? digits(part) : part);
  const rows = found.rows.slice(0, MAX_TERMS).map(({ label, cells }) =>
    el(
      'tr',
      { data: { term: String(cells.at(-1)) } },
      el('th', { scope: 'row' }, el('bdi', label)),
      cells.map((part) => el('td', text(part))),
    ),
  );
  const width = found.columns.length;
  const more =
    found.rows.length > MAX_TERMS
      ? el(
          'tr',
          el('td', { colspan: width }, `… and ${found.rows.length - MAX_TERMS} more terms, which are part of the sum`),
        )
      : null;
  const line = (label, number, kind) =>
    el(
      'tr',
      { class: kind, data: { [kind]: String(number) } },
      el('th', { scope: 'row' }, label),
      el('td', digits(number)),
    );
  return [
    el(
      'div.terms',
      { tabindex: 0, role: 'region', 'aria-label': 'terms' },
      el(
        'table.plain',
        el(
          'thead',
          el(
            'tr',
            found.columns.map((column) => el('th', { scope: 'col' }, column)),
          ),
        ),
        el('tbody', rows, more),
      ),
    ),
    el(
      'table.plain.totals',
      el(
        'tbody',
        found.sum === null ? null : line(`sum of ${found.rows.length} terms`, found.sum, 'sum'),
        found.after.map(([label, number]) => line(label, number, 'after')),
      ),
    ),
  ];
}

function stepPart(app, step) {
  const inputs = step.inputs.map((name) => {
    const x = app.trace.get(name);
    const link = x
      ? button(el('code', name), () => app.goTo(name), { class: 'link', data: { key: `input-${name}` } })
      : el('code', name);
    return el('li', link, el('span.size', x ? ` ${size(x)}` : ' not in this page'));
  });
  const attributes = Object.entries(step.attributes)
    .map(([name, value]) => `${name} = ${value}`)
    .join(', ');
  const { passed, largest, note } = app.trace.verdict(step.output);
  const verdict =
    passed === null
      ? `Not recomputed: ${note}.`
      : passed
        ? `Recomputed by this page from these inputs: largest difference ${largest.toExponential(1)}.`
        : `This tensor does not follow from its inputs: ${note || `largest difference ${largest.toPrecision(3)}`}.`;
  return el(
    'section',
    { 'aria-label': 'the operation' },
    el('p.words', step.words),
    formula(step.formula),
    el('h3', `${step.op} of`),
    el('ul.inputs', inputs),
    attributes ? el('p.size', attributes) : null,
    el('p', { class: passed === false ? 'wrong' : null }, verdict),
    step.section ? el('p.size', `Section ${step.section} of the paper`) : null,
  );
}

function statisticsPart(x, cell) {
  const part = cell && x.axes[0] === 'head' ? headOf(x, cell[0]) : x;
  if (sizeOf(part.shape) < 2) return null;
  const found = statistics(part.numbers);
  const rows = [
    ['smallest', digits(found.smallest)],
    ['largest', digits(found.largest)],
    ['mean', digits(found.mean)],
    ['standard deviation', digits(found.deviation)],
    ['fraction of zeros', `${(found.zeros * 100).toFixed(1)} %`],
  ];
  return el(
    'section',
    { 'aria-label': 'statistics' },
    el('h3', part === x ? 'all numbers of the tensor' : `all numbers of head ${cell[0]}`),
    el(
      'dl',
      rows.map(([name, value]) => [el('dt', name), el('dd', value)]),
    ),
  );
}

function usersPart(app, name) {
  const users = app.trace.usersOf(name);
  if (!users.length) return null;
  return el(
    'section',
    { 'aria-label': 'used by' },
    el('h3', 'used by'),
    el(
      'ul.inputs',
      users.slice(0, 12).map((step) =>
        el(
          'li',
          button(el('code', step.output), () => app.goTo(step.output), {
            class: 'link',
            data: { key: `user-${step.output}` },
          }),
        ),
      ),
    ),
  );
}
