// The processes that share the store, and who does what.

import { get } from './api.js';
import { age, h, row, table, text } from './dom.js';

export function replicas() {
  let list;

  async function load() {
    ({ replicas: list } = await get('/api/replicas'));
  }

  function draw() {
    if (!list) return h('p', { class: 'quiet' }, 'Loading.');
    const rows = list.map((r) => row(r.id, text(r.name), text(r.address ?? '–'), r.roles.join(', '), age(r.started_at), age(r.seen_at), text(r.holds.map((held) => held.unit).join(', ') || '–', 400)));
    return table('Replicas', ['Process', 'Address', 'Roles', 'Started', 'Seen', 'Does'], rows, 'None is there.');
  }

  return { title: 'Replicas', every: 5000, load, draw };
}
