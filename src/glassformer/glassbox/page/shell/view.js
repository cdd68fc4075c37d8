/** The glass box: draws a trace and its state, and redraws them when the state changes. */

import { listen, read, write } from 'glassbox/shell/address.js';
import { App } from 'glassbox/shell/app.js';
import { arrive } from 'glassbox/shell/arrive.js';
import { askForm } from 'glassbox/views/ask.js';
import { el, letKeyboardScroll, shown } from 'glassbox/core/dom.js';
import { bar, checks, header, steps, tabs, tools } from 'glassbox/shell/frame.js';
import { followTokens } from 'glassbox/views/hover.js';
import { inspector, keepPlace } from 'glassbox/views/inspector.js';
import { listenToKeys } from 'glassbox/shell/keys.js';
import { map } from 'glassbox/views/map.js';
import { drawProducts } from 'glassbox/views/product.js';
import { panels } from 'glassbox/panels/all.js';
import { result } from 'glassbox/views/result.js';

const PAPER = 640; // pixels of the width of a printed page, without its margins
const MARGIN = 52; // pixels around a matrix
const SCROLLED = [
  ['#tabs', '[aria-current]'],
  ['#steps .track', '[aria-current]'],
  ['#panel .tree', '[aria-current]'],
]; // boxes, and what is current in the first of them that has it
const OF_NO_TEXT = ['whatif', 'space', 'training', 'errors']; // panels of the model, or of both texts
const printed = matchMedia('print');

const part = (id) => document.getElementById(id);

/**
 * Show a trace.
 *
 * @param contract  a glassformer-trace/1, or a Trace
 * @param server  see server.js, or null
 * @param {{home?: HTMLElement, complete?: (trace: object) => object}} more  a link to the page around this one, and what
 *   it knows besides of a trace that this page computes
 */
export function show(contract, server = null, more = {}) {
  const app = new App(contract, server);
  Object.assign(app, more);
  /** @param {boolean} isQuiet  only the inspector changed  @param {boolean|null} isNew  Back returns to the state before; null: not yet */
  app.notify = (isQuiet = false, isNew = false) => {
    draw(app, isQuiet);
    if (isNew !== null) write(app, isNew);
  };
  const open = async (address) => {
    await arrive(app, address, () => draw(app, false));
    write(app, false);
  };
  listen(open);
  addEventListener('resize', () => draw(app, false));
  addEventListener('beforeprint', () => draw(app, false, true)); // what is wider than the paper now makes everything smaller
  printed.addEventListener('change', () => draw(app, false)); // in the colors of the paper, or of the screen again
  part('skip').addEventListener('click', (event) => {
    event.preventDefault(); // the address is that of the page
    part('panel').focus();
  });
  listenToKeys(app, Object.keys(panels));
  followTokens();
  keepHeights();
  open(read());
  document.body.dataset.ready = 'true';
}

/** The heights of what is at the top and at the bottom, for what stays between them. */
function keepHeights() {
  const boxes = ['bar', 'top', 'header', 'steps'].map(part);
  const sizes = new ResizeObserver(() => {
    const heights = boxes.map(({ offsetHeight }) => offsetHeight); // all before the first one changes the style
    boxes.forEach(({ id }, i) => document.documentElement.style.setProperty(`--${id}`, `${heights[i]}px`));
  });
  for (const box of boxes) sizes.observe(box);
}

/** Draw; the focus stays on the same element, or moves to the panel if that is another one. */
function draw(app, isQuiet, onPaper = printed.matches) {
  const key = document.activeElement?.dataset.key;
  const [before, now] = [part('panel').dataset.screen, `${app.state.panel} ${app.state.panel === 'story' ? app.state.question : ''}`];
  const isOther = before !== undefined && before !== now; // at first the page around this one keeps the focus
  const place = keepPlace();
  const scrolled = SCROLLED.map(([selector]) => document.querySelector(selector)).map((box) => [box?.scrollLeft ?? 0, box?.scrollTop ?? 0]);
  part('main').classList.toggle('inspecting', app.state.tensor !== null);
  for (const id of ['main', 'header']) part(id).setAttribute('aria-busy', String(Boolean(app.busy)));
  Object.assign(part('panel').dataset, { panel: app.state.panel, screen: now }); // the layout depends on the panel
  const isTelling = app.state.panel === 'story';
  document.body.classList.toggle('telling', isTelling); // and not :has(), which is matched anew in all that moves
  document.body.classList.toggle('opening', isTelling && app.state.question === 0);
  const width = onPaper ? PAPER : Math.max(280, columnOf(part('panel')) - MARGIN);
  const isSame = isQuiet && width === app.width;
  app.width = width;
  if (!isSame) {
    if (app.formOf !== app.base) part('bar').replaceChildren(...shown(bar(app, [app.home, askForm(app)])));
    app.formOf = app.base;
    for (const [id, make] of Object.entries({ header, tools, result, tabs, map, steps, panel }))
      part(id).replaceChildren(...shown([make(app)]));
    document.body.classList.toggle('no-step', document.querySelector('#panel [data-steps="false"]') !== null);
    showCurrent(scrolled);
  } else {
    markPicked(app);
    drawProducts(app);
  }
  part('inspector').replaceChildren(...shown(inspector(app)));
  part('tools').classList.toggle('no-matrix', !document.querySelector('#main .matrix, #main .scalar'));
  if (key && document.activeElement?.dataset.key !== key)
    document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  letKeyboardScroll(part('panel'));
  if (app.reveal || isOther) scroll(app, isOther);
  else place();
  checkLater(app);
}

