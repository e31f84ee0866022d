import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { accessible, browser, eventually, looks, shows, visit } from './browser.mjs';
import { Service, Windsock } from './windsock.mjs';

let chrome;
before(async () => { chrome = await browser(); });
after(() => chrome.close());

// site starts a windsock for a test.
async function site(t, declared) {
  const windsock = await Windsock.start(declared);
  t.after(() => windsock.end());
  return windsock;
}

// shop is three services, each looked at every second, and a monitor that is told.
async function shop(t, windsock) {
  const told = [];
  const services = {};
  for (const id of ['web', 'cart', 'stock']) services[id] = await new Service().start();
  const monitor = await new Service((request, response) => {
    told.push(`${request.method} ${request.url}`);
    request.resume();
    response.end('{}');
  }).start();
  t.after(() => Promise.all([...Object.values(services), monitor].map((s) => s.server.listening && s.stop())));
  await windsock.call('PUT', '/api/deployments/shop', { pool: 'east', metadata: { team: 'blue' } });
  for (const [id, service] of Object.entries(services)) {
    await windsock.call('PUT', `/api/instances/${id}`, { deployment_id: 'shop', probe: service.probe });
  }
  const { monitor_id: id } = await windsock.call('POST', '/api/monitors/add', { address: '127.0.0.1', port: monitor.port, name: 'pager' });
  return { services, monitor, id, told };
}

test('the story of the demo', async (t) => {
  const windsock = await site(t);
  const page = await visit(t, chrome, windsock, '/', { expected: /404/ }); // it asks for ids that there may not be
  await page.getByText('No deployment is declared yet.').waitFor();
  const { services } = await shop(t, windsock);
  await shows(page, 'row', /^static \/ east/, '3 running');
  assert.equal(await page.title(), 'Fleet · windsock');

  await t.test('a service dies, and the page says so by itself', async () => {
    await services.cart.stop();
    await shows(page, 'row', /^shop/, /degraded.*1 of 3 instances/);
    await shows(page, 'listitem', '', /instance cart running → failed.*FAIL DETECTED/);
    await page.locator('#news', { hasText: 'shop is degraded' }).waitFor({ state: 'attached' });
  });

  await t.test('who says so, and why', async () => {
    await page.getByRole('link', { name: 'shop', exact: true }).first().click();
    await shows(page, 'heading', 'Deployment shop');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main', 'the focus goes to what is shown');
    await page.getByRole('row', { name: /^cart failed/ }).getByRole('link').click();
    await shows(page, 'heading', 'Instance cart');
    await shows(page, 'row', /^probe failed/, 'refused');
  });

  await t.test('somebody accuses another one, and takes it back', async () => {
    await windsock.detect('stock', 'FAIL DETECTED', 'wrong prices');
    await shows(page, 'row', /^stock failed running drift/, 'wrong prices');
    await shows(page, 'listitem', '', /instance stock running → failed.*wrong prices by pager/);
    await windsock.detect('stock', 'START DETECTED', 'right prices');
    await shows(page, 'row', /^stock running/);
  });

  await t.test('it comes back', async () => {
    await services.cart.start();
    await shows(page, 'row', /^cart running/);
    await shows(page, 'listitem', '', /deployment shop degraded → running.*START DETECTED/);
    await page.getByRole('link', { name: 'Fleet' }).click();
    await page.getByText('Nothing failed.').waitFor();
    await page.goBack();
    await shows(page, 'heading', 'Deployment shop');
  });

  await t.test('an id leads to what has it', async () => {
    for (const [id, heading] of [['stock', 'Instance stock'], ['shop', 'Deployment shop']]) {
      await page.getByRole('searchbox').fill(id);
      await page.getByRole('searchbox').press('Enter');
      await shows(page, 'heading', heading);
    }
  });
});

