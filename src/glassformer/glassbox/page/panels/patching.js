/** Two texts: what makes the other one, and which of its activations, patched into the own text, change the answer. */

import { bdi, button, el, form, section, textField, unhurried } from 'glassbox/core/dom.js';
import { heatmap } from 'glassbox/views/heatmap.js';
import { headTitle, titleOf } from 'glassbox/model/labels.js';
import { digits, named, percent } from 'glassbox/core/numbers.js';
import { isOfSource, isPatch, Patching } from 'glassbox/model/patching.js';
import { cannotReplace } from 'glassbox/model/source.js';
import { editsOf } from 'glassbox/story/wrong.js';
import { visible } from 'glassbox/model/trace.js';

const MAX_LISTED = 12;
const known = new WeakMap(); // trace -> the last patching of it

export function twoTexts(app) {
  const { base } = app;
  const reason = base.hasWeights || base.inputs ? cannotReplace(base) : '';
  const compare = async (words) => {
    await app.edit([...app.words.filter((other) => !isOfSource(other) && !isPatch(other)), words]);
    const first = app.edited?.difference.beam.first_changed_step;
    if (!app.problem && Number.isInteger(first)) app.set({ row: first }); // the step that the patches are about
  };
  const field = { name: 'other', required: true, 'aria-label': 'another text', placeholder: base.text, size: 30 };
  const send = ({ other }) => compare(`text ${other.value}`);
  const proposal = (words) => button(bdi(words), () => compare(words), { data: { key: `compare-${words}` } });
  return section(
    'two texts',
    'Two texts',
    el(
      'p.hint',
      'Compare this text with another one: every matrix is then shown before, after, or as the difference. The same positions are ' +
        'compared; in a text of another length, those before the first difference and after the last one.',
    ),
    reason
      ? el('p.hint', `Another text cannot be entered: ${reason}. Change a token instead.`)
      : form('form.row', 'compare', 'compare-texts', send, textField('other', field)),
    el('div.row', el('span.size', 'one other token'), editsOf(base, app.state.column).map(proposal)),
    patching(app),
  );
}

/** Patching, where the edits make another text. */
function patching(app) {
  const { base } = app;
  const words = app.words.filter((edit) => !isPatch(edit));
  if (app.busy || !words.some(isOfSource)) return null;
  if (!base.hasWeights) return el('p.hint', 'Patching needs the weights of the model, which this page does not include.');
  const row = Math.min(app.state.row, base.tokens.target_out.length - 1);
  const key = JSON.stringify([words, row]);
  if (known.get(base)?.key !== key) known.set(base, Object.assign(new Patching(base, words, row), { key }));
  const found = known.get(base);
  const { labels } = base.axes[base.vocabularies.target.axis];
  const [own, other] = found.tokens.map((id) => bdi(`'${visible(labels[id])}'`));
  if (found.tokens[0] === found.tokens[1]) return el('p', `At step ${row} both texts give `, own, '. Select a step where they differ.');
  const [before, after] = found.differences.map(digits);
  return [
    el('p', `Step ${row}: the logit of `, own, ' minus that of ', other, ` is ${before}, and with the other text ${after}. Which activations `, 'change it? A patch replaces the output of one head or layer at one position by that of the other text.'),
    found.best ? effects(app, found, words) : measureButton(app, found),
  ];
}

function measureButton(app, found) {
  const progress = el('output.size');
  const show = () => {
    const shown = document.querySelector('[aria-label="two texts"] output') ?? progress;
    shown.textContent = found.isRunning ? `${found.effects.size} of ${found.places.length}` : '';
    return app.state.panel === 'whatif' && known.get(app.base) === found;
  };
  const measure = async () => {
    if (found.isRunning) return;
    found.isRunning = true;
    await unhurried(found.measure(), show);
    found.isRunning = false;
    if (found.best) app.notify(false, null);
  };
  show();
  const label = `patch each head and layer at each position (${found.places.length})`;
  return el('div.row', button(label, measure, { class: 'primary', data: { key: 'measure-patches' } }), progress);
}

const nameOf = ({ tensor, head }) => {
  const [, layer, kind] = tensor.split('.');
  return `layer ${Number(layer) + 1}${head === undefined ? '' : ` ${kind} ${head + 1}`}`;
};

/** The heads that explain the difference, and the effects as a picture for each side. */
function effects(app, { best: { heads, effect }, places, effects: all, picked }, words) {
  const { base } = app;
  const apply = () => app.edit([...words, ...heads.map((patch) => patch.words)]);
  const side = (name, axis, label) => {
    const ofSide = places.filter(({ tensor }) => tensor.startsWith(name));
    const rows = [...Map.groupBy(ofSide, nameOf).values()];
    const numbers = named(['part', axis], [rows.length, rows[0].length], Float64Array.from(ofSide, ({ words }) => all.get(words)));
    const title = `${name}: effect of each patch`;
    const onPick = async (i, at) => {
      picked[name] = [i, at];
      await app.toggleEdit(rows[i][at].words); // while it is computed, there is no picture
      document.querySelector(`[data-key="heatmap-${title}"]`)?.focus({ preventScroll: true });
    };
    const labels = { rows: rows.map(([first]) => nameOf(first)), columns: rows[0].map(({ row }) => label(row)) };
    return heatmap(title, numbers, { ...labels, cellAt: picked[name], onPick });
  };
  const link = ({ words: patch, tensor, attention, head, row }) => {
    const axis = tensor.startsWith('encoder') ? 'source' : 'target';
    const label = [`${titleOf(base, attention)}, ${headTitle(head)}, position ${row} `, bdi(base.label(axis, row))];
    const open = button(label, () => app.goTo(tensor, [head, row, 0]), { class: 'link', data: { key: patch } });
    return el('li', open, `: ${percent(all.get(patch))}`);
  };
  const count = heads.length === 1 ? 'One patch of a head' : `The ${heads.length} patches of heads with the largest effects`;
  return [
    el(
      'p',
      { data: { explained: effect, heads: heads.length } },
      el('b', `${count}: ${percent(effect)} of the difference`),
      heads.length === 1 ? '. ' : ', together. With one fewer it is less than 95 %. ',
      button('apply', apply, { data: { key: 'apply-patches' } }),
    ),
    el('ul', heads.slice(0, MAX_LISTED).map(link), heads.length > MAX_LISTED ? el('li', `and ${heads.length - MAX_LISTED} more`) : null),
    el('p.hint', 'Effect of a patch alone: 0 as with this text, 1 as with the other one. Select a number to apply its patch.'),
    side('encoder', 'source', (i) => base.label('source', i)),
    side('decoder', 'target', String),
  ];
}
