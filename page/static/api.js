// The API, and who we are to it.
//
// The token lies in sessionStorage: it ends with the tab, and is sent by nobody but this
// page, so that no other one can act in its name, as it could with a cookie.

const place = 'windsock.token';

export const token = {
  get: () => sessionStorage.getItem(place),
  set: (value) => sessionStorage.setItem(place, value),
  forget: () => sessionStorage.removeItem(place),
};

// A Problem is an answer that says no, or that there was none (status 0).
export class Problem extends Error {
  constructor(status, title, detail) {
    super(detail ? `${title}: ${detail}` : title);
    this.status = status;
  }
}

let refused = () => {};

// onRefused sets what is done when the API does not know who asks.
export function onRefused(f) {
  refused = f;
}

export async function request(path, { method = 'GET', headers = {}, body, signal } = {}) {
  headers = { Accept: 'application/json', ...headers };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), cache: 'no-store', credentials: 'omit' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, 'windsock does not answer');
  }
  if (response.ok) return response;
  const { title, detail } = await response.json().catch(() => ({}));
  const problem = new Problem(response.status, title ?? `HTTP ${response.status}`, detail);
  if (response.status === 401) refused(problem);
  throw problem;
}

export async function get(path, query) {
  const response = await request(query ? `${path}?${new URLSearchParams(query)}` : path);
  return response.json();
}

export async function post(path, body) {
  const response = await request(path, { method: 'POST', body });
  return response.json();
}

// path puts ids, in which anything may be, into a path.
export function path(parts, ...ids) {
  return String.raw({ raw: parts }, ...ids.map(encodeURIComponent));
}
