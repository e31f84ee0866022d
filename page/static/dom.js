// What is shown is made as a tree of elements by pure functions, and the document is then
// made equal to it. Text is only ever set as text.

const SVG = 'http://www.w3.org/2000/svg';

// h makes an element. Names that begin with "on" are handlers; false and null are absent.
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === false || value == null) continue;
    if (name.startsWith('on')) element[name] = value;
    else if (name === 'width' && element.nodeName === 'SPAN') element.style.width = value; // the policy allows no other way
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((c) => c !== false && c != null));
  return element;
}

const handlers = ['onclick', 'onsubmit', 'onchange'];

// morph makes an element of the document equal to another one. What is the same stays, and
// with it the focus, what is selected, and what somebody typed.
export function morph(old, now) {
  if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName || old.dataset?.key !== now.dataset?.key) {
    old.replaceWith(now);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== now.data) old.data = now.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!now.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of now.attributes) {
    if (name !== 'style' && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style && old.style.width !== now.style.width) old.style.width = now.style.width;
  for (const name of handlers) old[name] = now[name];
  morphChildren(old, now);
}

// Children that have a key stay with it wherever they move.
function morphChildren(old, now) {
  const keyed = new Map();
  for (const child of old.children) {
    if (child.dataset.key) keyed.set(child.dataset.key, child);
  }
  let at = old.firstChild;
  for (const want of [...now.childNodes]) {
    const known = want.dataset?.key && keyed.get(want.dataset.key);
    if (known && known !== at) old.insertBefore(known, at);
    const here = known || at;
    if (!here || (!known && here.dataset?.key)) {
      old.insertBefore(want, at);
      continue;
    }
    at = here.nextSibling;
    morph(here, want);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

const clipped = 96;

// text shows what others chose: on its own as to direction, what cannot be seen made
// visible, and cut, with all of it in the title.
export function text(value, most = clipped) {
  const all = visible(String(value ?? ''));
  const short = [...all.slice(0, 2 * most)];
  if (short.length <= most && all.length <= 2 * most) return h('bdi', {}, all);
  return h('bdi', { title: all.slice(0, 4096) }, short.slice(0, most).join('') + '…');
}

export function visible(value) {
  return value.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => (c === '\n' ? ' ' : `⟨${c.codePointAt(0).toString(16).toUpperCase()}⟩`));
}

// state shows a state by its word, and by a mark beside it.
export function state(word) {
  return h('span', { class: `state ${word}` }, word);
}

// age shows how long ago a time was, or how long until then; tick keeps it true.
export function age(time, prefix = '') {
  if (!time) return '–';
  return h('time', { datetime: time, title: new Date(time).toLocaleString(), 'data-prefix': prefix }, prefix + since(time));
}

export function tick() {
  for (const element of document.querySelectorAll('main time')) {
    const now = element.dataset.prefix + since(element.dateTime);
    if (element.textContent !== now) element.textContent = now;
  }
}

function since(time) {
  const seconds = Math.round((Date.now() - Date.parse(time)) / 1000);
  return seconds < 0 ? `in ${span(-seconds)}` : `${span(seconds)} ago`;
}

export function span(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

// table shows rows of cells under heads; what names a row is its head.
export function table(caption, heads, rows, none) {
  if (rows.length === 0) return h('p', { class: 'quiet' }, none);
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
    h('table', {},
      h('caption', { class: 'unseen' }, caption),
      h('thead', {}, h('tr', {}, heads.map((head) => h('th', { scope: 'col' }, head)))),
      h('tbody', {}, rows)));
}

export function row(key, first, ...cells) {
  return h('tr', { 'data-key': key }, h('th', { scope: 'row' }, first), cells.map((cell) => h('td', {}, cell)));
}

// fact is one of a list of facts.
export function fact(name, ...value) {
  return h('div', {}, h('dt', {}, name), h('dd', {}, value));
}

// bar shows how many are in which state, in words as well.
export function bar(counts) {
  const states = Object.entries(counts ?? {}).filter(([, n]) => n > 0).sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
  const all = states.reduce((sum, [, n]) => sum + n, 0);
  if (all === 0) return h('span', { class: 'quiet' }, 'none');
  const words = states.map(([word, n]) => `${number(n)} ${word}`).join(', ');
  return h('span', { class: 'counts' },
    h('span', { class: 'bar', 'aria-hidden': 'true' }, states.map(([word, n]) => h('span', { class: word, width: `${(100 * n) / all}%` }))),
    h('span', {}, words));
}

// order is that of states, the worst first.
export const order = ['failed', 'degraded', 'gone', 'stopped', 'suspended', 'stopping', 'starting', 'unknown', 'running'];

export function number(n) {
  return n.toLocaleString('en');
}

// deploymentPath is where a deployment is shown, or one of its instances.
export function deploymentPath(id, instance) {
  return `#/deployments/${encodeURIComponent(id)}${instance ? `?instance=${encodeURIComponent(instance)}` : ''}`;
}
