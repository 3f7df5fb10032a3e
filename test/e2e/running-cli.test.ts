import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import { version } from '../../src/ground/version.ts';
import { temporaryFolder } from '../support/folders.ts';
import { type CommandEnd, runSvc } from '../support/run-svc.ts';
import { plainApp } from './support/apps.ts';
import { hostEnvironment } from './support/run-app.ts';
import { type RunningApp, startApp } from './support/start-app.ts';
import { configOf } from './support/topic-config.ts';

const token = 'a-token-of-some-length';
const main = `
  function order(id) { return { id }; }
  let count = 0;
  setInterval(() => order(++count), 20);`;
const cli = resolve(import.meta.dirname, '../../src/cli/main.ts');

describe('svc status and svc breaker reset', function () {
  this.timeout(60_000);
  let app: RunningApp;
  let url: string;
  /** Where processes say where they are; the working directory of commands, too. */
  let place: string;
  let files: string;

  before(async () => {
    app = await startApp({
      app: plainApp(),
      timeoutMs: 90_000,
      env: { SVC_BROKER_CLIENT: 'memory', MANAGEMENT_SERVER_TOKEN: token },
      files: {
        'svc.config.json': configOf([{ module: './main.mjs', function: 'order', eventType: 'ORDERED' }], {
          service: { name: 'orders', version: '1.4.0' },
        }),
        'main.mjs': main,
      },
    });
    url = `http://${(await app.waitFor(/management on http:\/\/(\S+)\/metrics/))[1]}`;
  });
  after(() => app?.kill('SIGKILL'));
  beforeEach(() => {
    place = temporaryFolder('status');
    files = join(place, `svc-${userInfo().uid}`);
  });

  const env = (more: object = {}) => ({ TMPDIR: place, ...more });
  const svc = (...args: string[]): Promise<CommandEnd> => runSvc(args, { cwd: place, env: env() });
  const says = (pid: number | undefined, fields: object = {}): void => {
    mkdirSync(files, { recursive: true, mode: 0o700 });
    const { hostname: address, port } = new URL(url);
    const document = { pid, port: Number(port), address, tls: false, name: 'orders', version, ...fields };
    writeFileSync(join(files, `${pid}.json`), JSON.stringify(document), { mode: 0o600 });
  };

  it('says what flows, as text and as one JSON document', async () => {
    const { code, stdout, stderr } = await svc('status', '--once', '--json', '--url', url);
    assert.deepEqual([code, stderr], [0, '']);
    const { name, status, events, perSecond, breakers, backlog, ...rest } = JSON.parse(stdout);
    assert.deepEqual([name, rest.version, rest.url, status], ['orders', version, url, 'UP']);
    assert.ok(events.published > 0, stdout);
    assert.ok(perSecond.published > 5 && perSecond.published < 60, stdout);
    assert.deepEqual([events.lost, perSecond.lost, backlog.outboxPending], [0, 0, null]);
    assert.ok(breakers.broker === null || breakers.broker === 'CLOSED', stdout);
    const text = await svc('status', '--once', '--url', new URL(url).host);
    assert.equal(text.code, 0, text.stderr);
    assert.match(text.stdout, /^orders {2}svc \d.*\nhttp.*\n\nhealth {4}UP {2}HEALTHY\n/);
    assert.match(text.stdout, /^published +\d+ +\d/m);
    const long = text.stdout.split('\n').filter((line) => line.length > 40);
    assert.deepEqual(long, []);
  });

  it('finds the one process of this user, and asks which of several is meant', async () => {
    says(app.child.pid);
    // Its process has ended without taking it away, and one is half written.
    says(2 ** 22 + 1);
    writeFileSync(join(files, '1.json'), '{"pid":');
    const one = await svc('status', '--once', '--json');
    assert.deepEqual([one.code, JSON.parse(one.stdout).url], [0, url], one.stderr);
    says(process.pid, { name: 'billing', port: 1 });
    const several = await svc('status', '--once');
    assert.deepEqual([several.code, several.stdout], [2, '']);
    assert.match(several.stderr, /^svc: 2 processes run here, choose one with --pid: /);
    assert.match(several.stderr, new RegExp(`${process.pid} \\(billing\\) on 127.0.0.1:1`));
    const named = await svc('status', '--once', '--json', '--pid', String(app.child.pid));
    assert.equal(JSON.parse(named.stdout).url, url);
    const gone = await svc('status', '--pid', '999999999');
    assert.deepEqual(
      [gone.code, gone.stderr.startsWith('svc: no process 999999999 of this user')],
      [2, true],
    );
  });

  it('takes no word of a folder that others can write to', async () => {
    says(app.child.pid);
    chmodSync(files, 0o777);
    const { code, stderr } = await svc('status', '--once', '--pid', String(app.child.pid));
    assert.deepEqual([code, /no process \d+ of this user/.test(stderr)], [2, true], stderr);
  });

  it('resets the breakers with a token, and only says how they are with --dry-run', async () => {
    const dry = await svc('breaker', 'reset', '--dry-run', '--url', url);
    assert.equal(dry.code, 0, dry.stderr);
    assert.match(dry.stdout, /^broker: .*\noutbox: no breaker in this process\n$/);
    assert.doesNotMatch(dry.stdout, /now/);
    const none = await svc('breaker', 'reset', '--url', url);
    assert.deepEqual([none.code, none.stdout], [1, '']);
    assert.match(none.stderr, /needs a token: give --token-file, or set management\.server\.token/);
    const file = join(place, 'token');
    writeFileSync(file, 'another-token-of-some-length\n');
    const wrong = await svc('breaker', 'reset', '--url', url, '--token-file', file);
    assert.deepEqual([wrong.code, /refuses the token/.test(wrong.stderr)], [1, true], wrong.stderr);
    assert.doesNotMatch(wrong.stderr, /another-token/);
    writeFileSync(file, `${token}\n`);
    const done = await svc('breaker', 'reset', '--json', '--url', url, '--token-file', file);
    assert.equal(done.code, 0, done.stderr);
    const { dryRun, broker, outbox } = JSON.parse(done.stdout);
    assert.deepEqual([dryRun, outbox, broker === null || broker.after === 'CLOSED'], [false, null, true]);
    await app.waitFor(/circuit breaker.*reset|reset.*circuit breaker/i);
    // The token of the configuration does as well.
    const own = await runSvc(['breaker', 'reset', '--url', url], {
      cwd: place,
      env: env({ MANAGEMENT_SERVER_TOKEN: token }),
    });
    assert.equal(own.code, 0, own.stderr);
  });

  for (const [title, args, code, pattern] of [
    [
      'no process',
      ['--url', 'http://127.0.0.1:1'],
      1,
      /no process answers at http:\/\/127\.0\.0\.1:1 \(ECONNREFUSED\)/,
    ],
    ['no URL', ['--url', 'http://'], 2, /--url takes a URL/],
    ['two names', ['--url', 'http://a', '--pid', '1'], 2, /use one of them/],
    ['no token file', ['--token-file', 'gone'], 2, /--token-file cannot be read \(ENOENT\)/],
  ] as const)
    it(`says what is wrong: ${title}`, async () => {
      const end = await svc('status', '--once', ...args);
      assert.deepEqual([end.code, end.stdout], [code, '']);
      assert.match(end.stderr, pattern);
    });

  it('says that another server is no svc, and that a process is of another version', async () => {
    let answers: Readonly<Record<string, string>> = {};
    const server = createServer(({ url: path = '' }, response) => {
      const body = answers[path];
      response.writeHead(body === undefined ? 404 : 200).end(body);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const other = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const nothing = await svc('status', '--once', '--url', other);
    assert.deepEqual([nothing.code, /does not serve health: it is not svc/.test(nothing.stderr)], [1, true]);
    answers = { '/actuator/health/svc': '<p>hello', '/actuator/prometheus': '<p>' };
    const page = await svc('status', '--once', '--url', other);
    assert.deepEqual([page.code, /is not svc/.test(page.stderr)], [1, true]);
    answers = {
      '/actuator/info': '{"svc":{"version":"0.0.9\\u001b[31m"}}',
      '/actuator/health/svc': '{"status":"DOWN","details":{"error":"nobody\\u001b[2J is there"}}',
      '/actuator/prometheus':
        'svc_events_published_total{eventType="a"} 1\nsvc_events_published_total{eventType="b"} 2\n',
    };
    const old = await svc('status', '--once', '--url', other);
    assert.equal(old.code, 1);
    assert.match(old.stderr, /the process runs svc 0\.0\.9.*, this command is of/);
    assert.match(old.stdout, /^health {4}DOWN$/m);
    assert.match(old.stdout, /^published +3 +0$/m);
    assert.match(old.stdout, /^failed +- +-$/m);
    assert.ok(!(old.stdout + old.stderr).includes('\u001b'));
    server.close();
  });

  const live = (...args: string[]) => {
    const child = spawn(process.execPath, [cli, 'status', '--url', url, ...args], {
      cwd: place,
      env: { ...hostEnvironment(), ...env() },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk) => {
      stdout += chunk;
    });
    child.stderr.on('data', (chunk) => {
      stderr += chunk;
    });
    return { child, said: () => ({ stdout, stderr }), ended: once(child, 'close') };
  };

  it('goes on every two seconds, in plain lines without a terminal, until Ctrl-C', async () => {
    for (const args of [[], ['--json']]) {
      const { child, said, ended } = live(...args);
      while (said().stdout.split('\n').length < 3) await once(child.stdout, 'data');
      child.kill('SIGINT');
      assert.deepEqual(await ended, [0, null]);
      const { stdout, stderr } = said();
      assert.equal(stderr, '');
      assert.ok(!stdout.includes('\u001b'));
      const [, second = ''] = stdout.split('\n');
      if (args.length > 0) assert.ok(JSON.parse(second).perSecond.published > 5, second);
      else assert.match(second, /^\d{4}-\S+Z {2}UP HEALTHY {2}published [\d.]+\/s {2}failed 0\/s/);
    }
  });

  it('ends without a word when nobody reads on', async () => {
    const { child, said, ended } = live();
    await once(child.stdout, 'data');
    child.stdout.destroy();
    assert.deepEqual(await ended, [0, null]);
    assert.equal(said().stderr, '');
  });
});
