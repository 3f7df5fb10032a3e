import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { temporaryFolder } from '../../support/folders.ts';
import { plainApp } from '../support/apps.ts';
import { hostEnvironment } from '../support/run-app.ts';
import { type AppOptions, startApp } from '../support/start-app.ts';
import { subject } from '../support/subject.ts';
import { configOf } from '../support/topic-config.ts';

const target = { module: './main.mjs', function: 'order', eventType: 'ORDERED', key: '#id' };
const uuidV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const orders = `function order(id) { return { id }; }`;

let app: string;
before('npm install', function () {
  this.timeout(180_000);
  app = plainApp();
});

interface CommandEnd {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The applications here write to topic files, some of them to a Kafka that does not answer: recovery goes to the files. */
async function svc(folder: string, ...args: string[]): Promise<CommandEnd> {
  const { node } = await subject();
  return new Promise((resolve) => {
    execFile(
      node,
      [join(app, 'node_modules/svc/bin/svc.cjs'), ...args],
      { cwd: folder, env: { ...hostEnvironment(), SVC_BROKER_CLIENT: 'file' }, timeout: 60_000 },
      (error, stdout, stderr) => resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

/** Until the process has the file open. */
async function reads(pid: number, file: string): Promise<void> {
  const descriptors = `/proc/${pid}/fd`;
  const isOpen = (name: string): boolean => {
    try {
      return readlinkSync(join(descriptors, name)) === file;
    } catch {
      return false;
    }
  };
  while (!readdirSync(descriptors).some(isOpen)) await sleep(5);
}

const filesIn = (folder: string): string[] =>
  readdirSync(join(folder, 'dlq-backup')).filter((name) => name.includes('json'));
const topicIn = (
  folder: string,
  topic: string,
): { key: string; headers: object; value: { payload: { id: number } } }[] =>
  readFileSync(join(folder, 'svc-topics', `${topic}.ndjson`), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

describe('backup and its way back', function () {
  this.timeout(90_000);
  let silent: Server;
  let brokers: string;
  before((done) => {
    silent = createServer(() => {}).listen(0, '127.0.0.1', () => {
      brokers = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
      done();
    });
  });
  after(() => silent.close());

  const away = (main: string, idGenerator?: object, format?: string): AppOptions => ({
    app,
    env: { KAFKA_BROKERS: brokers },
    files: {
      'svc.config.json': configOf([{ ...target, headers: { tenant: "'acme & söhne'" } }], {
        'id-generator': idGenerator,
        broker: { backup: { format } },
      }),
      'main.mjs': `${orders}\n${main}`,
    },
  });

  for (const [count, what, type, id, format] of [
    [3, 'files', 'snowflake', /^\d{18,19}$/, 'event'],
    [300, 'a segment', 'snowflake', /^\d{18,19}$/, 'event'],
    [3, 'a journal', 'snowflake', /^\d{18,19}$/, 'journal'],
    [3, 'files', 'uuidv7', uuidV7, 'event'],
    [300, 'a journal', 'uuidv7', uuidV7, 'journal'],
  ] as const) {
    const fileCount = what === 'files' ? count : 1;

    it(`process.exit() while the cluster hangs: ${count} events (${type}) in ${what}, restored with svc backup`, async () => {
      const running = await startApp(
        away(
          `setTimeout(() => { for (let id = 0; id < ${count}; id++) order(id); process.exit(0); }, 300);`,
          { type },
          format,
        ),
      );
      const end = await running.ended;
      const { folder } = running;
      assert.match(end.stderr, new RegExp(`wrote the rest to the backup events=${count}\\b`));
      assert.equal(filesIn(folder).length, fileCount);
      assert.equal(statSync(join(folder, 'dlq-backup')).mode & 0o777, 0o700);

      const list = await svc(folder, 'backup', 'list', '--json');
      assert.equal(list.code, 0, list.stderr);
      const { events } = JSON.parse(list.stdout);
      assert.equal(events.length, count);
      assert.match(events[0].eventId, id);
      if (what === 'files') assert.ok(filesIn(folder).includes(`${events[0].eventId}.json`));
      assert.deepEqual([events[0].eventType, events[0].topic], ['ORDERED', 'events']);

      const dry = await svc(folder, 'backup', 'restore', '--dry-run');
      assert.equal(dry.stdout.split('\n').length, count + 2);
      assert.equal(filesIn(folder).length, fileCount);

      const restored = await svc(folder, 'backup', 'restore');
      assert.equal(restored.code, 0, restored.stderr);
      assert.match(restored.stderr, new RegExp(`${count} of ${count} events sent`));
      const records = topicIn(folder, 'events');
      assert.deepEqual(
        records.map(({ value }) => value.payload.id),
        Array.from({ length: count }, (_, id) => id),
      );
      assert.deepEqual(
        records.map(({ key }) => key),
        Array.from({ length: count }, (_, id) => String(id)),
      );
      assert.deepEqual(Object.keys(records[0]?.headers ?? {}), [
        'eventId',
        'eventType',
        'content-type',
        'traceparent',
        'tenant',
      ]);
      assert.ok(records.every(({ headers }) => (headers as { tenant?: string }).tenant === 'acme & söhne'));
      assert.deepEqual(filesIn(folder), []);

      const again = await svc(folder, 'backup', 'restore', '--json');
      assert.deepEqual([JSON.parse(again.stdout).sent, topicIn(folder, 'events').length], [0, count]);
    });
  }

  it('a running process empties its backup by itself when the broker is back', async () => {
    // A file where the folder of the topics has to be: the broker of this test is away until it is removed.
    const running = await startApp({
      app,
      timeoutMs: 60_000,
      files: {
        'svc.config.json': configOf([target]),
        'svc-topics': 'in the way',
        'main.mjs': `${orders}
          import { rmSync } from 'node:fs';
          order(1); order(2);
          setTimeout(() => rmSync('svc-topics'), 3000);
          setInterval(() => {}, 1000);`,
      },
    });
    await running.waitFor(/event kept in the backup/);
    await new Promise((resolve) => setTimeout(resolve, 500));
    // While it runs, its events stand in its journal.
    assert.match(filesIn(running.folder).join(), /^segment-[^,]*\.ndjson\.open$/);
    const [, metrics] = await running.waitFor(/management on (http:\S+\/metrics)/);
    const backup = async (): Promise<Record<string, number>> => {
      const text = await (await fetch(metrics as string)).text();
      const values = [...text.matchAll(/^svc_backup_(events|files|drained_total) (\d+)$/gm)];
      return Object.fromEntries(values.map(([, name, value]) => [name, Number(value)]));
    };
    assert.deepEqual(await backup(), { events: 2, files: 1, drained_total: 0 });
    await running.waitFor(/events of the backup were sent to their topics events=2/);
    assert.deepEqual(filesIn(running.folder), []);
    for (const end = Date.now() + 5_000; (await backup()).events !== 0; )
      assert.ok(Date.now() < end, 'not recounted');
    assert.deepEqual(await backup(), { events: 0, files: 0, drained_total: 2 });
    const end = await running.kill('SIGTERM');
    assert.deepEqual(
      end.topics.events?.map(({ value }) => value.payload.id),
      [1, 2],
    );
  });

  // Their topic has a name that Kafka takes, and no file system: 256 characters with its ending.
  it('dead letters of a file topic: listed, recovered by type, and not a second time', async () => {
    const running = await startApp({
      app,
      files: {
        'svc.config.json': configOf([], {
          broker: { topic: 'orders', 'dlq-topic': 'dead', 'dlq-format': 'recovery' },
        }),
        'main.mjs': `
          import { publish } from 'svc';
          for (let id = 0; id < 4; id++) {
            const { outcome } = await publish({ id }, { eventType: id % 2 ? 'ODD' : 'EVEN', topic: 'x'.repeat(249), key: 'k' + id });
            console.log(outcome);
          }`,
      },
    });
    const end = await running.ended;
    assert.equal(end.stdout, 'dlq\n'.repeat(4), end.stderr);
    const { folder } = running;
    const list = await svc(folder, 'dlq', 'list', '--type', 'ODD');
    assert.equal(list.stdout.match(/ ODD +x{249} /g)?.length, 2);
    const notOurs = await svc(folder, 'dlq', 'recover', '--type', 'ODD');
    assert.equal(notOurs.code, 1);
    assert.match(notOurs.stderr, /not sent: 2 events: the configuration has no topic "x{249}"/);
    const refused = await svc(folder, 'dlq', 'recover', '--type', 'ODD', '--topic', 'x'.repeat(249));
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /longer than 248 characters/);
    writeFileSync(
      join(folder, 'svc-topics/dead.ndjson'),
      readFileSync(join(folder, 'svc-topics/dead.ndjson'), 'utf8').replaceAll('x'.repeat(249), 'orders'),
    );
    const odd = await svc(folder, 'dlq', 'recover', '--type', 'ODD');
    assert.match(odd.stderr, /2 of 2 events sent to their topics, 2 left out by the filters/);
    const rest = await svc(folder, 'dlq', 'recover', '--json');
    assert.deepEqual([JSON.parse(rest.stdout).sent, JSON.parse(rest.stdout).skipped], [2, 0]);
    const none = await svc(folder, 'dlq', 'recover', '--json');
    assert.equal(JSON.parse(none.stdout).sent, 0);
    assert.deepEqual(
      topicIn(folder, 'orders').map(({ key, value }) => [key, value.payload.id]),
      [
        ['k1', 1],
        ['k3', 3],
        ['k0', 0],
        ['k2', 2],
      ],
    );
  });

  it('a list ends at once on Ctrl-C, whatever lies in the folder', async () => {
    const folder = temporaryFolder('list');
    const segment = join(folder, 'dlq-backup', 'segment-1795299716250-7-00000001.ndjson');
    mkdirSync(join(folder, 'dlq-backup'), { mode: 0o700 });
    writeFileSync(segment, '');
    // As large as one may be: reading it takes longer.
    truncateSync(segment, 1024 ** 3);
    const { node } = await subject();
    const command = [join(app, 'node_modules/svc/bin/svc.cjs'), 'backup', 'list'];
    const env = { ...hostEnvironment(), SVC_BROKER_CLIENT: 'file' };
    const list = spawn(node, command, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    list.stderr.on('data', (text) => {
      said += text;
    });
    await reads(list.pid as number, segment);
    const sinceMs = performance.now();
    list.kill('SIGINT');
    const [code] = await once(list, 'close');
    assert.deepEqual([code, said], [1, 'svc: stopped on request: there may be more\n']);
    assert.ok(performance.now() - sinceMs < 5_000);
  });

  it('wrong use is told, with exit code 2', async () => {
    const running = await startApp(away(''));
    await running.ended;
    const { folder } = running;
    for (const [args, says] of [
      [['dlq', 'list'], 'no dead letter topic'],
      [['dlq', 'drop'], "unknown command 'drop'; see npx --no svc dlq --help"],
      [['dlq'], 'dlq takes list, recover; see npx --no svc dlq --help'],
      [['backup', 'restore', '--rate', '0'], '--rate takes'],
      [['backup', 'list', '--since', 'soon'], '--since takes a time'],
      [['backup', 'list', '--s3'], 'no bucket'],
      [['backup', 'restore', '--s3', '--file', '1.json'], '--s3 is for the bucket'],
      [['backup', 'list', '--config', 'gone.yaml'], 'gone.yaml: does not exist'],
      [['backup', 'list', '--nonsense'], "unknown option '--nonsense'"],
    ] as const) {
      const { code, stderr } = await svc(folder, ...args);
      assert.equal(code, 2, args.join(' '));
      assert.ok(stderr.includes(says), stderr);
    }
  });
});
