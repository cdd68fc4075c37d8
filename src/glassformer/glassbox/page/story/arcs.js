/** Screen 1: the answer, and the source tokens that each output token depends on. */

import { image, svg } from 'glassbox/dom.js';
import { influence } from 'glassbox/evidence.js';
import { figure } from 'glassbox/figure.js';
import { at, percent, probability, rowOf, shortDigits } from 'glassbox/numbers.js';
import { endOf, label, layOut, quoted, roomOf, tokenBox } from 'glassbox/story/parts.js';

const [TOP, BOTTOM, HIGH] = [22, 200, 250];
const [SMALL, LEAST] = [1 / 3, 0.1]; // no line below a third of the largest number of a row, or below a tenth

export const arcs = {
  title: 'The answer, and what it depends on',
  /** The output token that depends most on one source token. */
  choose({ trace }) {
    const { x } = influence(trace);
    return { row: largest(trace.tokens.target_out.map((_, row) => Math.max(...rowOf(x, row)))) };
  },
  draw(app) {
    const { trace, row } = app;
    const { kind, x } = influence(trace);
    const { source, target_out: outputs } = trace.tokens;
    const best = largest(rowOf(x, row));
    const how =
      kind === 'occlusion'
        ? fall(trace, row, rowOf(x, row)[best], quoted(source[best]))
        : `: ${percent(rowOf(x, row)[best])} of the cross-attention (mean over layers and heads) is on it`;
    return {
      words: [
        kind === 'occlusion'
          ? 'Lines join each output token to the source tokens that it depends on most: the wider the line, the more its ' +
            'log-probability falls when that source token is hidden.'
          : 'Lines join each output token to the source tokens that it attends to most: the wider the line, the larger the weight.',
        `Output token ${row}, ${quoted(outputs[row])}, depends most on source token ${best}, ${quoted(source[best])}${how}.`,
      ],
      picture: figure('source tokens of each output token', draw(app, x), [
        ['output token', ...source.map((token, i) => `${i} ${token.text}`)],
        ...outputs.map((token, i) => [`${i} ${token.text}`, ...rowOf(x, i)]),
      ]),
      proof: { label: 'Alignment: three measures side by side', changes: { panel: 'alignment' } },
    };
  },
};

/** What hiding a source token does to an output token, as probabilities where they are in the page. */
function fall(trace, row, change, source) {
  const logProbs = trace.get('log_probs');
  if (!logProbs) return `: when ${source} is hidden, its probability is divided by ${shortDigits(Math.exp(change))}`;
  const before = at(logProbs, [row, trace.tokens.target_out[row].id]);
  const [from, to] = [before, before - change].map((log) => probability(Math.exp(log)));
  return change <= 0 || from === to
    ? `, but little: when ${source} is hidden, its probability is still ${to}`
    : `: when ${source} is hidden, its probability falls from ${from} to ${to}`;
}

const largest = (numbers) => numbers.indexOf(Math.max(...numbers));

function draw(app, x) {
  const { source, target_out: outputs } = app.trace.tokens;
  let [above, below] = [layOut(source), layOut(outputs)];
  const width = Math.max(endOf(above), endOf(below));
  if (width <= roomOf(app)) {
    above = layOut(source, (width - endOf(above)) / 2);
    below = layOut(outputs, (width - endOf(below)) / 2);
  } // otherwise both begin at the left, where the picture is seen first
  const scale = Math.max(...x.numbers, 1e-9);
  const curves = outputs.flatMap((_, row) => lines(x, row, scale, above, below, row === app.row));
  curves.sort((one, other) => one.isHere - other.isHere);
  const origin = (token, row) => `${quoted(token)} from ${quoted(source[largest(rowOf(x, row))])}`;
  return image(
    width + 4,
    HIGH,
    outputs.map(origin).join(', '),
    label(0, 14, 'source'),
    curves.map(({ path }) => path),
    above.map((box, i) => tokenBox(box, TOP, source[i].kind, { data: { at: `s${i}` } })),
    below.map((box, row) =>
      tokenBox(box, BOTTOM, `${outputs[row].kind} pick ${row === app.row ? 'here' : ''}`, {
        data: { at: `t${row}` },
        on: { click: () => app.set({ row }), mouseenter: () => row !== app.row && app.set({ row }) },
      }),
    ),
    label(0, BOTTOM + 42, 'output'),
  );
}

function lines(x, row, scale, above, below, isHere) {
  const numbers = rowOf(x, row);
  const most = Math.max(...numbers);
  return [...numbers].flatMap((number, i) => {
    if (number < Math.max(SMALL * most, LEAST)) return [];
    const [from, to] = [below[row].x + below[row].width / 2, above[i].x + above[i].width / 2];
    const middle = (TOP + 24 + BOTTOM) / 2;
    const path = svg('path.story-arc', {
      class: isHere ? 'here' : '',
      d: `M${from} ${BOTTOM} C${from} ${middle} ${to} ${middle} ${to} ${TOP + 24}`,
      'stroke-width': (0.8 + (number / scale) * 5).toFixed(2),
    });
    return [{ path, isHere }];
  });
}
