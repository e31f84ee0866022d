// A graph of components, drawn from left to right: what comes after another stands right
// of it. Each is put beside those before it, so that few lines cross.

import { h, span, svg, visible } from './dom.js';

const box = { width: 168, height: 40, across: 56, down: 14 };
const most = 300; // components that can be looked at as a drawing

// layers returns the components in columns; a cycle, which no plan has, ends up in the last.
export function layers(components) {
  const byName = new Map(components.map((c) => [c.name, c]));
  const column = new Map();
  const depth = (c, path) => {
    if (column.has(c.name)) return column.get(c.name);
    if (path.has(c.name)) return 0;
    path.add(c.name);
    const before = c.after.map((name) => byName.get(name)).filter(Boolean);
    const d = Math.max(-1, ...before.map((b) => depth(b, path))) + 1;
    path.delete(c.name);
    column.set(c.name, d);
    return d;
  };
  const columns = [];
  for (const c of components) (columns[depth(c, new Set())] ??= []).push(c);
  const at = new Map();
  for (const list of columns) {
    const middle = (c) => {
      const places = c.after.map((name) => at.get(name)).filter((y) => y !== undefined);
      return places.length > 0 ? places.reduce((sum, y) => sum + y, 0) / places.length : 0;
    };
    list.sort((a, b) => middle(a) - middle(b) || (a.name < b.name ? -1 : 1));
    list.forEach((c, i) => at.set(c.name, i));
  }
  return columns;
}

export function graph({ components, critical_path: critical, seconds }) {
  if (components.length > most) return h('p', { class: 'quiet' }, `${components.length} components are too many to draw; the table has them all.`);
  const columns = layers(components);
  const place = new Map();
  columns.forEach((list, x) => list.forEach((c, y) => place.set(c.name, { x: 4 + x * (box.width + box.across), y: 4 + y * (box.height + box.down) })));
  const width = 8 + columns.length * (box.width + box.across) - box.across;
  const height = 8 + Math.max(...columns.map((list) => list.length)) * (box.height + box.down) - box.down;
  const onPath = new Set(critical);
  const lines = components.flatMap((c) => c.after.filter((name) => place.has(name)).map((name) => edge(place.get(name), place.get(c.name), onPath.has(name) && onPath.has(c.name))));
  return h('figure', {},
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Graph of the components' },
      svg('svg', { class: 'graph', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${components.length} components; the table below has them, too` }, lines, components.map((c) => node(c, place.get(c.name), onPath)))),
    critical.length > 1 && h('figcaption', { class: 'quiet' }, `The longest chain, drawn bold, takes ${span(seconds)}.`));
}

function edge(from, to, bold) {
  const [x1, y1, x2, y2] = [from.x + box.width, from.y + box.height / 2, to.x, to.y + box.height / 2];
  const bend = (x2 - x1) / 2;
  return svg('path', { class: bold ? 'edge critical' : 'edge', d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
}

function node(c, at, onPath) {
  const short = (value) => {
    const letters = [...visible(value)];
    return letters.length > 22 ? `${letters.slice(0, 21).join('')}…` : letters.join('');
  };
  return svg('g', { class: `node ${c.state}${onPath.has(c.name) ? ' critical' : ''}`, transform: `translate(${at.x} ${at.y})`, 'data-key': c.name },
    svg('title', {}, `${visible(c.name).slice(0, 500)}: ${c.state}${c.reason ? `, ${visible(c.reason).slice(0, 500)}` : ''}`),
    svg('rect', { width: box.width, height: box.height, rx: 3 }),
    svg('text', { x: 9, y: 17 }, short(c.name)),
    svg('text', { x: 9, y: 32, class: 'quiet' }, c.state));
}
