/**
 * A token under the pointer, or under the focus of the keyboard, is lit in all places where it takes part.
 *
 * An element says what takes part in `data-at`: "s3" is source token 3, "t5" decoding step 5, "g2" step 2 of the gold
 * target; several are separated by spaces.
 */

const KINDS = { source: 's', source_key: 's', target: 't', target_key: 't', gold_target: 'g', gold_target_key: 'g' };

/** What an index on an axis is called in `data-at`; null for features. */
export const lightOf = (axis, index) => (KINDS[axis] ? `${KINDS[axis]}${index}` : null);

/** Follow the pointer and the focus. */
export function followTokens() {
  let [shown, around] = ['', document.body];
  const show = (lights, element) => {
    if (lights.join(' ') === shown && around.isConnected) return; // otherwise the panel was drawn again
    [shown, around] = [lights.join(' '), element];
    for (const old of document.querySelectorAll('.glow')) old.classList.remove('glow');
    for (const light of lights)
      for (const found of document.querySelectorAll(`[data-at~="${light}"]`)) found.classList.add('glow');
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
