// One monitor: what it wants, what waits for it and why, the tries, and what an
// administrator may do.

import { get, path, post } from './api.js';
import { age, deploymentPath, fact, h, row, state, table, text } from './dom.js';
import { label, lag, nextTry } from './monitors.js';

const phases = ['dns', 'connect', 'tls', 'first_byte', 'body'];

export function monitor([id], query, shell) {
  let m;
  let tries = [];
  let omitted = 0;
  let failed = false; // only those that failed
  let said; // what came of the last thing that was done
  let busy = false;

  async function load() {
    const [now, list] = await Promise.all([get(path`/api/monitors/${id}`), get(path`/api/monitors/${id}/deliveries`, { limit: 50, ...(failed && { result: 'failed' }) })]);
    m = now;
    ({ tries, omitted } = list);
  }

  async function act(what, f) {
    if (busy) return;
    [busy, said] = [true, `${what} …`];
    shell.paint();
    try {
      said = await f();
    } catch (error) {
      said = `${what}: ${error.message}`;
    }
    busy = false;
    shell.say(said);
    shell.paint();
    shell.reload();
  }

  const ping = () => act('Ping', async () => {
    const pong = await post(path`/api/monitors/${id}/ping`);
    return pong.taken ? `It took the ping with ${pong.status} in ${pong.duration}.` : `It did not take the ping: ${pong.error ?? pong.status}.`;
  });
  const pause = () => act('Pause', async () => (await post(path`/api/monitors/${id}/pause`), 'It is paused.'));
  const resume = (event) => {
    event.preventDefault();
    const from = event.target.querySelector('select').value;
    act('Resume', async () => (await post(path`/api/monitors/${id}/resume`, { from }), 'It is called back again.'));
  };
  const replay = (event) => {
    event.preventDefault();
    const since = new Date(Date.now() - 60_000 * Number(event.target.querySelector('input').value)).toISOString();
    const dry = event.submitter?.value === 'count';
    act('Replay', async () => {
      const { count } = await post(path`/api/monitors/${id}/replay`, { since, dry_run: dry });
      return dry ? `${count} events would be told again.` : `${count} events are told again.`;
    });
  };

  function draw() {
    if (!m) return h('p', { class: 'quiet' }, 'Loading.');
    const d = m.delivery;
    return [
      h('section', { 'aria-label': 'State' }, h('dl', { class: 'facts' },
        fact('State', state(d.state)), fact('Waits for it', lag(d)), fact('Next try', nextTry(d)), fact('Why', d.last_error ? text(d.last_error, 300) : '–'),
        fact('Took one', age(d.last_success_at)), fact('Address', text(`${m.scheme ?? 'http'}://${m.address}:${m.port}${m.path ?? ''}`)),
        fact('Scope', text(m.scope)), fact('Hears', [m.detections].flat().join(', '), ` of ${m.subjects}`), fact('Format', m.format),
        fact('Signed', m.signed ? 'yes' : 'no'), m.expires_at && fact('Lease ends', age(m.expires_at)), fact('Has heard up to', m.cursor))),
      shell.admin() && h('section', { 'aria-labelledby': 'act' }, h('h2', { id: 'act' }, 'Act'), actions(d)),
      h('section', { 'aria-labelledby': 'tries' }, h('h2', { id: 'tries' }, 'Tries'), triesList()),
    ];
  }

  function actions(d) {
    const off = busy ? { disabled: true } : {};
    return [
      h('div', { class: 'actions' },
        h('button', { onclick: ping, ...off }, 'Ping'),
        d.state !== 'paused' && h('button', { onclick: pause, 'data-key': 'pause', ...off }, 'Pause'),
        d.state === 'paused' && h('form', { onsubmit: resume, 'data-key': 'resume' },
          h('label', {}, 'It hears ', h('select', {}, h('option', { value: 'replay' }, 'all that waited'), h('option', { value: 'latest' }, 'the newest of each'), h('option', { value: 'skip' }, 'nothing of that'))),
          h('button', { type: 'submit', ...off }, 'Resume')),
        h('form', { onsubmit: replay, 'data-key': 'replay' },
          h('label', {}, 'The last ', h('input', { type: 'number', min: 1, max: 525600, value: 60, required: true }), ' minutes'),
          h('button', { type: 'submit', value: 'count', ...off }, 'Count'), h('button', { type: 'submit', value: 'replay', ...off }, 'Replay'))),
      h('p', { role: 'status', class: 'said' }, said),
    ];
  }

  function triesList() {
    const rows = tries.map((t) => row(t.id, age(t.begun_at), subject(t), h('span', { class: `result ${t.result}` }, t.result), t.attempt, t.status ?? t.error_class, timing(t), [text(t.error, 160), t.answer && h('span', { class: 'quiet' }, ' ', text(t.answer, 120))]));
    return [
      h('p', {}, h('label', {}, h('input', { type: 'checkbox', onchange: (e) => { failed = e.target.checked; shell.reload(); } }), ' only those that failed'), omitted > 0 && h('span', { class: 'quiet' }, ` ${omitted} others were not kept.`)),
      table('Tries', ['Begun', 'About', 'Result', 'Try', 'Answer', 'Time', 'Why'], rows, 'It was not tried.'),
    ];
  }

  return { title: 'Monitor', heading: () => (m ? ['Monitor ', label(m)] : 'Monitor'), every: 5000, load, draw };
}

function subject(t) {
  if (t.events > 1) return `${t.events} events, ${t.seq} to ${t.last_seq}`;
  if (!t.subject_id) return `event ${t.seq}`;
  return t.deployment_id ? h('a', { href: deploymentPath(t.deployment_id, t.kind === 'instance' && t.subject_id) }, text(t.subject_id, 60)) : text(t.subject_id, 60);
}

// timing shows the parts of a try as a bar, and in words.
function timing(t) {
  const parts = phases.map((name) => [name, milliseconds(t.phases?.[name])]).filter(([, ms]) => ms > 0);
  const all = Math.max(milliseconds(t.duration), parts.reduce((sum, [, ms]) => sum + ms, 0));
  const words = parts.map(([name, ms]) => `${name.replace('_', ' ')} ${short(ms)}`).join(', ');
  return h('span', { class: 'counts', title: words },
    h('span', { class: 'bar', 'aria-hidden': 'true' }, parts.map(([name, ms]) => h('span', { class: name, width: `${(100 * ms) / all}%` }))),
    h('span', {}, short(all), h('span', { class: 'unseen' }, words && `: ${words}`), t.reused && h('span', { class: 'quiet' }, ' reused')));
}

function short(ms) {
  return ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
}

const units = { h: 3_600_000, m: 60_000, s: 1000, ms: 1, 'µs': 1e-3, us: 1e-3, ns: 1e-6 };

// milliseconds reads a duration such as 1m2.5s.
export function milliseconds(text = '') {
  return [...text.matchAll(/([\d.]+)(h|ms|m|s|µs|us|ns)/g)].reduce((sum, [, n, unit]) => sum + n * units[unit], 0);
}
