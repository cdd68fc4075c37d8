/**
 * Go through a page in Firefox, by WebDriver BiDi: reads JSON from standard input, writes what was read to standard output.
 *
 * {"executable": "/usr/bin/firefox", "url": "file:///…", "actions": [["click", selector], ["fill", selector, text],
 * ["wait", expression], ["read", expression]]}
 */

import { createRequire } from 'node:module';

const require = createRequire(`${process.argv[2]}/`);
const { default: puppeteer } = await import(require.resolve('puppeteer-core'));

const PATIENCE = 120_000; // milliseconds

/** The policy of the page forbids the evaluation of texts inside of it, which waitForFunction does. */
async function until(page, expression) {
  const end = Date.now() + PATIENCE;
  while (!(await page.evaluate(`Boolean(${expression})`))) {
    if (Date.now() > end) throw new Error(`it waited in vain for ${expression}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

let input = '';
for await (const part of process.stdin) input += part;
const { executable, url, actions } = JSON.parse(input);

const browser = await puppeteer.launch({ browser: 'firefox', executablePath: executable, headless: true, timeout: PATIENCE });
const complaints = [];
const found = [];
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE);
  await page.setViewport({ width: 1440, height: 900 });
  page.on('console', (message) => message.type() === 'log' || complaints.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('request', (request) => /^(file|data|blob):/.test(request.url()) || complaints.push(`it requested ${request.url()}`));
  await page.goto(url);
  for (const [kind, what, text] of actions) {
    if (kind === 'click') await page.evaluate((selector) => document.querySelector(selector).click(), what);
    if (kind === 'fill') await page.evaluate((selector, value) => (document.querySelector(selector).value = value), what, text);
    if (kind === 'wait') await until(page, what);
    if (kind === 'read') found.push(await page.evaluate(`JSON.stringify(${what})`).then(JSON.parse));
  }
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify({ found, complaints }));
