import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { bucketsFolder, type S3Server, startS3Server } from '../../scripts/services/s3.ts';
import type { RecoveryRun } from '../../src/manage/controls.ts';
import { newTopic } from '../contract/broker.ts';
import { keepEnvironment } from '../support/environment.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';
import { runSvc } from '../support/run-svc.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

const token = 'a-token-of-some-length';
const bucket = 'orders-backup';
const path = '/actuator/svc/backup/drain';

requiring(['kafka', 'own-s3'], 'a drain of the bucket', function () {
  this.timeout(120_000);
  let kafka: TestKafka;
  let server: S3Server;
  let topic: string;
  const restoreEnvironment = keepEnvironment();
  const running = new Set<StartedSvc>();

  before(async () => {
    [kafka, server] = [await startKafka(), await startS3Server()];
    assert.ok(server.local);
    process.env.AWS_ACCESS_KEY_ID = server.accessKey;
    process.env.AWS_SECRET_ACCESS_KEY = server.secretKey;
  });
  beforeEach(async () => {
    topic = newTopic();
    mkdirSync(join(bucketsFolder(server.local ?? assert.fail()), bucket), { recursive: true });
    await kafka.createTopic(topic);
  });
  afterEach(async () => {
    for (const svc of running) await svc.end();
    running.clear();
  });
  after(async () => {
    restoreEnvironment();
    await server?.local?.stop();
  });

  const backup = () => ({
    ...{ s3Enabled: true, s3Bucket: bucket, s3Endpoint: server.endpoint, s3Prefix: topic },
    drain: { enabled: false },
  });
  function begin(broker: object): StartedSvc {
    const svc = startSvc({ topic, backup: backup(), ...broker }, { token });
    running.add(svc);
    return svc;
  }
  async function kept(count: number): Promise<string[]> {
    const away = begin({ bootstrapServers: ['127.0.0.1:1'], requestTimeoutMs: 1_000 });
    const made = Array.from({ length: count }, (_, n) =>
      away.service.producer.publish({ n }, { eventType: n % 3 === 0 ? 'PAID' : 'ORDERED' }),
    );
    const all = await Promise.all(made);
    assert.ok(all.every(({ outcome }) => outcome === 'backup'));
    // It went to no file.
    assert.equal(existsSync(join(away.folder, 'backup')), false);
    running.delete(away);
    await away.end();
    return all.map(({ eventId }) => eventId as string).sort();
  }
  /** Those that wait, or those that were sent, which stay below `recovered/`. */
  function objects(sent = false): string[] {
    const folder = join(bucketsFolder(server.local ?? assert.fail()), bucket, topic);
    if (!existsSync(folder)) return [];
    return readdirSync(folder, { recursive: true })
      .map(String)
      .filter((name) => name.endsWith('.json') && name.startsWith('recovered/') === sent);
  }
  async function drain(svc: StartedSvc, body: object): Promise<RecoveryRun> {
    const url = `${await svc.address()}${path}`;
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
    const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
    assert.equal(answer.status, 202, await answer.text());
    for (;;) {
      const latest = (await (await fetch(url, { headers })).json()) as Record<string, RecoveryRun>;
      const run = latest['dryRun' in body ? 'dryRun' : 'run'] as RecoveryRun;
      if (run.state !== 'RUNNING') return run;
      await sleep(50);
    }
  }
  const shortOf = ({ state, matched, skipped, sent, failed }: RecoveryRun) => ({
    ...{ state, matched, skipped, sent, failed },
  });
  const eventIds = async (count: number): Promise<string[]> =>
    (await kafka.read(topic, { count })).map(({ value }) => JSON.parse(value as string).eventId).sort();

  it('over HTTP: a dry run, a filter, and the rest; what is sent is put aside in the bucket, and nothing else is', async () => {
    const ids = await kept(30);
    assert.equal(objects().length, 30);
    const back = begin({ bootstrapServers: kafka.brokers });
    assert.deepEqual(shortOf(await drain(back, { from: 's3', dryRun: true })), {
      ...{ state: 'DONE', matched: 30, skipped: 0, sent: 0, failed: 0 },
    });
    assert.equal(objects().length, 30);
    assert.deepEqual(shortOf(await drain(back, { from: 's3', type: 'PAID' })), {
      ...{ state: 'DONE', matched: 10, skipped: 20, sent: 10, failed: 0 },
    });
    assert.equal(objects().length, 20);
    // Nothing lies in the folder, which is where it looks unless it is told.
    assert.equal((await drain(back, {})).matched, 0);
    assert.deepEqual(shortOf(await drain(back, { from: 's3' })), {
      ...{ state: 'DONE', matched: 20, skipped: 0, sent: 20, failed: 0 },
    });
    assert.deepEqual([objects(), objects(true).length, await eventIds(30)], [[], 30, ids]);
  });

  it('over HTTP: says which bucket it cannot read, and keeps its objects', async () => {
    await kept(3);
    const back = begin({ bootstrapServers: kafka.brokers });
    process.env.AWS_SECRET_ACCESS_KEY = 'not-the-secret';
    try {
      const run = await drain(back, { from: 's3' });
      assert.deepEqual([run.state, run.sent], ['FAILED', 0]);
      assert.match(run.error ?? '', /S3 bucket "orders-backup" .*the credentials were refused/);
      assert.doesNotMatch(JSON.stringify(run) + back.lines.join(), /not-the-secret/);
    } finally {
      process.env.AWS_SECRET_ACCESS_KEY = server.secretKey;
    }
    assert.equal(objects().length, 3);
  });

  it('with svc backup restore --s3', async () => {
    const ids = await kept(12);
    const cwd = temporaryFolder('drain-s3');
    const broker = { topic, bootstrapServers: kafka.brokers, backup: backup() };
    writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ svc: { broker } }));
    const env = { AWS_ACCESS_KEY_ID: server.accessKey, AWS_SECRET_ACCESS_KEY: server.secretKey };
    const dry = await runSvc(['backup', 'restore', '--s3', '--dry-run'], { cwd, env });
    assert.deepEqual([dry.code, objects().length], [0, 12], dry.stderr);
    const restored = await runSvc(['backup', 'restore', '--s3'], { cwd, env });
    assert.equal(restored.code, 0, restored.stderr);
    assert.match(restored.stderr, /12 of 12 events sent/);
    assert.deepEqual([objects(), await eventIds(12)], [[], ids]);
  });
});
