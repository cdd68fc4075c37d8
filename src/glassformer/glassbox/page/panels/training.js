/** Training: loss, learning rate, gradient norm, metric; the same source translated by the saved checkpoints. */

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
    return { name, numbers: measured.map((event) => event[key]), xs: measured.map((event) => event.step) };
  };
  const smoothing = app.trace.provenance.settings.training?.label_smoothing ?? 0;
  const step = { axis: 'step' };
  return [
    checkpoints.length ? checkpointsPart(app, checkpoints) : el('p.hint', 'The run has no saved checkpoints.'),
    history.length
      ? [
          lines(
            'loss',
            [
              series(history, 'loss', smoothing ? `training (label smoothing ${smoothing})` : 'training'),
              ...(validations.length
                ? [series(validations, 'loss', smoothing ? 'validation (no label smoothing)' : 'validation')]
                : []),
            ],
            step,
          ),
          lines('learning rate', [series(history, 'learning_rate')], step),
          lines('gradient norm', [series(history, 'gradient_norm')], step),
        ]
      : null,
    validations.length ? lines(`${validations[0].metric} in validation`, [series(validations, 'value')], step) : null,
  ];
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
function checkpointsPart(app, checkpoints) {
  const at = Math.min(app.state.time ?? checkpoints.length - 1, checkpoints.length - 1);
  const { step, text, score, tokens, attention } = checkpoints[at];
  const same = checkpoints.map((checkpoint) => checkpoint.text === app.base.translation);
  return el(
    'section',
    { 'aria-label': 'checkpoints' },
    el('h2', 'The same source through the checkpoints'),
    el('p.hint', 'Each checkpoint translates the source by greedy search. ✓: equal to the output above.'),
    slider('checkpoint', { max: checkpoints.length - 1, value: at }, (time) => app.set({ time })),
    el(
      'p.then',
      el('strong', `step ${grouped(step)}: `),
      bdi(visible(text) || '(empty)'),
      el(
        'small',
        ` ${percent(Math.exp(score))}${same[at] ? ' ✓ equal to the output' : ' ✗ different from the output'}`,
      ),
    ),
    el(
      'ol.checkpoints',
      checkpoints.map((checkpoint, i) =>
        el(
          'li',
          { class: i === at ? 'lit' : null },
          el('small', `step ${grouped(checkpoint.step)}`),
          ' ',
          bdi(visible(checkpoint.text)),
          same[i] ? ' ✓' : '',
        ),
      ),
    ),
    picture(
      'cross-attention weights, mean over layers and heads',
      attention,
      tokens.map(visible),
      app.base.axes.source_key.labels.map(visible),
    ),
  );
}
