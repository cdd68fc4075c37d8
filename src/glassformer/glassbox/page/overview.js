/** A large matrix as a picture, with a frame around the part that the table shows; sliders move the frame. */

import { el, slider } from 'glassbox/dom.js';
import { grouped } from 'glassbox/numbers.js';

const MAX_HEIGHT = 120;

export function overview(view, shown) {
  const { app, name, x } = view;
  const [rows, columns] = x.shape;
  const width = Math.min(app.width, Math.max(columns, 240));
  const height = Math.max(Math.min(rows * 4, MAX_HEIGHT), 24);
  const canvas = el('canvas', {
    width,
    height,
    role: 'img',
    'aria-label': `overview of ${name}: ${rows} rows, ${columns} columns; the frame marks the part in the table below`,
    on: { click: (event) => jump(view, shown, event) },
  });
  paint(canvas, view, shown);
  const go = (top, left) => {
    app.windows.set(name, [top, left]);
    view.draw();
  };
  const controls = [];
  if (shown.width < columns) {
    controls.push(
      slider(
        'columns from',
        { max: columns - shown.width, value: shown.left },
        (left) => go(shown.top, left),
        `${name}-left`,
      ),
    );
  }
  if (shown.height < rows) {
    controls.push(
      slider('rows from', { max: rows - shown.height, value: shown.top }, (top) => go(top, shown.left), `${name}-top`),
    );
  }
  const words =
    `${grouped(rows)} × ${grouped(columns)}; the table shows rows ` +
    `${shown.top}–${shown.top + shown.height - 1}, columns ${shown.left}–${shown.left + shown.width - 1}`;
  return el('div.overview', canvas, el('div.row', el('small', words), controls));
}

/** Each pixel shows the number with the largest absolute value among those that it covers. */
function paint(canvas, { x }, shown) {
  const [rows, columns] = x.shape;
  const { width, height } = canvas;
  const context = canvas.getContext('2d');
  const style = getComputedStyle(document.documentElement);
  const [ground, plus, minus] = ['--cell', '--plus', '--minus'].map((name) => rgb(style.getPropertyValue(name)));
  const scale = x.numbers.reduce((best, number) => Math.max(best, Math.abs(number)), 1e-12);
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i += 1) {
    const number = largestOf(x, [Math.floor(i / width), height, rows], [i % width, width, columns]);
    const hue = number < 0 ? minus : plus;
    const strength = Math.sqrt(Math.abs(number) / scale);
    for (let c = 0; c < 3; c += 1) image.data[i * 4 + c] = ground[c] + (hue[c] - ground[c]) * strength;
    image.data[i * 4 + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  context.strokeStyle = style.getPropertyValue('--ink');
  context.lineWidth = 2;
  const [across, down] = [width / columns, height / rows];
  context.strokeRect(
    shown.left * across + 1,
    shown.top * down + 1,
    Math.max(4, shown.width * across - 2),
    Math.max(4, shown.height * down - 2),
  );
}

function largestOf(x, [y, height, rows], [left, width, columns]) {
  const row = Math.floor((y * rows) / height);
  const from = Math.floor((left * columns) / width);
  const to = Math.max(from + 1, Math.floor(((left + 1) * columns) / width));
  let found = 0;
  for (let column = from; column < to; column += 1) {
    const number = x.numbers[row * columns + column];
    if (Math.abs(number) > Math.abs(found)) found = number;
  }
  return found;
}

const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.trim().slice(at, at + 2), 16));

function jump(view, shown, event) {
  const box = event.target.getBoundingClientRect();
  const [rows, columns] = view.x.shape;
  const row = Math.floor(((event.clientY - box.top) / box.height) * rows) - Math.floor(shown.height / 2);
  const column = Math.floor(((event.clientX - box.left) / box.width) * columns) - Math.floor(shown.width / 2);
  view.app.windows.set(view.name, [row, column]);
  view.draw();
}
