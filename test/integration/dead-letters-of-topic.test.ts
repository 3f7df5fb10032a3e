import assert from 'node:assert/strict';
import { mkdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs from 'kafkajs';
import type { DeadLettersOfTopic, RecoveryRun } from '../../src/manage/controls.ts';
import { newTopic } from '../contract/broker.ts';
import { temporaryFolder } from '../support/folders.ts';
import { groupIds } from '../support/group-ids.ts';
import { type OwnKafka, startOwnKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

const path = '/actuator/svc/dlq?source=topic';
const token = 'a-token-of-some-length';
const secret = 'jane@example.com';

async function look(svc: StartedSvc, query = ''): Promise<DeadLettersOfTopic> {
  const answer = await fetch(`${await svc.address()}${path}${query}`);
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  assert.ok(!text.includes('jane'), text);
  return JSON.parse(text);
}

/** Each is refused by its topic, and becomes a dead letter that svc itself has written. */
async function makeDeadLetters(svc: StartedSvc, topic: string, count: number): Promise<void> {
  const made = Array.from({ length: count }, (_, n) =>
    svc.service.producer.publish(
      { customer: secret, n },
      { eventType: n % 2 ? 'ODD' : 'EVEN', topic, key: secret },
    ),
  );
  const outcomes = (await Promise.all(made)).map(({ outcome }) => outcome);
  assert.deepEqual(
    outcomes,
    outcomes.map(() => 'dlq'),
  );
}

describe('dead letters of a topic file, over HTTP', function () {
  this.timeout(30_000);

  it('are those that stand there, and none where there is no file', async () => {
    const directory = temporaryFolder('dead');
    const svc = startSvc({ client: 'file', file: { path: directory }, dlqTopic: 'dead' }, { token });
    try {
      const missing = await fetch(`${await svc.address()}${path}`);
      assert.equal(missing.status, 503);
      assert.match(await missing.text(), /there is no topic file/);
      // Nobody writes to that.
      mkdirSync(join(directory, 'orders.ndjson'));
      await makeDeadLetters(svc, 'orders', 5);
      const found = await look(svc, '&type=EVEN');
      assert.deepEqual(
        found.deadLetters.map(({ eventType, originalTopic, offset }) => [eventType, originalTopic, offset]),
        [4, 2, 0].map((offset) => ['EVEN', 'orders', offset]),
      );
      assert.deepEqual([found.topic, found.read, found.unreadable, found.complete], ['dead', 5, 0, true]);

      rmdirSync(join(directory, 'orders.ndjson'));
      const recover = `${await svc.address()}/actuator/svc/dlq/recover`;
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      assert.equal(
        (await fetch(recover, { method: 'POST', headers, body: '{"topic":"orders"}' })).status,
        202,
      );
      const sent = async () => ((await (await fetch(recover)).json()) as { readonly run: RecoveryRun }).run;
      while ((await sent()).state === 'RUNNING') await sleep(20);
      assert.deepEqual([(await sent()).sent, (await look(svc)).deadLetters.length], [5, 5]);
    } finally {
      await svc.end();
    }
  });

  it('are nowhere without a topic for them, and with a broker that is in memory', async () => {
    for (const broker of [
      { client: 'file', file: { path: temporaryFolder('dead') } },
      { client: 'memory', dlqTopic: 'dead' },
    ]) {
      const svc = startSvc(broker);
      try {
        assert.equal((await fetch(`${await svc.address()}${path}`)).status, 404);
      } finally {
        await svc.end();
      }
    }
  });
});

requiring('own-kafka', 'dead letters of a topic of Kafka, over HTTP', function () {
  this.timeout(120_000);
  let kafka: OwnKafka;
  let producer: kafkajs.Producer;
  const running = new Set<StartedSvc>();
  before(async () => {
    kafka = await startOwnKafka();
    producer = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: 0 }).producer();
    await producer.connect();
  });
  after(async () => {
    await producer?.disconnect();
    await kafka?.stop();
  });
  afterEach(async () => {
    for (const svc of running) await svc.end();
    running.clear();
  });
  function begin(broker: object): StartedSvc {
    const svc = startSvc({ bootstrapServers: kafka.brokers, requestTimeoutMs: 2_000, ...broker });
    running.add(svc);
    return svc;
  }
  /** As another writer makes them: with headers, older ones first. */
  const send = (topic: string, messages: kafkajs.Message[], partition = 0) =>
    producer.send({ topic, messages: messages.map((message) => ({ partition, ...message })) });
  const dead = (n: number, eventType: string, atMs: number): kafkajs.Message => ({
    ...{ key: secret, timestamp: String(atMs), value: JSON.stringify({ customer: secret }) },
    headers: { eventId: `${n}`, eventType, originalTopic: 'orders', exceptionType: 'TimeoutException' },
  });

  for (const client of ['kafkajs', 'platformatic'])
    it(`are those that ${client} wrote, from the newest on, and no group remembers it`, async () => {
      const [dlqTopic, small] = [newTopic(), newTopic()];
      await kafka.createTopic(dlqTopic, { partitions: 3 });
      await kafka.createTopic(small, { config: { 'max.message.bytes': '10' } });
      const svc = begin({ client, dlqTopic });
      await makeDeadLetters(svc, small, 40);
      const found = await look(svc);
      assert.deepEqual([found.deadLetters.length, found.read, found.complete], [40, 40, true]);
      const [first] = found.deadLetters;
      assert.deepEqual([first?.failureReason, first?.originalTopic], ['MESSAGE_TOO_LARGE', small]);
      const times = found.deadLetters.map(({ timestamp }) => timestamp);
      assert.deepEqual(times, [...times].sort().reverse());
      const odd = await look(svc, '&type=ODD&limit=7&since=1h');
      assert.deepEqual(
        [odd.deadLetters.map(({ eventType }) => eventType), odd.complete],
        [Array(7).fill('ODD'), false],
      );
      assert.equal((await look(svc, '&reason=TimeoutException')).deadLetters.length, 0);
      const admin = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: 0 }).admin();
      await admin.connect();
      const groups = await groupIds(admin);
      await admin.disconnect();
      // Beside that of the worker ids, which a process that publishes joins sooner or later.
      assert.deepEqual(
        groups.filter((groupId) => groupId !== 'svc-workers'),
        [],
      );
    });

  it('are found behind thousands of others, by what was stored since, and within partitions that are empty', async () => {
    const dlqTopic = newTopic();
    await kafka.createTopic(dlqTopic, { partitions: 3 });
    const nowMs = Date.now();
    await send(dlqTopic, [dead(1, 'RARE', nowMs - 7_200_000)]);
    await send(
      dlqTopic,
      Array.from({ length: 3_000 }, (_, n) => dead(n + 10, 'USUAL', nowMs - 3_600_000 + n)),
    );
    await send(dlqTopic, [dead(2, 'RARE', nowMs)], 2);
    const svc = begin({ client: 'kafkajs', dlqTopic });
    const rare = await look(svc, '&type=RARE');
    assert.deepEqual(
      rare.deadLetters.map(({ eventId, partition }) => [eventId, partition]),
      [
        ['2', 2],
        ['1', 0],
      ],
    );
    assert.deepEqual([rare.read, rare.complete], [3_002, true]);
    const lately = await look(svc, '&type=RARE&since=90m');
    assert.deepEqual([lately.deadLetters.map(({ eventId }) => eventId), lately.read], [['2'], 3_001]);
    const some = await look(svc);
    assert.deepEqual([some.deadLetters.length, some.complete], [200, false]);
    assert.ok(some.read < 500, `${some.read} were looked at`);
  });

  it('are said not to be there while the broker hangs, soon; and are there when it is back', async () => {
    const dlqTopic = newTopic();
    await kafka.createTopic(dlqTopic);
    await send(dlqTopic, [dead(1, 'ONE', Date.now())]);
    const svc = begin({ client: 'kafkajs', dlqTopic });
    assert.equal((await look(svc)).deadLetters.length, 1);
    await kafka.pause();
    try {
      const answer = await fetch(`${await svc.address()}${path}`);
      assert.equal(answer.status, 503);
      assert.match(await answer.text(), /The dead letter topic cannot be read: /);
      // One at a time, and it is still at it or not: nobody waits twice.
      assert.ok([409, 503].includes((await fetch(`${await svc.address()}${path}`)).status));
    } finally {
      await kafka.resume();
    }
    for (const endMs = performance.now() + 60_000; ; await sleep(200)) {
      const { status } = await fetch(`${await svc.address()}${path}`);
      if (status === 200) break;
      assert.ok(performance.now() < endMs, `${status}`);
    }
  });
});
