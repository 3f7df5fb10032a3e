import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { backupEvent, backupIn, freshPath, namesIn } from '../adapters/local-backup/backup-folder.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';
import { runSvc } from '../support/run-svc.ts';

const main = resolve(import.meta.dirname, '../../src/cli/main.ts');

/** Files first, the rest in a segment. */
async function fill(directory: string, topic: string, count: number): Promise<void> {
  const backup = backupIn(directory, { maxFiles: 10 });
  const event = (n: number) => backupEvent(String(1_000 + n), { topic, key: `k${n % 7}` });
  for (let n = 0; n < 10; n++) await backup.store(event(n));
  await Promise.all(Array.from({ length: count - 10 }, (_, n) => backup.store(event(n + 10))));
  await backup.close(5_000);
}

requiring('kafka', 'svc backup restore to a real Kafka', function () {
  this.timeout(180_000);
  let kafka: TestKafka;
  let broker: string[];

  before(async () => {
    kafka = await startKafka();
    broker = ['--broker', kafka.brokers.join(',')];
  });

  async function topicOf(name: string): Promise<string> {
    const topic = `${name}-${Date.now()}`;
    await kafka.createTopic(topic, { partitions: 3 });
    return topic;
  }

  for (const client of ['kafkajs', 'platformatic']) {
    it(`${client}: sends each event once, in the order of its key, and a second run sends nothing`, async () => {
      const directory = freshPath();
      const topic = await topicOf(client);
      await fill(directory, topic, 1_200);
      const env = { SVC_BROKER_CLIENT: client };
      const args = ['backup', 'restore', '--dir', directory, '--topic', topic, ...broker, '--json'];
      const first = await runSvc(args, { cwd: '/', env });
      assert.deepEqual([first.code, first.stderr], [0, '']);
      assert.equal(JSON.parse(first.stdout).sent, 1_200);
      assert.deepEqual(namesIn(directory), []);
      const second = await runSvc(args, { cwd: '/', env });
      assert.deepEqual([second.code, JSON.parse(second.stdout).sent], [0, 0]);
      const records = await kafka.read(topic, { timeoutMs: 60_000 });
      assert.equal(records.length, 1_200);
      const last = new Map<string, number>();
      for (const { key, headers } of records) {
        const id = Number(headers.eventId);
        assert.ok(id > (last.get(String(key)) ?? 0), `${id} behind ${last.get(String(key))}`);
        last.set(String(key), id);
      }
    });
  }

  it('kill -9 in the middle: the next run goes on, and repeats one batch at most', async () => {
    const directory = freshPath();
    const topic = await topicOf('killed');
    await fill(directory, topic, 600);
    const args = ['backup', 'restore', '--dir', directory, '--topic', topic, ...broker];
    const running = spawn(process.execPath, [main, ...args, '--rate', '100'], { cwd: '/', stdio: 'ignore' });
    const isUnderWay = (): boolean => readdirSync(directory).some((name) => name.endsWith('.done'));
    for (const end = Date.now() + 30_000; !isUnderWay(); await sleep(20)) assert.ok(Date.now() < end);
    running.kill('SIGKILL');
    await new Promise((ended) => running.once('exit', ended));
    const before = await kafka.count(topic);
    assert.ok(before < 600, 'all was sent: the test shows nothing');

    const rest = await runSvc([...args, '--json'], { cwd: '/' });
    assert.equal(rest.code, 0, rest.stderr);
    const records = await kafka.read(topic, { timeoutMs: 60_000 });
    assert.equal(new Set(records.map(({ headers }) => headers.eventId)).size, 600);
    assert.ok(records.length <= 700, String(records.length));
    assert.deepEqual(namesIn(directory), []);
    assert.ok(existsSync(join(directory, 'recovered')));
  });

  it('no Kafka there: one line that says so, and everything stays', async () => {
    const directory = freshPath();
    await fill(directory, 'nowhere', 20);
    const names = namesIn(directory);
    const args = ['backup', 'restore', '--dir', directory, '--topic', 'nowhere', '--broker', '127.0.0.1:1'];
    const end = await runSvc(args, { cwd: '/' });
    assert.equal(end.code, 1);
    assert.match(end.stderr, /0 of 20 events sent/);
    assert.match(end.stderr, /cannot reach Kafka at 127\.0\.0\.1:1 \(ECONNREFUSED\)/);
    assert.match(end.stderr, /stopped: the broker is unreachable\. Run the command again/);
    assert.deepEqual(namesIn(directory), names);
  });
});
