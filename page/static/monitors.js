// Who is called back, and how that goes.

import { get } from './api.js';
import { age, h, number, row, state, table, text } from './dom.js';

const page = 100;

export function monitors(parts, query, shell) {
  let list;
  let next;
  let want = page;

  async function load() {
    const found = await get('/api/monitors/list', { limit: Math.min(1000, want) });
    list = found.monitors;
    next = found.next;
  }

  function draw() {
    if (!list) return h('p', { class: 'quiet' }, 'Loading.');
    const rows = list.map((m) => row(m.monitor_id, h('a', { href: `#/monitors/${m.monitor_id}` }, label(m)), text(m.scope, 60), state(m.delivery.state), lag(m.delivery),
      nextTry(m.delivery), text(m.delivery.last_error, 160), age(m.delivery.last_success_at)));
    return [
      table('Monitors', ['Monitor', 'Scope', 'State', 'Waits for it', 'Next try', 'Why', 'Took one'], rows, 'No monitor is registered.'),
      next && want < 1000 && h('p', {}, h('button', { onclick: () => { want += page; shell.reload(); } }, `Show ${page} more`)),
    ];
  }

  return { title: 'Monitors', every: 5000, load, draw };
}

export function label(m) {
  return m.name ? text(m.name) : text(`${m.address}:${m.port}${m.path ?? ''}`);
}

export function lag(d) {
  if (!d.backlog) return '0';
  return [`${number(d.backlog)} events`, d.oldest_at && [', the oldest ', age(d.oldest_at)], d.parked_lanes > 0 && `, ${d.parked_lanes} subjects refused`];
}

export function nextTry(d) {
  if (d.state === 'paused') return `paused by ${d.paused_by === 'operator' ? 'an operator' : d.paused_by}`;
  return d.next_try_at ? [age(d.next_try_at), d.attempts > 0 && `, after ${d.attempts}`] : '–';
}
