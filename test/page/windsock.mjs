// A windsock that runs, the services that it looks at and a monitor that it calls back.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const binary = process.env.WINDSOCK ?? new URL('../../bin/windsock', import.meta.url).pathname;

export class Windsock {
  constructor(dir) {
    Object.assign(this, { dir, db: join(dir, 'windsock.db'), listen: '127.0.0.1:0', watchers: [] }); // watchers: browsers' contexts, that are to be closed before it ends
  }

  // start starts one whose file declares what it is to know, if that is given.
  static async start(declared) {
    const w = new Windsock(await mkdtemp(join(tmpdir(), 'windsock-page-')));
    w.config = declared ? ['--config', join(w.dir, 'windsock.yaml')] : [];
    if (declared) await writeFile(w.config[1], JSON.stringify(declared)); // which is YAML, too
    await w.start();
    return w;
  }

  // start returns when it is ready, on the address that it had before if it had one.
  async start() {
    this.process = spawn(binary, ['serve', '--listen', this.listen, '--db', this.db, ...this.config], { stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    await new Promise((resolve, reject) => {
      this.process.once('exit', () => reject(new Error(`windsock ended:\n${said}`)));
      this.process.stderr.on('data', (data) => {
        said += data;
        const ready = said.match(/msg=ready.* address=http:\/\/(\S+)/);
        if (ready) resolve((this.listen = ready[1]));
      });
    });
    this.url = `http://${this.listen}`;
  }

  async kill() {
    this.process.kill('SIGKILL');
    await once(this.process, 'exit');
  }

  async end() {
    await Promise.all(this.watchers.map((context) => context.close()));
    await this.kill();
    await rm(this.dir, { recursive: true });
  }

  async call(method, path, body) {
    const response = await fetch(this.url + path, { method, headers: { 'Content-Type': 'application/json' }, body: body && JSON.stringify(body) });
    const answer = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${answer}`);
    return answer && JSON.parse(answer);
  }

  detect(instance, state, reason) {
    return this.call('POST', `/api/monitors/deployment/instance/${encodeURIComponent(instance)}`, { state, reason, source: 'pager' });
  }
}

// A Service answers, or does not, always at the same address.
export class Service {
  constructor(answer = (request, response) => response.end('works\n')) {
    this.answer = answer;
    this.port = 0;
  }

  async start() {
    this.server = createServer(this.answer).listen(this.port, '127.0.0.1');
    await once(this.server, 'listening');
    this.port = this.server.address().port;
    return this;
  }

  async stop() {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }

  get probe() {
    return { type: 'http', target: `http://127.0.0.1:${this.port}/`, interval: '5s', fails: 1, passes: 1 };
  }
}
