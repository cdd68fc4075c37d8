#!/usr/bin/env node
/**
 * Translate lines with the exported model in this folder: `node run.mjs < texts.txt`. It needs onnxruntime-node alone.
 *
 *     npm install onnxruntime-node
 *     node run.mjs [--beam N] [--json]     --beam 1 is greedy search; --json: JSON in, JSON out
 *
 * A line is a text, or the inputs of a model with several, separated by tabs; with --json a string or an object.
 */

import { readFileSync } from 'node:fs';
import { main } from './lines.mjs';
import { TextError } from './text.js';

process.stdout.on('error', ({ code }) => process.exit(code === 'EPIPE' ? 0 : 1)); // the reader of the answers has ended
try {
  const description = JSON.parse(readFileSync(new URL('glassformer.json', import.meta.url), 'utf-8'));
  await main(description, async (given) => (await import('./engine.mjs')).Engine.load(given));
} catch (error) {
  if (!(error instanceof TextError)) throw error;
  process.stderr.write(`error: ${error.message}\n`);
  process.exitCode = 1;
}
