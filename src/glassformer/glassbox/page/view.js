/** The glass box: draws a trace and its state, and redraws them when the state changes. */

import { App } from 'glassbox/app.js';
import { el } from 'glassbox/dom.js';
import { checks, header, steps, tabs } from 'glassbox/frame.js';
import { followTokens } from 'glassbox/hover.js';
import { closeOnEscape, inspector, keepPlace } from 'glassbox/inspector.js';
import { map } from 'glassbox/map.js';
import { markProducts } from 'glassbox/product.js';
import { panels } from 'glassbox/panels/all.js';
import { askForm } from 'glassbox/server.js';

const part = (id) => document.getElementById(id);

/**
 * Show a trace.
 *
 * @param contract  a glassformer-trace/1, or a Trace
 * @param server  see server.js, or null
 * @param {HTMLElement|null} bar  above the tabs, where there is no server
 */
export function show(contract, server = null, bar = null) {
  const app = new App(contract, server);
  if (server || bar) part('ask').replaceChildren(bar ?? askForm(app, server));
  else part('ask').remove();
  const hash = location.hash.slice(1);
  if (Object.hasOwn(panels, hash)) app.state.panel = hash;
  app.subscribe((isQuiet) => draw(app, isQuiet));
  addEventListener('resize', () => draw(app, false));
  addEventListener('hashchange', () => {
    const panel = location.hash.slice(1);
    if (Object.hasOwn(panels, panel) && panel !== app.state.panel) app.set({ panel });
  });
  closeOnEscape(app);
  followTokens();
  draw(app, false);
  document.body.dataset.ready = 'true';
  checkAll(app);
}

/** Draw; the focus stays on the same element. */
function draw(app, isQuiet) {
  const key = document.activeElement?.dataset.key;
  const place = keepPlace();
  part('main').classList.toggle('inspecting', app.state.tensor !== null);
  const width = Math.max(280, part('panel').clientWidth - 52);
  const isSame = isQuiet && width === app.width;
  app.width = width;
  if (!isSame) {
    part('header').replaceChildren(...compact(header(app)));
    part('tabs').replaceChildren(...tabs(app, panels));
    part('map').replaceChildren(...map(app));
    part('steps').replaceChildren(...steps(app));
    const { title, draw: drawPanel } = panels[app.state.panel];
    part('panel').replaceChildren(el('h1', title), ...compact([drawPanel(app)]));
    part('panel').dataset.panel = app.state.panel;
    if (location.hash.slice(1) !== app.state.panel) history.replaceState(null, '', `#${app.state.panel}`);
    part('tabs').querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  } else markPicked(app);
  part('inspector').replaceChildren(...compact(inspector(app)));
  if (key && document.activeElement?.dataset.key !== key)
    document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  markProducts(app);
  place();
}

const compact = (parts) => parts.flat(Infinity).filter((item) => item !== null && item !== undefined && item !== false);

function markPicked({ state: { tensor, cell } }) {
  for (const old of document.querySelectorAll('td[aria-selected]')) old.removeAttribute('aria-selected');
  if (!cell) return;
  const found = document.querySelector(`[data-tensor="${CSS.escape(tensor)}"] td[data-cell="${cell.join()}"]`);
  found?.setAttribute('aria-selected', 'true');
  found?.setAttribute('tabindex', '0');
}

/** Recompute every step of the trace, a few at a time, so that the page stays responsive. */
function checkAll(app) {
  const { trace } = app;
  const until = performance.now() + 30;
  const left = trace.steps.filter((step) => !trace.verdicts.has(step.output));
  for (const step of left) {
    trace.verdict(step.output);
    if (performance.now() > until) break;
  }
  const isDone = !app.busy && trace.steps.every((step) => trace.verdicts.has(step.output));
  part('header').querySelector('[data-checks]').replaceWith(checks(app));
  document.body.dataset.checked = String(isDone);
  setTimeout(() => checkAll(app), isDone ? 400 : 0);
}
