// The clouds that are observed: how the last listing went, and what their words mean.

import { get } from './api.js';
import { age, h, number, row, state, table, text } from './dom.js';
import { calm } from './live.js';

export function providers(parts, query, shell) {
  let list;

  async function load() {
    ({ providers: list } = await get('/api/providers'));
  }

  const reload = calm(() => shell.reload(), 5000);

  function events(happened) {
    if (happened.some((e) => e.kind === 'provider')) reload();
  }

  function draw() {
    if (!list) return h('p', { class: 'quiet' }, 'Loading.');
    const rows = list.map((p) => row(p.id, text(p.id), text(p.kind), p.lost ? h('span', { class: 'state failed' }, 'lost') : p.last_error ? h('span', { class: 'state degraded' }, 'errors') : h('span', { class: 'state running' }, 'observed'),
      age(p.complete_at), [p.took && `took ${p.took}`, p.interval && `, every ${p.interval}`],
      p.deployments || p.instances ? `${number(p.deployments ?? 0)} deployments, ${number(p.instances ?? 0)} instances` : `${number(p.watched)} watched`,
      p.blind, text(p.last_error, 300)));
    return [
      h('section', { 'aria-label': 'Listings' }, table('Providers', ['Provider', 'Kind', 'State', 'Last complete', 'Listing', 'Shows', 'Cannot judge', 'Last error'], rows, 'None is observed.')),
      list.filter((p) => p.words).map((p) => h('section', { 'data-key': p.id, 'aria-label': `Words of ${p.id}` }, h('h2', {}, 'Words of ', text(p.id)), h('p', { class: 'quiet' }, 'All others are unknown.'), words(p.words))),
    ];
  }

  return { title: 'Providers', every: 10_000, load, events, draw };
}

function words(all) {
  return h('dl', { class: 'facts' }, Object.entries(all).sort(([a], [b]) => (a < b ? -1 : 1)).map(([word, means]) => h('div', {}, h('dt', {}, text(word, 60)), h('dd', {}, state(means)))));
}