test('a monitor, and what may be done with it', async (t) => {
  const windsock = await site(t);
  const { monitor, told } = await shop(t, windsock);
  const page = await visit(t, chrome, windsock, '/#/monitors');
  await page.getByRole('link', { name: 'pager' }).click();
  await shows(page, 'row', /ago shop taken 1 200/);
  assert.match(await page.getByRole('row', { name: /ago shop taken/ }).first().textContent(), /first byte/);

  await page.getByRole('button', { name: 'Ping' }).click();
  await page.getByText(/It took the ping with 200 in/).first().waitFor();
  assert.ok(told.some((line) => line.endsWith('/api/ping')), String(told));

  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('paused by an operator').waitFor();
  await windsock.detect('web', 'FAIL DETECTED', 'while it is paused');
  await page.getByText(/^[1-9]\d* events, the oldest/).waitFor();
  await page.getByLabel('It hears').selectOption('skip');
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByRole('button', { name: 'Pause' }).waitFor();

  await page.getByRole('button', { name: 'Count' }).click();
  await page.getByText(/events would be told again/).first().waitFor();
  const before = told.length;
  await page.getByRole('button', { name: 'Replay' }).click();
  await page.getByText(/events are told again/).first().waitFor();
  await eventually(() => told.length > before);

  await monitor.stop();
  await windsock.detect('web', 'START DETECTED', 'nobody hears it');
  await shows(page, 'row', /away.*refused/);
  await page.getByRole('link', { name: 'Monitors' }).click();
  await shows(page, 'row', /^pager global retrying .*events.*in \d.*refused/);
});

test('components are drawn', async (t) => {
  const windsock = await site(t);
  const template = 'components:\n  db: {config: "x", outputs: [address]}\n  <b>: {config: "y", inputs: {db: {get_attr: [db, address]}}}\ninstances:\n  a: {components: [db]}\n  b: {components: [<b>]}\n'.replaceAll('<b>', 'web');
  const { id } = await windsock.call('POST', '/api/deployables', { name: 'blog', template });
  await windsock.call('PUT', '/api/deployments/blog', { deployable: id, instances: { a: 'blog-1', b: 'blog-2' } });
  const page = await visit(t, chrome, windsock, '/#/deployments/blog');
  const graph = await shows(page, 'img', /^2 components/);
  assert.equal(await graph.locator('.node').count(), 2);
  assert.equal(await graph.locator('.edge').count(), 1);
  await windsock.detect('blog-1', 'START DETECTED');
  await graph.locator('.node.available', { hasText: 'db' }).waitFor();
  await shows(page, 'row', /^web waiting blog-2 .*db/);
});

const hostile = ['<script>alert(1)</script>', '<img src=x onerror=alert(1)>', '"><svg onload=alert(1)>', '\u202etxet desrever', 'a\u200bb\ufeffc', "'; --", '{{7*7}}', '../../etc?c#d', 'wide'.repeat(2500)];

test('hostile names are text', async (t) => {
  const windsock = await site(t);
  for (const [i, name] of hostile.entries()) {
    const short = name.slice(0, 200);
    await windsock.call('PUT', `/api/deployments/h-${i}`, { name: short, pool: i < 3 ? short : 'p', metadata: { [`k${i}`]: short } });
    await windsock.call('PUT', `/api/instances/i-${i}@~:+.`, { deployment_id: `h-${i}`, name: short, address: short });
    await windsock.detect(`i-${i}@~:+.`, 'FAIL DETECTED', name);
  }
  await windsock.call('POST', '/api/monitors/add', { address: '127.0.0.1', port: 9, name: hostile[0] });
  const page = await visit(t, chrome, windsock, '/');
  await shows(page, 'row', /^h-0 .*none of 1/);
  await page.getByText('⟨202E⟩txet').first().waitFor();
  await page.getByText('a⟨200B⟩b⟨FEFF⟩c').first().waitFor();
  for (const address of ['', 'deployments', 'monitors', ...hostile.map((_, i) => `deployments/h-${i}?instance=${encodeURIComponent(`i-${i}@~:+.`)}`)]) {
    await page.goto(`${windsock.url}/#/${address}`);
    await page.locator('main[aria-busy=false]').waitFor();
    if (address.includes('instance')) await shows(page, 'row', /^pager failed/);
    assert.equal(await page.locator('main :is(script, img, svg)').count(), 0);
    const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(width <= 0, `${address} makes the page ${width} wider than the window`);
  }
});

