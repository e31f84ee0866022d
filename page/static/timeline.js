// What happened, the newest first, and why.

import { get } from './api.js';
import { age, deploymentPath, h, state, text } from './dom.js';

const newest = Number.MAX_SAFE_INTEGER;

// timeline keeps the newest events that a filter selects, up to so many unless more are
// asked for.
export function timeline(most, filter = {}, wants = () => true) {
  let list = [];
  let seq = 0; // of the newest event that it has seen, wanted or not
  let next = 0; // where an older page begins; 0: there is none
  let fresh = new Set(); // what came while it was shown

  async function load() {
    const page = await get('/api/events', { ...filter, before: newest, limit: most });
    list = page.events;
    next = page.next;
    seq = Math.max(seq, page.head);
  }

  async function more() {
    const page = await get('/api/events', { ...filter, before: next, limit: most });
    list = list.concat(page.events);
    next = page.next;
    most += page.events.length;
  }

  function add(events) {
    const known = list[0]?.seq ?? 0;
    const news = events.filter((e) => e.seq > known && wants(e)).reverse();
    seq = Math.max(seq, events.at(-1).seq);
    if (news.length === 0) return;
    fresh = new Set(news.map((e) => e.seq));
    list = news.concat(list);
    if (list.length > most) {
      list.length = most;
      next = list.at(-1).seq;
    }
  }

  // draw shows them; a deployment's own needs not name it each time.
  function draw(whose, only = () => true) {
    const shown = list.filter(only);
    if (shown.length === 0) return h('p', { class: 'quiet' }, 'Nothing is kept.');
    return h('ol', { class: 'timeline' }, shown.map((e) => h('li', { 'data-key': e.seq, class: fresh.has(e.seq) && 'fresh' }, age(e.time), ' ', ...words(e, whose))));
  }

  return { load, more, add, draw, hasMore: () => next > 0, get seq() { return seq; } };
}

function words(e, whose) {
  const parts = [h('span', { class: 'who' }, h('span', { class: 'quiet' }, `${e.kind} `), name(e, whose)), ' '];
  const to = e.component?.state ?? e.observed_state;
  const from = e.component?.previous ?? e.previous_state;
  if (e.type.endsWith('.state') && to) parts.push(h('span', { class: 'change' }, from && `${from} → `, state(to)));
  else parts.push(h('span', {}, e.type.split('.')[1]));
  for (const flag of ['stale', 'suspect', 'unstable']) {
    if (e[flag]) parts.push(' ', h('span', { class: 'flag' }, flag));
  }
  if (e.detection) parts.push(' ', h('span', { class: 'word' }, e.detection));
  if (e.held) parts.push(' ', h('span', { class: 'word' }, `${e.held}, held back${e.held_by ? `: ${e.held_by.slice(0, 120)}` : ''}`));
  if (e.affected) parts.push(' ', h('span', {}, 'affects ', text(e.affected.join(', '), 200)));
  if (e.reason) parts.push(' ', h('span', { class: 'reason' }, text(e.reason, 300)));
  if (e.source) parts.push(' ', h('span', { class: 'quiet' }, 'by ', text(e.source, 60)));
  return parts;
}

function name(e, whose) {
  const label = text(e.component?.name ?? e.subject_id, 60);
  if (e.kind === 'monitor') return h('a', { href: `#/monitors/${encodeURIComponent(e.subject_id)}` }, label);
  if (e.kind === 'provider') return h('a', { href: '#/providers' }, label);
  if (!e.deployment_id || (e.kind === 'deployment' && !whose)) return label;
  return h('a', { href: deploymentPath(e.deployment_id, e.kind === 'instance' && e.subject_id) }, label);
}
