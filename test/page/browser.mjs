// A real Chromium, and what every page that it shows has to keep to.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const patience = 60_000; // ms, for what has to come
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const looks = {
  light: { viewport: { width: 1280, height: 900 }, colorScheme: 'light' },
  dark: { viewport: { width: 1280, height: 900 }, colorScheme: 'dark' },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: 'light', hasTouch: true, isMobile: true },
};

export async function browser() {
  const executablePath = process.env.CHROMIUM ?? execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim();
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

// visit opens a page for a test. When that ends nothing may be in the console but what is
// expected there, and nothing may have been asked of anybody else.
export async function visit(t, chrome, windsock, address, { look = looks.light, expected = /^$/, prepare } = {}) {
  const context = await chrome.newContext(look);
  windsock.watchers.push(context);
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  const faults = [];
  page.on('console', (m) => m.type() === 'error' && !expected.test(m.text()) && faults.push(m.text()));
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('request', (r) => !r.url().startsWith(windsock.url) && faults.push(`it asks ${r.url()}`));
  page.on('dialog', (d) => (faults.push(`a dialog: ${d.message()}`), d.dismiss()));
  t.after(() => assert.deepEqual(faults, []));
  await prepare?.(page);
  await page.goto(windsock.url + address);
  return page;
}

// accessible has axe look at what is shown.
export async function accessible(page, what) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  const serious = violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => `${what}: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(' | ')}`);
  assert.deepEqual(serious, []);
}

// shows waits for an element of a role with a name and, if it says so, a text.
export async function shows(page, role, name, text) {
  let found = page.getByRole(role, { name });
  if (text) found = found.filter({ hasText: text });
  await found.first().waitFor();
  return found.first();
}

// eventually waits until something holds.
export async function eventually(ok) {
  for (const late = Date.now() + patience; !ok(); ) {
    assert.ok(Date.now() < late, `not within ${patience} ms: ${ok}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
