/** Answer texts with an exported page in Node: `node node.mjs index.html BEAMS`, JSON lines in, JSON lines out. */

import { readFileSync } from 'node:fs';

const [path, beams] = process.argv.slice(2);
const page = readFileSync(path, 'utf-8');
const scripts = [...page.matchAll(/<script type="([a-z/-]+)"(?: id="([a-z-]+)")?>([^<]*)<\/script>/g)];
const ofKind = (kind, id) =>
  scripts.filter((script) => script[1] === kind && script[2] === id).map((script) => script[3]);

const { imports } = JSON.parse(ofKind('importmap')[0]);
const { Translator } = await import(imports['translator/engine.js']);
const translator = new Translator(
  JSON.parse(ofKind('application/json', 'description')[0]),
  ofKind('text/plain', 'weights'),
);
const texts = readFileSync(0, 'utf-8')
  .split('\n')
  .filter(Boolean)
  .map((line) => JSON.parse(line));
for (const found of translator.answers(texts, Number(beams))) {
  if (found.error) throw new Error(found.error);
  process.stdout.write(`${JSON.stringify(found)}\n`);
}
