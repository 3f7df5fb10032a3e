import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs from 'kafkajs';
import type { RecoveryRun } from '../../src/manage/controls.ts';
import { newTopic } from '../contract/broker.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

const token = 'a-token-of-some-length';
const [recover, drain] = ['/actuator/svc/dlq/recover', '/actuator/svc/backup/drain'];

requiring('kafka', 'recoveries that are asked for over HTTP', function () {
  this.timeout(180_000);
  let kafka: TestKafka;
  const running = new Set<StartedSvc>();
  before(async () => {
    kafka = await startKafka();
  });
  afterEach(async () => {
    for (const svc of running) await svc.end();
    running.clear();
  });

  function begin(broker: object): StartedSvc {
    const given = { client: 'kafkajs', bootstrapServers: kafka.brokers, ...broker };
    const svc = startSvc(given, { token });
    running.add(svc);
    return svc;
  }
  async function end(svc: StartedSvc): Promise<void> {
    running.delete(svc);
    await svc.end();
  }
  async function post(svc: StartedSvc, path: string, body: object, given = token): Promise<Response> {
    const authorization = given === '' ? {} : { authorization: `Bearer ${given}` };
    return fetch(`${await svc.address()}${path}`, {
      ...{ method: 'POST', body: JSON.stringify(body) },
      headers: { 'content-type': 'application/json', ...authorization },
    });
  }
  async function latest(svc: StartedSvc, path: string, slot: 'run' | 'dryRun' = 'run'): Promise<RecoveryRun> {
    const answer = await fetch(`${await svc.address()}${path}`);
    return ((await answer.json()) as Record<string, RecoveryRun>)[slot] as RecoveryRun;
  }
  async function ended(svc: StartedSvc, path: string, slot?: 'run' | 'dryRun'): Promise<RecoveryRun> {
    for (;;) {
      const run = await latest(svc, path, slot);
      if (run.state !== 'RUNNING') return run;
      await sleep(50);
    }
  }
  const shortOf = ({ state, matched, skipped, sent, failed }: RecoveryRun) => ({
    ...{ state, matched, skipped, sent, failed },
  });

  async function deadLetters(topics: readonly string[]): Promise<string> {
    const dead = newTopic();
    await kafka.createTopic(dead, { partitions: 2 });
    const producer = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: 0 }).producer();
    await producer.connect();
    const messages = topics.map((originalTopic, n) => ({
      key: `k${n % 50}`,
      value: JSON.stringify({ eventId: `${n}`, originalTopic, originalPayload: `{"eventId":"${n}"}` }),
    }));
    await producer.send({ topic: dead, messages });
    await producer.disconnect();
    return dead;
  }

  it('a run outlives its client and its process: it goes on where it stopped, nothing twice', async () => {
    const orders = newTopic();
    await kafka.createTopic(orders, { partitions: 3 });
    const count = 1_200;
    const dlqTopic = await deadLetters(Array(count).fill(orders));
    const first = begin({ topic: orders, dlqTopic });

    // Whoever may read may look.
    assert.equal((await post(first, recover, { dryRun: true }, '')).status, 202);
    const look = await ended(first, recover, 'dryRun');
    assert.deepEqual(shortOf(look), { state: 'DONE', matched: count, skipped: 0, sent: 0, failed: 0 });

    const gone = new AbortController();
    const leaving = fetch(`${await first.address()}${recover}`, {
      ...{ method: 'POST', body: '{"rate":200}', signal: gone.signal },
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    });
    leaving.catch(() => {});
    await sleep(100);
    gone.abort();
    let half = await latest(first, recover);
    for (const endMs = performance.now() + 60_000; half.sent < 400; half = await latest(first, recover)) {
      assert.ok(performance.now() < endMs && half.state === 'RUNNING', JSON.stringify(half));
      await sleep(50);
    }
    assert.deepEqual([half.total, half.endedAt], [count, null]);
    const busy = await post(first, recover, {});
    assert.deepEqual([busy.status, busy.headers.get('retry-after')], [409, '5']);

    await end(first);
    const stopped = first.lines.filter((line) => line.includes('dead letters: recovery'));
    assert.equal(stopped.length, 1, first.lines.join('\n'));
    const told = /STOPPED, (\d+) of \d+ events sent, 0 failed: the process was shutting down$/.exec(
      stopped[0] as string,
    );
    assert.ok(told, stopped[0]);
    const sentBefore = Number(told[1]);
    assert.ok(sentBefore >= 400 && sentBefore < count, stopped[0]);

    const second = begin({ topic: orders, dlqTopic });
    assert.equal((await post(second, recover, { limit: 100 })).status, 202);
    assert.deepEqual(shortOf(await ended(second, recover)), {
      ...{ state: 'LIMIT', matched: 100, skipped: 0, sent: 100, failed: 0 },
    });
    assert.equal((await post(second, recover, {})).status, 202);
    const rest = await ended(second, recover);
    assert.deepEqual([rest.state, rest.sent], ['DONE', count - sentBefore - 100]);
    const ids = (await kafka.read(orders)).map(({ value }) => JSON.parse(value as string).eventId);
    assert.deepEqual([ids.length, new Set(ids).size], [count, count]);
    assert.match(
      second.info.join('\n'),
      /dead letters: recovery \S+, requested by 127\.0\.0\.1 with management\.server\.token: DONE, \d+ of \d+ events sent, 0 failed/,
    );
  });

  it('writes to topics of the configuration only, unless the request names others', async () => {
    const [orders, others, missing] = [newTopic(), newTopic(), newTopic()];
    for (const topic of [orders, others]) await kafka.createTopic(topic);
    const dlqTopic = await deadLetters([orders, others, missing]);
    const svc = begin({ topic: orders, dlqTopic });
    assert.equal((await post(svc, recover, {})).status, 202);
    const run = await ended(svc, recover);
    assert.deepEqual(shortOf(run), { state: 'DONE', matched: 3, skipped: 0, sent: 1, failed: 2 });
    assert.deepEqual(
      run.problems.map(({ reason }) => reason).sort(),
      [others, missing]
        .map(
          (topic) =>
            `the configuration has no topic "${topic}". If the events belong there, send them with "topic": ${topic}`,
        )
        .sort(),
    );
    assert.equal((await post(svc, recover, { topic: others })).status, 202);
    assert.deepEqual(shortOf(await ended(svc, recover)), {
      ...{ state: 'DONE', matched: 1, skipped: 1, sent: 1, failed: 0 },
    });
    assert.equal((await kafka.read(others)).length, 1);
  });

  it('a drain sends what lies in the local backup, and says why it cannot', async () => {
    const orders = newTopic();
    await kafka.createTopic(orders);
    const folder = mkdtempSync(join(tmpdir(), 'svc-drain-'));
    const broker = { topic: orders, dlqBackupPath: folder, backup: { drain: { enabled: false } } };
    try {
      const away = begin({ ...broker, bootstrapServers: ['127.0.0.1:1'], requestTimeoutMs: 1_000 });
      const made = Array.from({ length: 40 }, (_, n) =>
        away.service.producer.publish({ n }, { eventType: n % 4 === 0 ? 'PAID' : 'ORDERED' }),
      );
      assert.ok((await Promise.all(made)).every(({ outcome }) => outcome === 'backup'));
      assert.equal((await post(away, drain, {})).status, 202);
      const failed = await ended(away, drain);
      assert.deepEqual(
        [failed.state, failed.matched, failed.sent],
        ['STOPPED', 40, 0],
        JSON.stringify(failed),
      );
      assert.match(failed.error ?? '', /^the broker is away: .*ECONNREFUSED/);
      await end(away);

      const back = begin(broker);
      assert.equal((await post(back, drain, { type: 'PAID' })).status, 202);
      assert.deepEqual(shortOf(await ended(back, drain)), {
        ...{ state: 'DONE', matched: 10, skipped: 30, sent: 10, failed: 0 },
      });
      assert.equal((await post(back, drain, {})).status, 202);
      assert.equal((await ended(back, drain)).sent, 30);
      assert.equal((await kafka.read(orders)).length, 40);
      const bucket = await post(back, drain, { from: 's3' });
      assert.equal(bucket.status, 404);
      assert.match(await bucket.text(), /set svc\.broker\.backup\.s3-bucket/);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
