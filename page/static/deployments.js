// Deployments, by what is observed of them and where they lie: as many as one scrolls to.

import { get } from './api.js';
import { age, bar, deploymentPath, h, number, order, row, state, table, text } from './dom.js';
import { calm } from './live.js';

const page = 100;
const states = order.filter((word) => word !== 'suspended');

export function deployments(parts, query, shell) {
  const filter = Object.fromEntries(['state', 'provider', 'pool', 'drift', 'stale'].filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
  let list;
  let next;
  let want = page; // so many are shown

  // Up to a thousand are had at once, so that a list of any length is loaded anew in few
  // requests.
  async function load() {
    const all = [];
    let after;
    do {
      const limit = Math.min(1000, want - all.length);
      const part = await get('/api/deployments', { ...filter, limit, ...(after && { after }) });
      all.push(...part.deployments);
      after = part.next;
    } while (after && all.length < want);
    list = all;
    next = after;
  }

  const reload = calm(() => shell.reload(), 10_000);

  // What the log tells is done here, too, so that nothing has to be asked for.
  function events(happened) {
    if (!list) return;
    const byID = new Map(list.map((d) => [d.id, d]));
    for (const e of happened) {
      const d = byID.get(e.deployment_id);
      if (e.type.endsWith('.declared') || e.type.endsWith('.removed') || (filter.state && e.type === 'deployment.state')) reload();
      if (!d) continue;
      if (e.kind === 'deployment') Object.assign(d, { stale: Boolean(e.stale), suspect: Boolean(e.suspect), unstable: Boolean(e.unstable) });
      if (e.type === 'deployment.state') Object.assign(d, { observed_state: e.observed_state, since: e.time, reason: e.reason, drift: drifts(e.expected_state, e.observed_state) });
      if (e.type === 'instance.state') count(d.instances, e.previous_state, e.observed_state);
    }
  }

  function draw() {
    return [filters(filter), list ? [results(), moreButton()] : h('p', { class: 'quiet' }, 'Loading.')];
  }

  function results() {
    const rows = list.map((d) => row(d.id, [h('a', { href: deploymentPath(d.id) }, text(d.id)), d.name && d.name !== d.id && h('span', { class: 'quiet' }, ' ', text(d.name, 60))],
      state(d.observed_state), bar(d.instances), flags(d), age(d.since), [text(d.provider, 40), d.pool && [' / ', text(d.pool, 40)]], text(d.reason, 160)));
    return table('Deployments', ['Deployment', 'State', 'Instances', 'Flags', 'Since', 'Provider / pool', 'Reason'], rows, 'No deployment is like that.');
  }

  function moreButton() {
    return next && h('p', {}, h('button', { onclick: () => { want += page; shell.reload(); } }, `Show ${page} more`), h('span', { class: 'quiet' }, ` ${number(list.length)} are shown.`));
  }

  return { title: 'Deployments', load, events, draw };
}

export function count(counts, from, to) {
  if (counts[from] > 0) counts[from] -= 1;
  counts[to] = (counts[to] ?? 0) + 1;
}

// drifts is the rule by which an observed state contradicts the expected one.
export function drifts(expected, observed) {
  switch (observed) {
    case 'unknown': return false;
    case 'degraded': return true;
    case 'running': case 'starting': return expected !== 'running';
    case 'stopping': return expected === 'running';
    default: return expected !== (observed === 'gone' ? 'gone' : 'stopped');
  }
}

export function flags(subject) {
  const words = ['drift', 'stale', 'suspect', 'unstable', 'held'].filter((word) => subject[word]);
  if (subject.maintenance_until && Date.parse(subject.maintenance_until) > Date.now()) words.push('maintenance');
  return words.map((word) => [h('span', { class: 'flag' }, word), ' ']);
}

function filters(filter) {
  const change = (event) => {
    const now = Object.fromEntries([...new FormData(event.target.form)].filter(([, value]) => value));
    location.hash = `#/deployments?${new URLSearchParams(now)}`;
  };
  const choose = (name, label, values) => h('label', {}, label, h('select', { name, onchange: change },
    h('option', { value: '' }, 'any'), values.map((value) => h('option', { value, selected: filter[name] === value }, value))));
  const type = (name, label) => h('label', {}, label, h('input', { name, value: filter[name] ?? '', size: 12, onchange: change }));
  return h('form', { class: 'filters', 'aria-label': 'Filter', onsubmit: (event) => event.preventDefault() },
    choose('state', 'State', states), type('provider', 'Provider'), type('pool', 'Pool'),
    choose('drift', 'Drift', ['true', 'false']), choose('stale', 'Stale', ['true', 'false']));
}
