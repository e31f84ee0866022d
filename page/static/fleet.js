// All there is at a glance: how many in which state and where, what is not as it should
// be, and what happened last.

import { get } from './api.js';
import { age, bar, deploymentPath, h, number, order, row, state, table, text } from './dom.js';
import { calm } from './live.js';
import { timeline } from './timeline.js';

const named = 20; // of what is not well

export function fleet(parts, query, shell) {
  let counts;
  let providers = [];
  const unwell = new Map(); // deployments, by id
  const log = timeline(40);

  const recount = calm(async () => {
    counts = await get('/api/summary').catch(() => counts);
    shell.paint();
    if (counts && counts.seq < log.seq) recount(); // it was a little old
  }, 3000);

  async function load() {
    const [summary, listed, failed, degraded] = await Promise.all([
      get('/api/summary'), get('/api/providers'),
      ...['failed', 'degraded'].map((word) => get('/api/deployments', { state: word, limit: named })),
      log.load(),
    ]);
    counts = summary;
    providers = listed.providers;
    unwell.clear();
    for (const d of [...failed.deployments, ...degraded.deployments]) unwell.set(d.id, d);
  }

  function events(list) {
    log.add(list);
    for (const e of list) {
      if (e.type === 'deployment.removed') unwell.delete(e.subject_id);
      if (e.type !== 'deployment.state') continue;
      unwell.delete(e.subject_id);
      if (e.observed_state === 'failed' || e.observed_state === 'degraded') {
        unwell.set(e.subject_id, { id: e.subject_id, observed_state: e.observed_state, since: e.time, reason: e.reason, pool: e.pool, provider: e.provider });
      }
    }
    recount();
  }

  function draw() {
    if (!counts) return h('p', { class: 'quiet' }, 'Loading.');
    return [
      h('section', { 'aria-labelledby': 'deployments' }, h('h2', { id: 'deployments' }, 'Deployments'), tiles(counts.deployments, (word) => `#/deployments?state=${word}`),
        h('p', { class: 'flags' }, flag(counts.drift, 'drift'), flag(counts.stale, 'stale'))),
      h('section', { 'aria-labelledby': 'instances' }, h('h2', { id: 'instances' }, 'Instances'), tiles(counts.instances)),
      h('section', { 'aria-labelledby': 'attention' }, h('h2', { id: 'attention' }, 'Needs attention'), attention()),
      h('section', { 'aria-labelledby': 'pools' }, h('h2', { id: 'pools' }, 'Providers and pools'), pools()),
      h('section', { 'aria-labelledby': 'callbacks' }, h('h2', { id: 'callbacks' }, 'Monitors'), h('p', {}, h('a', { href: '#/monitors' }, monitorWords(counts.monitors)))),
      h('section', { 'aria-labelledby': 'log' }, h('h2', { id: 'log' }, 'What happened'), log.draw(true)),
    ];
  }

  function attention() {
    const list = [...unwell.values()].sort((a, b) => order.indexOf(a.observed_state) - order.indexOf(b.observed_state) || Date.parse(b.since) - Date.parse(a.since));
    const rows = list.slice(0, named).map((d) => row(d.id, h('a', { href: deploymentPath(d.id) }, text(d.id)), state(d.observed_state), age(d.since), text(d.reason, 200)));
    const lost = providers.filter((p) => p.lost).map((p) => h('p', { class: 'trouble' }, h('a', { href: '#/providers' }, 'Provider ', text(p.id)), ' is lost: what it said may be out of date. ', text(p.last_error, 200)));
    const more = ['failed', 'degraded'].reduce((n, word) => n + (counts.deployments[word] ?? 0), 0) - rows.length;
    return [lost, table('Deployments that failed or are degraded', ['Deployment', 'State', 'Since', 'Reason'], rows, 'Nothing failed.'), more > 0 && h('p', { class: 'quiet' }, `and ${number(more)} more`)];
  }

  function pools() {
    const rows = counts.pools.slice(0, 100).map((p) => row(`${p.provider} ${p.pool}`,
      h('a', { href: `#/deployments?${new URLSearchParams({ provider: p.provider, ...(p.pool && { pool: p.pool }) })}` }, text(p.provider), ' / ', p.pool ? text(p.pool) : h('span', { class: 'quiet' }, 'no pool')),
      bar(p.deployments), bar(p.instances)));
    return [table('Counts by provider and pool', ['Provider / pool', 'Deployments', 'Instances'], rows, 'No deployment is declared yet.'), counts.pools.length > 100 && h('p', { class: 'quiet' }, `and ${counts.pools.length - 100} more pools`)];
  }

  return { title: 'Fleet', load, events, draw };
}

function tiles(counts, href) {
  const all = order.filter((word) => counts[word] > 0 || word === 'failed' || word === 'running');
  return h('ul', { class: 'tiles' }, all.map((word) => {
    const inside = [h('b', {}, number(counts[word] ?? 0)), state(word)];
    return h('li', { class: counts[word] ? word : 'none', 'data-key': word }, href ? h('a', { href: href(word) }, inside) : h('span', {}, inside));
  }));
}

function flag(n, word) {
  return n > 0 && h('a', { class: 'flag', href: `#/deployments?${word}=true` }, `${number(n)} ${word}`);
}

function monitorWords(monitors) {
  const words = Object.entries(monitors).sort().map(([word, n]) => `${number(n)} ${word}`);
  return words.length > 0 ? words.join(', ') : 'No monitor is registered.';
}
