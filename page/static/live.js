// The log as it happens, by server-sent events. They are read with fetch, as the browser's
// own reader sends no token.

import { get, request } from './api.js';

const silence = 40_000; // ms; there is a heartbeat every 15 s
const longest = 15_000; // ms between two tries

// follow calls events with all that came at once, and link with how the stream is: 'live',
// 'away', 'refused' or 'hidden'. It goes on where it was after each interruption; where it
// cannot, link is told that what was shown has to be loaded anew. While the page is hidden
// it keeps no connection, of which a browser has six.
export function follow(events, link) {
  let last; // the id of the newest event that was told
  let failures = 0;
  let connection; // an AbortController
  let timer;

  async function connect() {
    clearTimeout(timer);
    if (document.hidden) return link('hidden');
    const mine = (connection = new AbortController());
    try {
      last ??= (await get('/api/summary')).seq;
      if (mine !== connection) return;
      const response = await request('/api/events', { headers: { Accept: 'text/event-stream', 'Last-Event-ID': last }, signal: mine.signal });
      failures = 0;
      link('live');
      await read(response.body, mine);
    } catch (error) {
      if (mine !== connection) return; // another one took its place
      if (error.status === 401 || error.status === 403) return link('refused', error);
      if (error.status === 400 || error.status === 410) last = undefined; // the log is another one, or shorter
    }
    if (mine === connection) retry();
  }

  function retry() {
    if (document.hidden) return link('hidden');
    const pause = failures === 0 ? 200 : Math.min(longest, 500 * 2 ** failures);
    const wait = pause * (0.75 + Math.random() / 2);
    if (failures++ > 0) link('away', Date.now() + wait);
    timer = setTimeout(connect, wait);
  }

  async function read(body, mine) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const watch = setTimeout(() => mine.abort(), silence);
      const { done, value } = await reader.read().finally(() => clearTimeout(watch));
      if (done) return;
      const frames = (rest + value).split('\n\n');
      rest = frames.pop();
      const batch = frames.map(parse).filter(Boolean);
      if (batch.length > 0) events(batch);
    }
  }

  function parse(frame) {
    let data;
    for (const line of frame.split('\n')) {
      if (line.startsWith('id: ')) last = line.slice(4);
      if (line.startsWith('data: ')) data = line.slice(6);
    }
    return data && JSON.parse(data);
  }

  function begin() {
    connection?.abort();
    connection = undefined;
    connect();
  }

  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) return begin();
    clearTimeout(timer);
    connection?.abort();
    connection = undefined;
    link('hidden');
  });
  connect();
  return begin;
}

// calm has f run at once, and then no more often than every so many ms, but in the end.
export function calm(f, every) {
  let next = 0;
  let timer;
  return () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = undefined;
      next = Date.now() + every;
      f();
    }, Math.max(0, next - Date.now()));
  };
}