test('windsock goes away and comes back', async (t) => {
  const windsock = await site(t);
  await windsock.call('PUT', '/api/deployments/shop', {});
  await windsock.call('PUT', '/api/instances/web', { deployment_id: 'shop' });
  await windsock.detect('web', 'START DETECTED');
  const page = await visit(t, chrome, windsock, '/#/deployments/shop', { expected: /net::ERR_/ });
  await page.getByText('Live', { exact: true }).waitFor();
  await shows(page, 'row', /^web running/);
  let requests = 0;
  page.on('request', () => requests++);
  const resumed = page.waitForRequest((r) => r.headers()['last-event-id'] !== undefined && r.url().endsWith('/api/events'));

  await windsock.kill();
  await page.getByRole('alert').filter({ hasText: 'windsock does not answer' }).waitFor();
  await page.getByText('Not connected').waitFor();
  await shows(page, 'row', /^web running/); // what was known is still shown
  await resumed;
  await page.getByRole('alert').filter({ hasText: /Next try in [4-9] s/ }).waitFor();
  assert.ok(requests < 10, `${requests} requests while nobody answers`);

  await windsock.start();
  await windsock.detect('web', 'FAIL DETECTED', 'while nobody looked');
  await page.getByText('Live', { exact: true }).waitFor();
  await shows(page, 'row', /^web failed/, 'while nobody looked');
  assert.equal(await page.getByRole('alert').count(), 0);
});

