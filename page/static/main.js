// The page: which view is shown, and when it is drawn.
//
// A view is what its function returns for the parts of the address: title, load (asks the
// API), draw (returns the elements) and, as far as it wants them, events (what happened)
// and every (ms from one load to the next).

import { get, onRefused, token } from './api.js';
import { deployment } from './deployment.js';
import { deployments } from './deployments.js';
import { h, morph, span, tick, visible } from './dom.js';
import { fleet } from './fleet.js';
import { calm, follow } from './live.js';
import { monitor } from './monitor.js';
import { monitors } from './monitors.js';
import { providers } from './providers.js';
import { replicas } from './replicas.js';
import { signin } from './signin.js';

// By the first part of the address: the view, and the one of a single thing.
const views = { '': [fleet], deployments: [deployments, deployment], monitors: [monitors, monitor], providers: [providers], replicas: [replicas] };

const main = document.getElementById('main');
const away = document.getElementById('away');
const link = document.getElementById('link');

let view;
let timer;
let loading; // the view that is,
let overdue; // and is to be once more
let trouble; // why the view could not be loaded
let me = { role: 'read' };
let asked; // to sign in
let reconnect = () => {};

const shell = { paint: frame(), admin: () => me.role === 'admin', say, reload: () => load() };

// frame returns what has the view drawn once before the next frame is shown.
function frame() {
  let wanted = false;
  return () => {
    if (wanted) return;
    wanted = true;
    const draw = () => {
      if (!wanted) return;
      wanted = false;
      paint();
    };
    requestAnimationFrame(draw);
    setTimeout(draw, 500); // where no frames are shown
  };
}

function paint() {
  const shown = asked ? signin(asked, signedIn) : view.draw();
  const problem = !asked && trouble && h('p', { class: 'trouble', role: 'alert' }, trouble);
  morph(main, h('main', { id: 'main', tabindex: -1, 'aria-busy': loading ? 'true' : 'false' }, h('h1', {}, asked ? 'Sign in' : view.heading?.() ?? view.title), problem, shown));
  document.title = `${visible(asked ? 'Sign in' : view.title).slice(0, 100)} · windsock`;
}

// route shows the view that the address names.
function route() {
  const [address, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, ...parts] = address.split('/').map(decode);
  const [all, one = all] = Object.hasOwn(views, name) ? views[name] : views[''];
  const first = !view;
  view = (parts[0] ? one : all)(parts, new URLSearchParams(query), shell);
  trouble = undefined;
  for (const a of document.querySelectorAll('#nav a')) {
    if (a.hash.replace(/^#\/?/, '') === name) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  main.replaceChildren();
  paint();
  if (!first) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  load();
  again();
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// load asks for what the view shows. While that fails it goes on showing what it has: the
// stream tries again, and has all loaded once it is back.
async function load() {
  const mine = view;
  if (loading === mine) {
    overdue = true;
    return;
  }
  loading = mine;
  overdue = false;
  try {
    await mine.load();
    if (mine === view) trouble = undefined;
  } catch (error) {
    if (mine === view && error.status !== 401) trouble = error.status === 0 ? undefined : error.message;
    if (error.status === undefined) throw error;
  } finally {
    if (loading === mine) loading = undefined;
    if (mine === view) shell.paint();
  }
  if (overdue && mine === view) load();
}

// again has what the log does not tell be asked for anew, over and over.
function again() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (link.className === 'live' && !asked) load();
    again();
  }, view.every ?? 60_000);
}

function happened(events) {
  view.events?.(events);
  announce(events);
  shell.paint();
}

// announce reads out which deployments changed, at most every few seconds.
const announce = (() => {
  let changed = new Map();
  const speak = calm(() => {
    const list = [...changed].map(([id, word]) => `${visible(id).slice(0, 60)} is ${word}`);
    changed = new Map();
    say(list.length > 3 ? `${list.slice(0, 3).join(', ')} and ${list.length - 3} more` : list.join(', '));
  }, 5000);
  return (events) => {
    for (const e of events) {
      if (e.type === 'deployment.state') changed.set(e.subject_id, e.observed_state);
    }
    if (changed.size > 0) speak();
  };
})();

function say(words) {
  document.getElementById('news').textContent = words;
}

let retryAt;

async function linked(how, detail) {
  const was = link.className;
  link.className = how;
  link.textContent = { live: 'Live', away: 'Not connected', hidden: 'Paused', refused: 'Not signed in' }[how];
  away.hidden = how !== 'away';
  retryAt = how === 'away' ? detail : undefined;
  countDown();
  if (how === 'refused') ask(detail);
  if (how !== 'live' || was === 'live') return;
  await whoami();
  load();
}

function countDown() {
  if (!retryAt) return;
  const seconds = Math.max(0, (retryAt - Date.now()) / 1000);
  const words = `windsock does not answer; what is shown is what was known. Next try in ${span(Math.ceil(seconds))}.`;
  if (seconds > 0.5 || away.textContent === '') away.textContent = words;
}

async function whoami() {
  try {
    me = await get('/api/whoami');
  } catch {
    return;
  }
  const out = token.get() && h('button', { onclick: signOut }, 'Sign out');
  document.getElementById('who').replaceChildren(...[me.name && h('bdi', {}, visible(me.name).slice(0, 40)), me.role !== 'admin' && ` may ${me.role} `, out].filter(Boolean));
}

function ask(error) {
  if (asked) return;
  asked = token.get() ? error.message : ' '; // why; the first time there is no need to say
  paint();
  document.querySelector('main input')?.focus();
}

function signedIn(value) {
  token.set(value);
  asked = undefined;
  paint();
  reconnect();
}

function signOut() {
  token.forget();
  document.getElementById('who').replaceChildren();
  asked = ' ';
  main.replaceChildren();
  paint();
  reconnect();
}

document.getElementById('find').onsubmit = async (event) => {
  event.preventDefault();
  const field = event.target.querySelector('input');
  const id = field.value.trim();
  if (!id) return;
  try {
    const instance = await get(`/api/instances/${encodeURIComponent(id)}`).catch(() => undefined);
    const path = instance ? `${encodeURIComponent(instance.deployment_id)}?instance=${encodeURIComponent(instance.id)}` : encodeURIComponent(id);
    location.hash = `#/deployments/${path}`;
    field.value = '';
  } catch (error) {
    say(error.message);
  }
};

document.querySelector('.skip').onclick = (event) => {
  event.preventDefault(); // or the address would be another one
  main.focus();
};

onRefused(ask);
addEventListener('hashchange', route);
setInterval(() => (tick(), countDown()), 1000);
route();
reconnect = follow(happened, linked);