function panel(app) {
  const { title, draw } = panels[app.state.panel];
  const drawn = shown([draw(app)]);
  const isChange = drawn.some((each) => each.querySelector?.('.matrix') ?? false);
  const words = isChange ? 'The matrices have after − before. Everything else here is of the text before the edits.' : 'This panel shows the text before the edits.';
  return [el('h1', title), app.state.compare === 'difference' && !OF_NO_TEXT.includes(app.state.panel) ? el('p.hint.compared', words) : null, drawn];
}

/** The width of the panel, or of one of its columns on a wide screen, with the padding of the panel. */
function columnOf(panel) {
  const { display, gridTemplateColumns, columnGap, paddingLeft } = getComputedStyle(panel);
  if (display !== 'grid') return panel.clientWidth;
  const [count, gap, padding] = [gridTemplateColumns.split(' ').length, parseFloat(columnGap), 2 * parseFloat(paddingLeft)];
  return (panel.clientWidth - padding - gap * (count - 1)) / count + padding;
}

/** Scroll these boxes, and not the page, to the middle of what is current, unless it is in sight where they were before. */
function showCurrent(before) {
  SCROLLED.forEach(([selector, item], i) => {
    const [box] = [...document.querySelectorAll(selector)].filter((each) => each.querySelector(item));
    const current = box?.querySelector(item);
    if (!current) return;
    box.scrollTo(...before[i]);
    const [all, one] = [box, current].map((each) => each.getBoundingClientRect());
    if (one.left < all.left || one.right > all.right) box.scrollLeft += (one.left + one.right - all.left - all.right) / 2;
    if (one.top < all.top || one.bottom > all.bottom) box.scrollTop += (one.top + one.bottom - all.top - all.bottom) / 2;
  });
}

/** To the tensor that was opened; another panel starts at its top. */
function scroll(app, isOther) {
  const { reveal, state } = app;
  app.reveal = null;
  const inPanel = (selector) => part('panel').querySelector(selector);
  const name = CSS.escape(reveal ?? '');
  const cell = state.cell && inPanel(`[data-tensor="${name}"] td[data-cell="${state.cell.join()}"]`);
  const found = cell ?? inPanel(`[data-stage="${name}"]`);
  if (reveal && found) found.scrollIntoView({ block: cell ? 'center' : 'start', inline: 'nearest' });
  else if (isOther) scrollTo(0, 0);
  if (isOther && document.activeElement === document.body) part('panel').focus({ preventScroll: true });
}

function markPicked({ state: { tensor, cell } }) {
  for (const old of document.querySelectorAll('td[aria-selected]')) old.removeAttribute('aria-selected');
  if (!cell) return;
  const found = document.querySelector(`[data-tensor="${CSS.escape(tensor)}"] td[data-cell="${cell.join()}"]`);
  found?.setAttribute('aria-selected', 'true');
  found?.setAttribute('tabindex', '0');
}

/** Recompute every step of the trace that is not yet, a few at a time, so that the page stays responsive. */
function checkLater(app) {
  const isLeft = app.trace.steps.some((step) => !app.trace.verdicts.has(step.output));
  document.body.dataset.checked = String(!isLeft && !app.busy);
  clearTimeout(app.timer);
  const wait = app.state.panel === 'story' ? app.movingUntil - performance.now() : 0; // what moves has the processor
  if (isLeft) app.timer = setTimeout(() => checkSome(app), wait);
}

function checkSome(app) {
  const { trace } = app;
  const until = performance.now() + 30;
  for (const { output } of trace.steps) {
    if (performance.now() > until) break;
    trace.verdict(output);
  }
  document.querySelector('[data-checks]').replaceWith(checks(app));
  checkLater(app);
}
