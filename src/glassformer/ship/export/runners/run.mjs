#!/usr/bin/env node
/**
 * Translate lines with the exported model in this folder: `node run.mjs < texts.txt`. It needs onnxruntime-node alone.
 *
 *     npm install onnxruntime-node
 *     node run.mjs [--beam N] [--json]     --beam 1 is greedy search; --json: JSON in, JSON out
 *
 * A line is a text, or the inputs of a model with several, separated by tabs; with --json a string or an object.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const sha256 = (data) => createHash('sha256').update(data).digest('hex');
/** The end of the description: the SHA-256 of what is before it. */
const seal = (digest) => Buffer.from(`, "sha256": "${digest}"}`);

function check(name, isWhole) {
  if (!isWhole) throw new Error(`${here(name)} is not the file that was exported; export the model again`);
}

/** The description of the export. Throws an error for a file that is not the one that was written. */
function readDescription() {
  const data = readFileSync(here('glassformer.json'));
  const body = data.subarray(0, -seal('0'.repeat(64)).length);
  check('glassformer.json', data.equals(Buffer.concat([body, seal(sha256(body))])));
  const description = JSON.parse(data);
  for (const [name, digest] of Object.entries(description.files))
    check(name, sha256(readFileSync(here(name))) === digest);
  return description;
}

process.stdout.on('error', ({ code }) => process.exit(code === 'EPIPE' ? 0 : 1)); // the reader of the answers has ended
try {
  const description = readDescription();
  await (await import('./lines.mjs')).main(description);
} catch (error) {
  process.stderr.write(`error: ${error.message}\n`);
  process.exitCode = 1;
}
