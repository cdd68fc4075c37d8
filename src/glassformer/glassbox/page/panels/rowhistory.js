/** The row of a token in the embedding matrix through the checkpoints of the run. */

import { bdi, el, row, section, table, wide } from 'glassbox/dom.js';
import { cosine, neighbors } from 'glassbox/geometry.js';
import { heatmap } from 'glassbox/heatmap.js';
import { digits, dot, grouped, named } from 'glassbox/numbers.js';
import { tokenSelect } from 'glassbox/panels/neighbors.js';
import { visible } from 'glassbox/trace.js';

/**
 * @param {import('../app.js').App} app
 * @param {string} name  of the embedding matrix
 * @param {import('./neighbors.js').Listed[]} tokens
 * @param {number} picked  of the tokens
 */
export function rowHistory(app, name, tokens, picked) {
  const { embeddings = [], checkpoints = [] } = app.first.training ?? {};
  const found = embeddings.find((each) => each.name === name);
  if (!found?.rows.length)
    return through(
      el(
        'p.hint',
        'This page has no rows of the embedding from the training. A page of a run directory has them: ',
        el('code', 'glassformer explain RUN TEXT --html FILE'),
      ),
    );
  const at = new Map(found.ids.map((id, i) => [id, i]));
  const kept = tokens.filter(({ id }) => at.has(id));
  if (!kept.length) return through(el('p.hint', 'This page has no rows of these tokens from the training.'));
  const token = at.has(tokens[picked].id) ? tokens[picked] : kept[0];
  const rows = found.rows.map((checkpoint) => checkpoint[at.get(token.id)]);
  const steps = checkpoints.map(({ step }) => step);
  const others = kept.map(({ id }) => at.get(id));
  return through(
    el(
      'p.words',
      'Each line is the row of the token in a checkpoint. ',
      kept.length < tokens.length ? `The page has the rows of ${grouped(kept.length)} tokens, those of the text.` : '',
    ),
    tokenSelect(kept, kept.indexOf(token), 'token', (i) => app.set({ picked: tokens.indexOf(kept[i]) }), 'history-token'),
    picture(app, token, rows, steps),
    wide(facts(rows, steps, (k) => nearestOf(found.rows[k], at.get(token.id), others, kept))),
  );
}

const through = (...parts) => section('through training', 'Through training', ...parts);

function picture(app, token, rows, steps) {
  const numbers = named(['checkpoint', 'd_model'], [rows.length, rows[0].length], Float64Array.from(rows.flat()));
  return heatmap(`row of ${visible(token.text).slice(0, 30)} by step of the training`, numbers, {
    down: 'step',
    across: 'feature',
    width: Math.min(app.width, 720),
    height: 60 + 22 * rows.length,
    rows: steps.map(grouped),
  });
}

/** The token nearest to a token in a checkpoint, among those that the page has. */
function nearestOf(checkpoint, own, others, kept) {
  const rows = others.map((i) => checkpoint[i]);
  const [first] = neighbors(rows, checkpoint[own], new Set([others.indexOf(own)]));
  return first ? { token: kept[first.index], cosine: first.cosine } : null;
}

function facts(rows, steps, nearestAt) {
  const lines = rows.map((numbers, k) => {
    const near = nearestAt(k);
    const length = digits(Math.sqrt(dot(numbers, 0, numbers, 0, numbers.length)));
    const nearest = near ? [bdi(visible(near.token.text)), digits(near.cosine)] : ['', ''];
    return row({ data: { step: steps[k] } }, grouped(steps[k]), length, digits(cosine(numbers, rows.at(-1))), ...nearest);
  });
  const columns = ['step', 'length of the row', 'cosine with the last row', 'nearest token', 'its cosine'];
  return table('the row in numbers', columns, lines);
}
