// One deployment: its state and why, its members, who says what of one of them and since
// when, its components, and what happened.

import { get, path } from './api.js';
import { age, bar, deploymentPath, fact, h, number, order, row, state, table, text, visible } from './dom.js';
import { count, drifts, flags } from './deployments.js';
import { graph } from './graph.js';
import { calm } from './live.js';
import { timeline } from './timeline.js';

const page = 100;

export function deployment([id], query, shell) {
  const chosen = query.get('instance'); // the member whose evidence is shown
  const only = query.get('state'); // of the members
  let d;
  let members;
  let next;
  let want = page;
  let member;
  let software;
  let uptime;
  let log = timeline(50, { deployment: id }, (e) => e.deployment_id === id);
  let narrow = false; // only what happened to the chosen member

  async function load() {
    d = await get(path`/api/deployments/${id}`);
    if (d.id !== id) { // it was asked for by the provider's id
      location.replace(deploymentPath(d.id, chosen));
      return;
    }
    await Promise.all([loadMembers(), log.load(), loadMember(),
      get(path`/api/deployments/${id}/components`).then((g) => (software = g), unlessNone),
      get(path`/api/deployments/${id}/availability`).then((a) => (uptime = a), unlessNone)]);
  }

  async function loadMembers() {
    const list = await get(path`/api/deployments/${id}/instances`, { limit: Math.min(1000, want), ...(only && { state: only }) });
    members = list.instances;
    next = list.next;
  }

  async function loadMember() {
    member = chosen ? await get(path`/api/instances/${chosen}`).catch(() => undefined) : undefined;
  }

  // What the log does not tell, such as who says so, is asked for again.
  const review = calm(async () => {
    try {
      d = await get(path`/api/deployments/${id}`);
      await loadMember();
    } catch { return; }
    shell.paint();
  }, 3000);
  const reload = calm(() => shell.reload(), 5000);

  function events(happened) {
    const mine = happened.filter((e) => e.deployment_id === id);
    log.add(happened);
    if (mine.length === 0 || !d || !members) return;
    const byID = new Map(members.map((m) => [m.id, m]));
    for (const e of mine) {
      const m = byID.get(e.subject_id);
      if (e.type === 'instance.state') {
        count(d.instances, e.previous_state, e.observed_state);
        if (m) Object.assign(m, { observed_state: e.observed_state, since: e.time, reason: e.reason, drift: drifts(e.expected_state, e.observed_state) });
      }
      if (m && e.kind === 'instance') Object.assign(m, { stale: Boolean(e.stale), suspect: Boolean(e.suspect), unstable: Boolean(e.unstable) });
      if (e.type === 'deployment.state') Object.assign(d, { observed_state: e.observed_state, since: e.time, reason: e.reason, drift: drifts(e.expected_state, e.observed_state) });
      if (e.kind === 'component' || e.type.endsWith('.declared') || e.type.endsWith('.removed')) reload();
    }
    review();
  }

  function draw() {
    if (!d) return h('p', { class: 'quiet' }, 'Loading.');
    return [
      h('section', { 'aria-label': 'State' }, facts(), d.evidence && [h('h2', {}, 'What is said of it as a whole'), evidence(d.evidence)]),
      h('section', { 'aria-labelledby': 'members' }, h('h2', { id: 'members' }, 'Instances'), memberList()),
      member && h('section', { 'aria-labelledby': 'evidence', 'data-key': `evidence ${member.id}` }, h('h2', { id: 'evidence' }, 'Instance ', text(member.id)), memberFacts(), evidence(member.evidence ?? [])),
      software?.components.length > 0 && h('section', { 'aria-labelledby': 'components' }, h('h2', { id: 'components' }, 'Components'), graph(software), components()),
      h('section', { 'aria-labelledby': 'log' }, h('h2', { id: 'log' }, 'What happened'), timelineOf()),
    ];
  }

  function facts() {
    return h('dl', { class: 'facts' },
      fact('Observed', state(d.observed_state), ' ', flags(d)), fact('Expected', state(d.expected_state)),
      fact('Since', age(d.since)), fact('Reason', d.reason ? text(d.reason, 300) : '–'),
      d.sources.length > 0 && fact('Said by', d.sources.map((s, i) => [i > 0 && ', ', text(s, 60)])),
      fact('Provider / pool', text(d.provider), d.pool && [' / ', text(d.pool)]),
      fact('Rule', d.rule ?? 'all', d.quorum > 1 && `, quorum ${d.quorum}`),
      d.name && d.name !== d.id && fact('Name', text(d.name)),
      d.held_by && fact('Held back', text(d.held_by, 300)),
      d.depends_on?.length > 0 && fact('Depends on', d.depends_on.map((p, i) => [i > 0 && ', ', h('a', { href: deploymentPath(p) }, text(p, 60))])),
      d.runs_on?.length > 0 && fact('Runs on', d.runs_on.map((p, i) => [i > 0 && ', ', h('a', { href: deploymentPath(p) }, text(p, 60))])),
      d.maintenance_until && fact('Maintenance until', age(d.maintenance_until)),
      uptime?.uptime != null && fact('Uptime, last day', `${(100 * uptime.uptime).toFixed(2)} %`, uptime.failures > 0 && `, ${uptime.failures} ${uptime.failures === 1 ? 'failure' : 'failures'}`),
      Object.entries(d.metadata ?? {}).slice(0, 20).map(([k, v]) => fact(text(k, 40), text(v, 100))));
  }

  function memberList() {
    const states = order.filter((word) => d.instances[word] > 0);
    const rows = (members ?? []).map((m) => h('tr', { 'data-key': m.id, class: m.id === chosen && 'chosen' },
      h('th', { scope: 'row' }, h('a', { href: deploymentPath(id, m.id), 'aria-current': m.id === chosen ? 'true' : false }, text(m.id))),
      h('td', {}, state(m.observed_state)), h('td', {}, m.expected_state), h('td', {}, flags(m)), h('td', {}, age(m.since)), h('td', {}, text(m.reason, 160)), h('td', {}, text(m.address, 60))));
    return [
      h('p', {}, bar(d.instances), ' ', (states.length > 1 || only) && [h('a', { href: deploymentPath(id), 'aria-current': only ? false : 'true' }, 'all'), states.map((word) => [' ', h('a', { href: `${deploymentPath(id)}?state=${word}`, 'aria-current': only === word ? 'true' : false }, word)])]),
      members && table('Instances', ['Instance', 'Observed', 'Expected', 'Flags', 'Since', 'Reason', 'Address'], rows, 'It has none.'),
      next && want < 1000 && h('p', {}, h('button', { onclick: () => { want += page; shell.reload(); } }, `Show ${page} more`), h('span', { class: 'quiet' }, ` ${number(rows.length)} are shown.`)),
    ];
  }

  function memberFacts() {
    return h('dl', { class: 'facts' },
      fact('Observed', state(member.observed_state), ' ', flags(member)), fact('Expected', state(member.expected_state)),
      fact('Since', age(member.since)), fact('Reason', member.reason ? text(member.reason, 300) : '–'),
      member.held_by && fact('Held back', text(member.held_by, 300)),
      member.address && fact('Address', text(member.address)), member.assembly && fact('Assembly', text(member.assembly)),
      member.probe && fact('Probe', `${member.probe.type}, every ${member.probe.interval}`));
  }

  function components() {
    const rows = software.components.slice(0, 500).map((c) => row(c.name, text(c.name), state(c.state), c.instance_id ? h('a', { href: deploymentPath(id, c.instance_id) }, text(c.instance_id, 60)) : text(c.instance ?? '–', 60),
      age(c.since), (c.waits_for ?? []).map((w, i) => [i > 0 && ', ', text(w, 40)]), text(c.reason, 200)));
    return table('Components', ['Component', 'State', 'Instance', 'Since', 'Waits for', 'Reason'], rows, '');
  }

  function timelineOf() {
    return [
      chosen && h('p', {}, h('label', {}, h('input', { type: 'checkbox', onchange: (e) => { narrow = e.target.checked; shell.paint(); } }), ' only of ', text(chosen, 60))),
      log.draw(true, (e) => !narrow || e.subject_id === chosen),
      log.hasMore() && h('p', {}, h('button', { onclick: () => log.more().then(shell.paint, (error) => shell.say(error.message)) }, 'Show older')),
    ];
  }

  return { title: `Deployment ${id}`, heading: () => ['Deployment ', text(id)], load, events, draw };
}

function unlessNone(error) {
  if (error.status !== 503 && error.status !== 404) throw error;
}

function evidence(list) {
  const rows = list.map((e) => row(e.source, text(e.source), state(e.state), e.raw && text(e.raw, 60), age(e.since), age(e.received_at),
    e.expires_at ? age(e.expires_at) : '–', text(e.reason, 200),
    [e.blind_since && h('span', { class: 'flag' }, `cannot look: ${visible(e.blind_reason ?? '').slice(0, 100)}`), e.pending && `${e.pending}, ${e.samples} times`, e.requested && ' asked for']));
  return table('Evidence', ['Source', 'Says', 'Own word', 'Since', 'Said last', 'Ends', 'Reason', 'Notes'], rows, 'Nobody has said anything.');
}
