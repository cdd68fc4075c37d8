/** Training: loss, learning rate, gradient norm, metric; the same source translated by the saved checkpoints. */

import { bdi, choices, el, letKeyboardScroll, section, slider } from 'glassbox/core/dom.js';
import { lines } from 'glassbox/views/chart.js';
import { heatmap } from 'glassbox/views/heatmap.js';
import { digits, grouped, named } from 'glassbox/core/numbers.js';
import { checkpointsTable } from 'glassbox/story/learning.js';
import { visible } from 'glassbox/model/trace.js';

export function training(app) {
  const found = app.trace.training;
  if (!found) return absent(app);
  const { checkpoints = [] } = found;
  const charts = section('history', 'History');
  const answer = checkpoints.length ? checkpointsPart(app, checkpoints, charts) : null;
  charts.append(...curves(app, found, answer));
  answer?.show(answer.at);
  return [answer?.element ?? el('p.hint', 'The run has no saved checkpoints.'), charts];
}

/** The charts of the history; a click in one of them selects the nearest checkpoint. */
function curves(app, { history = [], validations = [] }, answer) {
  const series = (list, key, name = key) => {
    const measured = list.filter((event) => event[key] !== null);
    return { name, numbers: measured.map((event) => event[key]), xs: measured.map((event) => event.step) };
  };
  const smoothing = app.trace.provenance.settings.training?.label_smoothing ?? 0;
  const step = { axis: 'step', width: Math.min(640, app.width), onPick: answer?.nearest };
  const isLog = app.state.loss === 'log';
  const losses = [
    series(history, 'loss', smoothing ? `training (label smoothing ${smoothing})` : 'training'),
    series(validations, 'loss', smoothing ? 'validation (no label smoothing)' : 'validation'),
  ];
  return [
    answer
      ? el('p.hint', 'The line in each chart is the checkpoint above. Select a place in a chart to go there.')
      : null,
    choices('loss', { linear: 'linear loss', log: 'log loss' }, app.state.loss, (loss) => app.set({ loss })),
    history.length ? lines('loss', losses, { ...step, log: isLog }) : null,
    validations.length ? lines(`${validations[0].metric.replaceAll('_', ' ')} in validation`, [series(validations, 'value')], step) : null,
    history.length ? lines('learning rate', [series(history, 'learning_rate')], step) : null,
    history.length ? lines('gradient norm', [series(history, 'gradient_norm')], step) : null,
  ].filter(Boolean);
}

function absent({ trace }) {
  const { metric, value, step } = trace.provenance.metrics;
  return [
    metric ? el('p.lead', `Validation at step ${grouped(step)}: ${metric} ${value.toFixed(4)}.`) : null,
    trace.notices?.length
      ? trace.notices.map((notice) => el('p.wrong', notice))
      : el(
          'p.hint',
          'The training history is not available in this trace. A trace made from a run ' +
            'directory includes the history and the saved checkpoints: ',
          el('code', 'glassformer explain RUN TEXT --html FILE'),
        ),
  ];
}

/** A slider over the checkpoints: the translation and the cross-attention of each. */
function checkpointsPart(app, checkpoints, charts) {
  const last = checkpoints.length - 1;
  const at = Math.min(app.state.time ?? last, last);
  const answer = el('div');
  const onChange = (time) => app.set({ time });
  const field = slider('checkpoint', { max: last, value: at }, (time) => show(time), { onChange });
  const input = field.querySelector('input');
  const show = (time) => {
    input.value = time;
    field.querySelector('output').textContent = `${time + 1} of ${checkpoints.length}`;
    answer.replaceChildren(...answerOf(app, checkpoints, time));
    letKeyboardScroll(answer);
    for (const chart of charts.querySelectorAll('.chart')) chart.mark(checkpoints[time].step);
  };
  const nearest = (step) => {
    const distance = (i) => Math.abs(checkpoints[i].step - step);
    const found = checkpoints.reduce((best, _, i) => (distance(i) < distance(best) ? i : best), 0);
    app.state.time = found;
    show(found);
  };
  const element = section(
    'checkpoints',
    'The same source through the checkpoints',
    el('p.hint', 'Each checkpoint translates the source by greedy search.'),
    field,
    answer,
    checkpointsTable(app.base, checkpoints),
  );
  return { element, show, nearest, at };
}

function answerOf(app, checkpoints, at) {
  const { step, text, score, tokens, attention } = checkpoints[at];
  return [
    el(
      'p.then',
      el('strong', `step ${grouped(step)}: `),
      bdi(visible(text) || '(empty)'),
      el('small', ` score ${digits(score)}`),
    ),
    heatmap(
      'cross-attention weights, mean over layers and heads',
      named(['answer', 'source_key'], [tokens.length, attention[0].length], Float64Array.from(attention.flat())),
      { rows: tokens.map(visible), columns: app.base.axes.source_key.labels.map(visible), scale: 1 },
    ),
  ];
}
