/**
 * A token under the pointer, or under the focus of the keyboard, is lit in all places where it takes part.
 *
 * An element says what takes part in `data-at`: "s3" is source token 3, "t5" decoding step 5, "g2" step 2 of the gold
 * target; several are separated by spaces. A small picture with `data-down` and `data-across` ("t" and "s", for
 * example) has two bars, `.down` and `.across`, which are moved to the row and the column that is lit.
 */

const KINDS = { source: 's', source_key: 's', target: 't', target_key: 't', gold_target: 'g', gold_target_key: 'g' };

/** What an index on an axis is called in `data-at`; null for features. */
export const lightOf = (axis, index) => (KINDS[axis] ? `${KINDS[axis]}${index}` : null);

/** The kind of an axis for `data-down` and `data-across`. */
export const lightKind = (axis) => KINDS[axis] ?? null;

/** Follow the pointer and the focus. */
export function followTokens() {
  let [shown, around] = ['', document.body];
  const show = (lights, element) => {
    if (lights.join(' ') === shown && around.isConnected) return; // otherwise the panel was drawn again
    [shown, around] = [lights.join(' '), element];
    for (const old of document.querySelectorAll('.glow')) old.classList.remove('glow');
    for (const light of lights)
      for (const found of document.querySelectorAll(`[data-at~="${light}"]`)) found.classList.add('glow');
    for (const picture of document.querySelectorAll('[data-down]')) crosshair(picture, lights);
  };
  addEventListener('pointerover', (event) => {
    const [pointed, focused] = [event.target, document.activeElement];
    show(lightsAt(pointed).length ? lightsAt(pointed) : lightsAt(focused), pointed);
  });
  addEventListener('focusin', (event) => show(lightsAt(event.target), event.target));
  addEventListener('focusout', () => show([], document.body));
  document.addEventListener('pointerleave', () => show(lightsAt(document.activeElement), document.activeElement));
}

/** What an element takes part in: for a cell of a matrix, its row and its column. */
function lightsAt(element) {
  const cell = element?.closest?.('td[data-cell]');
  const row = cell?.closest('tr');
  const column = row?.closest('table')?.tHead?.rows[0].cells[cell.cellIndex];
  const found = cell ? [row, column] : [element?.closest?.('[data-at]')];
  return [...new Set(found.flatMap((each) => each?.dataset.at?.split(' ') ?? []))].filter((light) =>
    /^\w+$/.test(light),
  );
}

/** Move the bars of a small picture. */
function crosshair(picture, lights) {
  const { rows, columns } = picture.dataset;
  for (const [side, property, length] of [['down', 'y', rows], ['across', 'x', columns]]) {
    const bar = picture.querySelector(`.${side}`);
    const light = lights.find((each) => each[0] === picture.dataset[side]);
    const at = light === undefined ? -1 : Number(light.slice(1));
    bar.classList.toggle('glow', at >= 0 && at < Number(length));
    if (at >= 0) bar.setAttribute(property, at);
  }
}
