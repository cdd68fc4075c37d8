/**
 * WebAssembly with SIMD, assembled here: the page needs no compiler and carries no binary.
 *
 * A function `multiply<rows>(x, xStride, inner, w, bias, y, yStride, panels)` computes y = x W + bias for a block of
 * rows. All are in bytes except `panels`: W is stored in panels of 8 columns, [panels, inner, 8]. Each step reads 8
 * weights and one number of each row. The sums of a row do not depend on the other rows of its block.
 */

const [I32, V128, VOID] = [0x7f, 0x7b, 0x40];

const unsigned = (number) => (number < 128 ? [number] : [(number & 127) | 128, ...unsigned(number >>> 7)]);
const sized = (...parts) => [...unsigned(parts.flat().length), ...parts.flat()];
const vector = (entries) => [...unsigned(entries.length), ...entries.flat()];
const written = (name) => sized([...new TextEncoder().encode(name)]);
const section = (id, entries) => [id, ...sized(vector(entries))];

// Instructions. Locals are numbered from 0, the parameters first.
const get = (local) => [0x20, ...unsigned(local)];
const set = (local) => [0x21, ...unsigned(local)];
const smallNumber = (number) => [0x41, number]; // 0 to 63
const [plus, minus, isLess] = [[0x6a], [0x6b], [0x49]];
const repeat = (...code) => [0x03, VOID, ...code.flat(), 0x0d, 0, 0x0b]; // while the code leaves a number other than 0
const simd = (code) => [0xfd, ...unsigned(code)];
const load = (offset) => [...simd(0x00), 2, offset];
const loadSplat = [...simd(0x09), 2, 0];
const store = (offset) => [...simd(0x0b), 2, offset];
const [addFloats, multiplyFloats] = [simd(0xe4), simd(0xe6)];
const advance = (local, by) => [...get(local), ...by, ...plus, ...set(local)];

const [X, X_STRIDE, INNER, W, BIAS, Y, Y_STRIDE, PANELS, END, OUT, FIRST] = Array.from({ length: 11 }, (_, i) => i);
const PANEL = smallNumber(32); // bytes of 8 numbers

/** The function for blocks of n rows, with its locals. */
function multiply(n) {
  const rows = Array.from({ length: n }, (_, row) => row);
  const pointer = (row) => FIRST + row;
  const [left, right, number] = [0, 1, 2].map((i) => FIRST + n + i);
  const sums = (row) => [FIRST + n + 3 + 2 * row, FIRST + n + 4 + 2 * row];
  const start = (row) => [
    sums(row).map((sum, half) => [...get(BIAS), ...load(16 * half), ...set(sum)]),
    row ? [...get(pointer(row - 1)), ...get(X_STRIDE), ...plus] : get(X),
    set(pointer(row)),
  ];
  const add = (row) => [
    [...get(pointer(row)), ...loadSplat, ...set(number)],
    sums(row).map((sum, half) => [
      ...[...get(number), ...get(half ? right : left), ...multiplyFloats],
      ...[...get(sum), ...addFloats, ...set(sum)],
    ]),
    advance(pointer(row), smallNumber(4)),
  ];
  const write = (row) => [
    sums(row).map((sum, half) => [...get(OUT), ...get(sum), ...store(16 * half)]),
    advance(OUT, get(Y_STRIDE)),
  ];
  const steps = repeat(
    [...get(W), ...load(0), ...set(left), ...get(W), ...load(16), ...set(right)],
    advance(W, PANEL),
    rows.map(add).flat(3),
    [...get(pointer(0)), ...get(END), ...isLess],
  );
  const panels = repeat(
    [...get(X), ...get(INNER), ...plus, ...set(END), ...get(Y), ...set(OUT)],
    rows.map(start).flat(3),
    steps,
    rows.map(write).flat(3),
    [...advance(BIAS, PANEL), ...advance(Y, PANEL)],
    [...get(PANELS), ...smallNumber(1), ...minus, ...set(PANELS), ...get(PANELS)],
  );
  const locals = [[2 + n, I32], [3 + 2 * n, V128]]; // prettier-ignore
  return sized(vector(locals), panels, 0x0b);
}

/** The module: it imports the memory "page.memory" and exports multiply<n> for each n. @param {number[]} blocks */
export function assemble(blocks) {
  const type = [0x60, ...vector(Array(PANELS + 1).fill([I32])), 0];
  const memory = [...written('page'), ...written('memory'), 0x02, 0x00, 0x00];
  return new Uint8Array([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(1, [type]),
    ...section(2, [memory]),
    ...section(3, blocks.map(() => [0])),
    ...section(7, blocks.map((n, i) => [...written(`multiply${n}`), 0x00, i])),
    ...section(10, blocks.map(multiply)),
  ]); // prettier-ignore
}
