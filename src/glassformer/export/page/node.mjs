/**
 * Answer texts with an exported page in Node: `node node.mjs index.html BEAMS`, JSON lines in, JSON lines out.
 *
 * It runs what the worker of the page runs, on the weights in the file.
 */

import { readFileSync } from 'node:fs';
import { runInThisContext } from 'node:vm';

try {
  const [path, beams] = process.argv.slice(2);
  const page = readFileSync(path, 'utf-8');
  for (const [, script] of page.matchAll(/<script class="model">([^<]*)<\/script>/g)) runInThisContext(script);
  const { Translator } = await import(`data:text/javascript,${encodeURIComponent(engine)}`); // eslint-disable-line no-undef
  const translator = new Translator(description, weights); // eslint-disable-line no-undef
  const texts = readFileSync(0, 'utf-8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  for (const found of translator.translate(texts, Number(beams))) {
    if (found.error) throw new Error(found.error);
    process.stdout.write(`${JSON.stringify(found)}\n`);
  }
} catch (error) {
  process.stderr.write(`error: ${error.message}\n`);
  process.exitCode = 1;
}
