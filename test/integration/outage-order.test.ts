import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createLocalSource } from '../../src/adapters/local-backup/local-source.ts';
import { temporaryFolder } from '../support/folders.ts';
import { type OwnKafka, startOwnKafka } from '../support/kafka.ts';
import { outOfOrder } from '../support/key-order.ts';
import { requiring } from '../support/requires.ts';
import { until as untilSo } from '../support/until.ts';
import type { BacklogOrder, BacklogSaid, BacklogSetup } from './backlog-app.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const keys = 12;

requiring('own-kafka', 'the order of keys over an outage of a real Kafka', function () {
  this.timeout(180_000);
  let kafka: OwnKafka;
  before(async () => {
    kafka = await startOwnKafka();
  });
  after(() => kafka.stop());

  /** Events, 400 a second, until `isOver`. Returns how many there were. */
  async function load(svc: StartedSvc, isOver: () => boolean): Promise<number> {
    let count = 0;
    for (const startMs = performance.now(); !isOver(); await sleep(4)) {
      const due = ((performance.now() - startMs) / 1_000) * 400;
      while (count < due) {
        const n = count++;
        void svc.service.producer.publish({ n }, { eventType: 'T', key: `k${n % keys}`, headers: { n } });
      }
    }
    return count;
  }

  async function read(topic: string, count = 0): Promise<{ key: string; turn: number }[]> {
    const records = await kafka.read(topic, { count, timeoutMs: 60_000 });
    return records.map(({ key, headers }) => ({ key: String(key), turn: Number(headers.n) }));
  }

  async function startClient(client: string) {
    const topic = `orders-${client}`;
    await kafka.createTopic(topic, { partitions: 3 });
    const lines: string[] = [];
    const say = (message: string): void => void lines.push(message);
    const svc = startSvc(
      { client, bootstrapServers: kafka.brokers, topic, asyncMode: true },
      {
        logger: { debug() {}, info: say, warn: say, error: say },
        retry: { initialInterval: 100, maxAttempts: 2 },
      },
    );
    return { topic, svc, has: (text: string) => lines.some((line) => line.includes(text)) };
  }

  for (const name of ['kafkajs', 'platformatic'])
    it(`killed for 3 s and started again: every event is there, first seen in the order of its key, with ${name}`, async () => {
      const { topic, svc, has } = await startClient(name);
      let isOver = false;
      const counted = load(svc, () => isOver);
      await sleep(1_500);
      await kafka.kill();
      await sleep(3_000);
      const isBehind = has('new events wait behind earlier events of their partition');
      await kafka.restart();
      assert.ok(isBehind);
      const endMs = performance.now() + 30_000;
      while (!has('events go to the topic again')) {
        assert.ok(performance.now() < endMs, 'events still go to the backup');
        await sleep(50);
      }
      await sleep(500);
      isOver = true;
      const count = await counted;
      await svc.end();
      const records = await read(topic, count);
      assert.deepEqual(outOfOrder(records).slice(0, 5), []);
      assert.equal(new Set(records.map(({ turn }) => turn)).size, count);
    });

  it('of two processes in one folder, both killed, one of them while it drains: all is sent in order by the next one', async () => {
    const topic = 'orders-of-two';
    const backlog = 6_000;
    await kafka.createTopic(topic, { partitions: 3 });
    const backupFolder = temporaryFolder('shared');
    const setup = { brokers: kafka.brokers, topic, backupFolder, firstNumber: 0 };
    const gone = startApp({ ...setup, name: 'gone' });
    const other = startApp({ ...setup, name: 'other' });
    const both = [gone, other];
    for (const app of both) app.tell({ publish: 500 });
    await Promise.all(both.map((app) => app.safe(500)));

    await kafka.kill();
    for (const app of both) app.tell({ publish: backlog });
    await Promise.all(both.map((app) => app.safe(500 + backlog)));
    gone.tell({ publish: backlog });
    gone.child.kill('SIGKILL');
    await gone.killed();
    other.tell('die in drain');
    await kafka.restart();
    other.tell({ publish: 10 * backlog });
    await other.killed();
    const { sent, left } = await linesIn(backupFolder);
    assert.ok(sent > 0 && left > backlog, `${sent} were sent and ${left} left when it was killed`);
    const next = startApp({ ...setup, name: 'other', firstNumber: 1_000_000 });
    next.tell({ publish: 1_000 });
    await next.safe(1_001_000);
    await until(
      'an empty backup',
      () => !readdirSync(backupFolder).some((name) => name.startsWith('segment-')),
    );
    next.tell({ publish: 10 });
    await next.safe(1_001_010);
    next.tell('end');
    await next.ended;

    const records = await read(topic);
    const found = new Set(records.map(({ key, turn }) => `${key} ${turn}`));
    const isThere = (name: string, n: number): boolean => found.has(`${name}-${n % 6} ${n}`);
    const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => from + n);
    const lost = [
      ...numbers(0, gone.safeUpTo).filter((n) => !isThere('gone', n)),
      ...numbers(0, other.safeUpTo).filter((n) => !isThere('other', n)),
      ...numbers(1_000_000, next.safeUpTo).filter((n) => !isThere('other', n)),
    ];
    assert.deepEqual(lost.slice(0, 5), []);
    assert.deepEqual(outOfOrder(records).slice(0, 5), []);
    // The batches that were under way when the draining one, and the other, were killed.
    assert.ok(records.length - found.size <= 2_000, `${records.length - found.size} are there twice`);
  });
});

/** A process that shares the folder of its backup with others. */
function startApp(setup: BacklogSetup) {
  const child = fork(join(import.meta.dirname, 'backlog-app.ts'), [JSON.stringify(setup)]);
  const app = { child, safeUpTo: setup.firstNumber };
  child.on('message', ({ safeUpTo }: BacklogSaid) => {
    app.safeUpTo = safeUpTo;
  });
  const ended = once(child, 'exit');
  return Object.assign(app, {
    tell: (order: BacklogOrder) => void child.send(order),
    safe: (number: number) => until(`${number} events of ${setup.name}`, () => app.safeUpTo >= number),
    async killed() {
      const [, signal] = await ended;
      assert.equal(signal, 'SIGKILL');
    },
    ended,
  });
}

const until = (what: string, isSo: () => boolean): Promise<void> =>
  untilSo(isSo, { limitMs: 60_000, everyMs: 10, say: () => what });

/** Lines of the segments in a folder, by the notes of what is done. */
async function linesIn(folder: string): Promise<{ sent: number; left: number }> {
  const names = readdirSync(folder).filter((name) => /^segment-.*\.ndjson(\.open)?$/.test(name));
  const read = (name: string): string => readFileSync(join(folder, name), 'utf8');
  const lines = names.reduce((sum, name) => sum + read(name).split('\n').length - 1, 0);
  const source = createLocalSource({ directory: folder, now: Date.now });
  await source.open(false);
  const left = (await source.count()) ?? 0;
  await source.close();
  return { sent: lines - left, left };
}
