import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs from 'kafkajs';
import { loadConfig } from '../../src/config/read/load.ts';
import { createLedger } from '../../src/observe/outcomes.ts';
import { partitionOfKey } from '../../src/publish/broker.ts';
import { createDlqTier } from '../../src/publish/tiers/tiers.ts';
import { tiersOf } from '../../src/start/engine.ts';
import { createKafkajsBroker } from '../adapters/kafka/kafka-clients.ts';
import { newTopic } from '../contract/broker.ts';
import { failedEvent } from '../publish/failed-event.ts';
import { fakeCluster } from '../publish/fake-cluster.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';
import { type CommandEnd, runSvc } from '../support/run-svc.ts';

const main = resolve(import.meta.dirname, '../../src/cli/main.ts');
const count = 600;

requiring('kafka', 'svc dlq on a real Kafka', function () {
  this.timeout(180_000);
  let kafka: TestKafka;
  const id = `${Date.now()}`;
  const [orders, invoices, dead] = [`orders-${id}`, `invoices-${id}`, `dead-${id}`];

  before(async () => {
    kafka = await startKafka();
    for (const topic of [orders, invoices]) await kafka.createTopic(topic, { partitions: 3 });
    await kafka.createTopic(dead, { partitions: 2 });
    const broker = createKafkajsBroker({
      brokers: kafka.brokers,
      clientId: 'test',
      requestTimeoutMs: 10_000,
      connectionTimeoutMs: 3_000,
    });
    const tier = createDlqTier({
      leastTimeMs: 1_000,
      broker,
      topic: dead,
      format: 'recovery',
      partitionOf: (key, partitions) => partitionOfKey(key ?? '', partitions),
      cluster: { isAway: false },
      onSendFailed: () => {},
    });
    const stored = Array.from({ length: count }, (_, n) => {
      const topic = n % 3 === 0 ? invoices : orders;
      return tier.store(failedEvent(String(n), { topic }));
    });
    assert.ok((await Promise.all(stored)).every(Boolean));
    await broker.close(5_000);
  });

  function svc(
    ...args: string[]
  ): Promise<{ code: number; report: Record<string, unknown>; stderr: string }> {
    const all = [main, 'dlq', ...args, '--dlq-topic', dead, '--broker', kafka.brokers.join(','), '--json'];
    return new Promise((done) => {
      execFile(process.execPath, all, { timeout: 90_000, cwd: '/' }, (error, stdout, stderr) =>
        done({
          code: error === null ? 0 : Number(error.code),
          report: stdout === '' ? {} : JSON.parse(stdout),
          stderr,
        }),
      );
    });
  }

  /** As `/metrics` shows it. */
  async function waiting(dlqTopic: string): Promise<number | null> {
    const backup = { localEnabled: false };
    const broker = { client: 'kafkajs', bootstrapServers: kafka.brokers, topic: orders, dlqTopic, backup };
    const { config } = loadConfig({ env: {}, code: { svc: { broker } } });
    const { dlqWaiting: ask, close } = tiersOf(config, {
      ...{ broker: fakeCluster().broker, ledger: createLedger(), alert: { lost() {} } },
      ...{ cluster: { isAway: false, isThere: async () => true, answered() {} } },
    });
    for (let tries = 0; ask() === null && tries < 50; tries++) await sleep(100);
    await close(0);
    return ask();
  }

  it('lists without taking anything away', async () => {
    for (let time = 0; time < 2; time++) {
      const { code, report, stderr } = await svc('list', '--topic', invoices);
      assert.equal(code, 0, stderr);
      assert.deepEqual([report.matched, report.skipped], [count / 3, (count * 2) / 3]);
    }
  });

  it('recovers one topic, then the rest, then nothing: same bytes, key, headers and partition', async () => {
    assert.equal(await waiting(dead), count);
    const first = await svc('recover', '--topic', invoices);
    assert.equal(await waiting(dead), count - count / 3);
    assert.deepEqual([first.code, first.report.sent], [0, count / 3], first.stderr);
    const second = await svc('recover', '--topic', orders, '--topic', invoices);
    assert.deepEqual(
      [second.code, second.report.sent, second.report.skipped],
      [0, (count * 2) / 3, 0],
      second.stderr,
    );
    const third = await svc('recover', '--topic', orders, '--topic', invoices);
    assert.deepEqual([third.code, third.report.sent], [0, 0], third.stderr);
    assert.equal(await waiting(dead), 0);
    assert.equal(await waiting(newTopic()), null);

    const records = [...(await kafka.read(orders)), ...(await kafka.read(invoices))];
    assert.equal(records.length, count);
    for (const { key, headers, value, partition } of records) {
      const { record } = failedEvent(String(headers.eventId));
      assert.equal(value, record.value.toString());
      assert.equal(String(key), record.key);
      assert.deepEqual({ ...headers }, record.headers);
      assert.equal(partition, partitionOfKey(record.key as string, 3));
    }
  });

  for (const client of ['kafkajs', 'platformatic']) {
    it(`${client}: sends to topics of the configuration and of --topic only, makes none, and leaves the others`, async () => {
      const [own, other, letters] = [newTopic(), newTopic(), newTopic()];
      const missing = newTopic();
      for (const topic of [own, other, letters]) await kafka.createTopic(topic);
      const meant = [own, other, missing, letters, '__consumer_offsets'];
      const producer = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: 0 }).producer();
      await producer.connect();
      await producer.send({
        topic: letters,
        messages: meant.map((originalTopic, n) => ({
          value: JSON.stringify({ eventId: `${n}`, originalTopic, originalPayload: '{}' }),
        })),
      });
      await producer.disconnect();
      const folder = temporaryFolder('dlq');
      const broker = { client, bootstrapServers: kafka.brokers, topic: own, dlqTopic: letters };
      writeFileSync(join(folder, 'svc.config.json'), JSON.stringify({ svc: { broker } }));
      const recover = (...args: string[]): Promise<CommandEnd> =>
        runSvc(['dlq', 'recover', ...args], { cwd: folder });
      const noTopic = (topic: string): string =>
        `not sent: 1 event: the configuration has no topic "${topic}". If the events belong there, send them with --topic ${topic}`;

      const dry = await recover('--dry-run');
      assert.ok(dry.stderr.includes(noTopic(other)), dry.stderr);
      const first = await recover();
      assert.equal(first.code, 1);
      assert.match(first.stderr, /: 1 of 5 events sent to their topics$/m);
      for (const topic of [other, missing, '__consumer_offsets'])
        assert.ok(first.stderr.includes(noTopic(topic)), first.stderr);
      assert.ok(first.stderr.includes(`topic "${letters}" is the dead letter topic itself`));

      const named = [other, missing, letters, '__consumer_offsets'].flatMap((topic) => ['--topic', topic]);
      const second = await recover(...named);
      assert.equal(second.code, 1);
      assert.match(second.stderr, /: 1 of 4 events sent to their topics$/m);
      assert.match(second.stderr, new RegExp(`not sent: 1 event: topic "${missing}" does not exist`));
      assert.match(
        second.stderr,
        /topic "__consumer_offsets" is internal to Kafka: clients cannot write to it/,
      );
      assert.ok(second.stderr.includes(`topic "${letters}" is the dead letter topic itself`));

      assert.deepEqual(
        [await kafka.count(own), await kafka.count(other), await kafka.count(letters)],
        [1, 1, 5],
      );
      const admin = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: 0 }).admin();
      await admin.connect();
      assert.ok(!(await admin.listTopics()).includes(missing));
      await admin.disconnect();
    });
  }

  it('a topic that is not there is one line', async () => {
    const all = [main, 'dlq', 'list', '--dlq-topic', 'nothing-here', '--broker', kafka.brokers.join(',')];
    const { code, stderr } = await new Promise<{ code: unknown; stderr: string }>((done) => {
      execFile(process.execPath, all, { timeout: 60_000 }, (error, _, text) =>
        done({ code: error?.code, stderr: text }),
      );
    });
    assert.equal(code, 1);
    assert.match(stderr, /^svc: .*nothing-here.*\n$/);
  });
});
