/** Training: loss, rate, gradient norm, metric; the same sentence through the checkpoints that were kept. */

import { bdi, el, slider } from 'glassbox/dom.js';
import { lines } from 'glassbox/chart.js';
import { grouped, percent } from 'glassbox/numbers.js';
import { picture } from 'glassbox/picture.js';
import { visible } from 'glassbox/trace.js';

export function training(app) {
  const found = app.trace.training;
  if (!found) return absent(app);
  const { history = [], validations = [], checkpoints = [] } = found;
  const series = (list, key, name = key) => {
    const measured = list.filter((event) => event[key] !== null);
    return { name, numbers: measured.map((event) => event[key]), places: measured.map((event) => event.step) };
  };
  const step = { from: 'step' };
  return [
    checkpoints.length ? through(app, checkpoints) : el('p.hint', 'This run kept no checkpoints to look back at.'),
    history.length
      ? [
          lines(
            'loss',
            [
              series(history, 'loss', 'trained (smoothed)'),
              ...(validations.length ? [series(validations, 'loss', 'held out')] : []),
            ],
            step,
          ),
          lines('learning rate', [series(history, 'learning_rate')], step),
          lines('gradient norm', [series(history, 'gradient_norm')], step),
        ]
      : null,
    validations.length
      ? lines(`${validations[0].metric} on held-out rows`, [series(validations, 'value')], step)
      : null,
  ];
}

function absent({ trace }) {
  const { metric, value, step } = trace.provenance.metrics;
  return [
    metric
      ? el(
          'p.lead',
          `This model was measured at step ${grouped(step)}: ${metric} ${value.toFixed(4)} on held-out rows.`,
        )
      : null,
    trace.notices?.length
      ? trace.notices.map((notice) => el('p.wrong', notice))
      : el(
          'p.hint',
          'The trace holds no history. Explain a run directory instead of a ' +
            'model file, and the history and the kept checkpoints come along: ',
          el('code', 'glassformer explain RUN TEXT --html FILE'),
        ),
  ];
}

/** A slider through time: what the model said then, and where it looked. */
function through(app, checkpoints) {
  const at = Math.min(app.state.time ?? checkpoints.length - 1, checkpoints.length - 1);
  const { step, text, score, tokens, attention } = checkpoints[at];
  const same = checkpoints.map((each) => each.text === app.base.translation);
  return el(
    'section',
    { 'aria-label': 'through time' },
    el('h2', 'The same sentence through time'),
    slider('checkpoint', { max: checkpoints.length - 1, value: at }, (time) => app.set({ time })),
    el(
      'p.then',
      el('strong', `step ${grouped(step)}: `),
      bdi(visible(text) || '(nothing)'),
      el('small', ` ${percent(Math.exp(score))}${same[at] ? ' ✓ as today' : ' ✗ not as today'}`),
    ),
    el(
      'ol.moments',
      checkpoints.map((each, i) =>
        el(
          'li',
          { class: i === at ? 'lit' : null },
          el('small', `step ${grouped(each.step)}`),
          ' ',
          bdi(visible(each.text)),
          same[i] ? ' ✓' : '',
        ),
      ),
    ),
    picture(
      'where it looked: cross-attention, mean of layers and heads',
      attention,
      tokens.map(visible),
      app.base.axes.source_key.labels.map(visible),
    ),
  );
}