test('a page that nobody sees keeps no connection, and misses nothing', async (t) => {
  const windsock = await site(t);
  await windsock.call('PUT', '/api/deployments/shop', {});
  const page = await visit(t, chrome, windsock, '/#/deployments');
  await page.getByText('Live', { exact: true }).waitFor();
  const hide = (hidden) => page.evaluate((value) => {
    Object.defineProperty(document, 'hidden', { value, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  const closed = page.waitForEvent('requestfailed', (r) => r.url().endsWith('/api/events'));
  await hide(true);
  await closed;
  await windsock.call('POST', '/api/monitors/deployment/shop', { state: 'FAIL DETECTED' });
  await hide(false);
  await shows(page, 'row', /^shop failed/);
});

test('who may only read is offered nothing else', async (t) => {
  const windsock = await site(t);
  const { monitor_id: id } = await windsock.call('POST', '/api/monitors/add', { address: '127.0.0.1', port: 9 });
  // A windsock that wants a token, as far as the page can tell.
  const locked = (page) => page.route('**/api/**', (route) => {
    const authorization = route.request().headers().authorization;
    const says = (status, body) => route.fulfill({ status, contentType: 'application/json', body: JSON.stringify(body) });
    if (authorization !== 'Bearer wst_right') return says(401, { title: 'Who asks is not known', detail: 'no such token' });
    if (route.request().url().endsWith('/api/whoami')) return says(200, { name: 'eva', role: 'read', scope: 'global' });
    return route.continue();
  });
  const page = await visit(t, chrome, windsock, `/#/monitors/${id}`, { prepare: locked, expected: /401/ });
  await shows(page, 'heading', 'Sign in');
  await accessible(page, 'sign in');
  await page.getByLabel('Token').fill('wst_wrong');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').filter({ hasText: 'no such token' }).waitFor();
  await page.getByLabel('Token').fill('wst_right');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('eva').waitFor();
  await shows(page, 'heading', 'Tries');
  assert.equal(await page.getByRole('button', { name: /Ping|Pause|Replay/ }).count(), 0);
  assert.deepEqual(await page.evaluate(() => [localStorage.length, document.cookie]), [0, '']);
  await page.reload();
  await page.getByText('eva').waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await shows(page, 'heading', 'Sign in');
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
});

test('everybody can use it', async (t) => {
  const windsock = await site(t);
  const { id } = await shop(t, windsock);
  await windsock.detect('stock', 'FAIL DETECTED', 'wrong prices');
  const views = { fleet: '', deployments: 'deployments', deployment: 'deployments/shop?instance=stock', monitors: 'monitors', monitor: `monitors/${id}`, providers: 'providers', replicas: 'replicas' };
  for (const [name, look] of Object.entries(looks)) {
    const page = await visit(t, chrome, windsock, '/', { look });
    for (const [view, address] of Object.entries(views)) {
      await page.goto(`${windsock.url}/#/${address}`);
      await page.locator('main[aria-busy=false]').waitFor();
      await page.getByText('Live', { exact: true }).waitFor();
      await accessible(page, `${view}, ${name}`);
      const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(width <= 0, `${view}, ${name}: ${width} wider than the window`);
      if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/${view}-${name}.png` });
    }
  }
  await t.test('by the keyboard', async () => {
    const page = await visit(t, chrome, windsock, '/#/deployments');
    await shows(page, 'row', /^shop/);
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
    assert.match(page.url(), /#\/deployments$/);
    await page.getByRole('link', { name: 'shop', exact: true }).focus();
    await windsock.detect('stock', 'START DETECTED', 'right prices');
    await shows(page, 'row', /^shop running/);
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'shop', 'what changes takes the focus from nobody');
    await page.keyboard.press('Enter');
    await shows(page, 'heading', 'Deployment shop');
  });
});

test('ten thousand instances, a hundred thousand events', async (t) => {
  const [deployments, each, rounds] = [1000, 10, 10];
  const name = (i) => `i-${String(i).padStart(5, '0')}`;
  const list = (n, f) => Array.from({ length: n }, (_, i) => f(i));
  const windsock = await site(t, { deployments: list(deployments, (d) => ({ id: `d-${d}`, pool: `p-${d % 20}`, flap: 'off', instances: list(each, (k) => ({ id: name(d * each + k) })) })) });
  const all = async (state) => {
    for (let k = 0; k < each; k++) await windsock.call('POST', '/api/monitors/detections', list(deployments, (d) => ({ instance_id: name(d * each + k), state, source: 'pager' })));
  };
  await all('START DETECTED');

  const page = await visit(t, chrome, windsock, '/');
  await shows(page, 'listitem', '', '10,000');
  const times = await page.evaluate(() => {
    const [paint] = performance.getEntriesByName('first-contentful-paint');
    const bytes = performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation')).filter((e) => !e.name.includes('/api/')).reduce((sum, e) => sum + e.transferSize, 0);
    return { paint: Math.round(paint.startTime), bytes };
  });
  t.diagnostic(`first paint after ${times.paint} ms, ${times.bytes} bytes of page`);
  assert.ok(times.bytes > 0 && times.bytes < 150 << 10, `${times.bytes} bytes`);

  const begun = Date.now();
  for (let i = 0; i < rounds; i++) await all(i % 2 ? 'START DETECTED' : 'FAIL DETECTED');
  const done = Date.now();
  const { head: seq } = await windsock.call('GET', '/api/events?before=1');
  await page.locator('.timeline li').first().and(page.locator(`[data-key="${seq}"]`)).waitFor();
  t.diagnostic(`${seq} events; all were posted in ${done - begun} ms and shown ${Date.now() - done} ms later`);
  await page.getByText('Nothing failed.').waitFor();

  await page.getByRole('link', { name: 'Deployments' }).click();
  await shows(page, 'row', /^d-0 running 10 running/);
  assert.ok(await page.locator('main *').count() < 10_000, 'it shows what can be looked at');
  await page.getByRole('button', { name: /more/ }).click();
  await page.getByText('200 are shown.').waitFor();
});
