import assert from 'node:assert/strict';
import { appendFileSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs from 'kafkajs';
import { publishEvent } from '../../src/capture/declare/publish-event.ts';
import type { HealthDetails } from '../../src/manage/controls.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { outboxRow } from '../cli/outbox-folder.ts';
import { newTopic } from '../contract/broker.ts';
import { type SecureKafka, startSecureKafka } from '../support/kafka.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { until as untilSo } from '../support/until.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

/** What an operator is to see, so long after the first event. */
const soonMs = 2_000;
/** Topics to which the user may not write. */
const closed = ['closed', 'shut'];

requiring('secure-kafka', 'a topic that refuses all its events', function () {
  this.timeout(120_000);
  let kafka: SecureKafka;
  before(async () => {
    kafka = await startSecureKafka();
    appendFileSync(join(dirname(kafka.dataFolder), 'server.properties'), 'auto.create.topics.enable=false\n');
    await kafka.kill();
    await kafka.restart();
    await kafka.createTopic('open');
    for (const topic of closed) await kafka.createTopic(topic);
    const admin = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: kafkajs.logLevel.NOTHING }).admin();
    await admin.connect();
    await admin.createAcls({
      acl: closed.map((resourceName) => ({
        ...{ resourceName, resourceType: kafkajs.AclResourceTypes.TOPIC },
        resourcePatternType: kafkajs.ResourcePatternTypes.LITERAL,
        ...{ principal: 'User:somebody', host: '*' },
        operation: kafkajs.AclOperationTypes.ALL,
        permissionType: kafkajs.AclPermissionTypes.ALLOW,
      })),
    });
    await admin.disconnect();
  });
  after(() => kafka?.stop());

  const brokerOf = (client: string, topic: string): object => ({
    ...{ client, topic, bootstrapServers: kafka.secureBrokers },
    tls: { enabled: true, caFile: kafka.caFile },
    sasl: { mechanism: 'scram-sha-512', username: kafka.user, password: kafka.password },
  });

  async function health({ info }: StartedSvc): Promise<{ status: string; details: HealthDetails }> {
    const port = info.join('\n').match(/management on http:\/\/127\.0\.0\.1:(\d+)/)?.[1];
    return (await fetch(`http://127.0.0.1:${port}/actuator/health/svc`)).json() as never;
  }

  /** With the reasons, which stand beside the events. */
  function backupText({ folder }: StartedSvc): string {
    const backup = join(folder, 'backup');
    return readdirSync(backup)
      .filter((name) => name.includes('.ndjson'))
      .map((name) => readFileSync(join(backup, name), 'utf8'))
      .join('');
  }

  /** Once the connection is there: its time is not that of the topic. */
  async function started(broker: object, options = {}): Promise<StartedSvc> {
    const svc = startSvc(broker, { retry: { enabled: true }, ...options });
    svc.service.resume();
    for (const endMs = performance.now() + 20_000; performance.now() < endMs; await sleep(50)) {
      const state = await health(svc).catch(() => undefined);
      if (state?.status === 'UP') return svc;
    }
    return assert.fail(svc.lines.join('\n'));
  }

  const until = (svc: StartedSvc, limitMs: number, isSo: () => unknown): Promise<void> =>
    untilSo(isSo, { limitMs, say: () => svc.lines.join('\n') });

  for (const client of ['kafkajs', 'platformatic']) {
    it(`${client}: a topic that is not there is named in the log and in health at once, and holds no later call`, async () => {
      const topic = newTopic();
      const svc = await started(brokerOf(client, topic));
      const call = publishEvent({ eventType: 'Ordered' }, async (id: number) => ({ id }));
      const cause = new RegExp(`topic "${topic}" does not exist: create it`);
      try {
        const firstAtMs = performance.now();
        const first = call(0);
        await until(svc, soonMs, () => svc.lines.some((line) => cause.test(line)));
        const { status, details } = await health(svc);
        assert.equal(status, 'UP');
        assert.match(details.warning ?? '', cause);
        const sinceMs = performance.now();
        for (let id = 1; id <= 10; id++) await call(id);
        assert.ok(performance.now() - sinceMs < 500, `ten calls took ${performance.now() - sinceMs} ms`);
        await first;
        await until(svc, 20_000, () => svc.service.pending() === 0);
        assert.ok(performance.now() - firstAtMs < 15_000);
        assert.deepEqual(svc.backup().length, 11);
        assert.equal(backupText(svc).match(/"backupReason":"UNKNOWN_TOPIC_OR_PARTITION"/g)?.length, 11);

        const laterMs = performance.now();
        await call(11);
        assert.ok(performance.now() - laterMs < 1_000);
        await kafka.createTopic(topic);
        await until(svc, 20_000, async () => {
          await call(12);
          return (await health(svc)).details.warning === undefined;
        });
      } finally {
        await svc.end();
      }
    });

    it(`${client}: a topic without the right to write is named in the log, in the reason and in health at once`, async () => {
      const svc = await started(brokerOf(client, 'closed'));
      const call = publishEvent({ eventType: 'Ordered' }, async (id: number) => ({ id }));
      const cause = /the user "svc" may not write to topic "closed": grant it Write and Describe/;
      try {
        const sinceMs = performance.now();
        await call(1);
        await until(svc, soonMs - (performance.now() - sinceMs), () =>
          svc.lines.some((line) => cause.test(line)),
        );
        assert.match((await health(svc)).details.warning ?? '', cause);
        await until(svc, 5_000, () => svc.service.pending() === 0);
        assert.match(backupText(svc), /"backupReason":"TOPIC_AUTHORIZATION_FAILED"/);
      } finally {
        await svc.end();
      }
    });

    for (const [what, topicOf, cause] of [
      ['is not there', newTopic, /dead letter topic "[^"]+": topic "[^"]+" does not exist: create it/],
      ['may not be written', () => 'closed', /dead letter topic "closed": the user "svc" may not write to/],
    ] as const)
      it(`${client}: a dead letter topic that ${what} is named in the log at once; its events are in the backup`, async () => {
        const dlqTopic = topicOf();
        const svc = await started({ ...brokerOf(client, 'shut'), dlqTopic });
        const call = publishEvent({ eventType: 'Ordered' }, async (id: number) => ({ id }));
        try {
          const calls = Array.from({ length: 5 }, (_, id) => call(id));
          await until(svc, soonMs, () => svc.lines.some((line) => cause.test(line)));
          await Promise.all(calls);
          await until(svc, 5_000, () => svc.service.pending() === 0);
          assert.equal(svc.backup().length, 5);
          assert.equal(
            svc.lines.filter((line) => line.includes('dead letter topic')).length,
            1,
            svc.lines.join('\n'),
          );
        } finally {
          await svc.end();
        }
      });

    it(`${client}: a dead letter topic that is not there is named also where its event has little time left`, async () => {
      const broker = { ...brokerOf(client, newTopic()), deliveryTimeoutMs: 3_000, dlqTopic: newTopic() };
      const svc = await started(broker);
      try {
        await publishEvent({ eventType: 'Ordered' }, async (id: number) => ({ id }))(1);
        await until(svc, 8_000, () => svc.service.pending() === 0);
        assert.equal(svc.backup().length, 1);
        const [said, ...more] = svc.lines.filter((line) =>
          line.includes(`dead letter topic "${broker.dlqTopic}"`),
        );
        assert.deepEqual(more, []);
        assert.match(said ?? '', /does not exist: create it/);
      } finally {
        await svc.end();
      }
    });

    requiring('postgres', `${client}: rows of the outbox for such topics`, () => {
      for (const [what, topicOf, cause] of [
        ['is not there', newTopic, /topic "[^"]+" does not exist: create it/],
        ['may not be written', () => 'closed', /may not write to topic "closed"/],
      ] as const)
        it(`wait, and the log and health say within two seconds that the topic ${what}`, async () => {
          const url = await (await startPostgres()).freshDatabase();
          const store: OutboxStore = openOutboxStore({
            ...{ url, table: 'svc_outbox_events', initializeSchema: 'always' },
          });
          await store.prepare();
          const svc = await started(brokerOf(client, 'open'), {
            outbox: { datasource: { url }, pollIntervalMs: 100 },
          });
          try {
            await store.insert([outboxRow({ eventId: '0', topic: 'open' })]);
            await until(svc, 30_000, async () => (await store.statistics()).published === 1);
            await store.insert([outboxRow({ eventId: '1', topic: topicOf() })]);
            await until(svc, soonMs, () => svc.lines.some((line) => cause.test(line)));
            await until(svc, 8_000, async () =>
              cause.test((await health(svc)).details.outbox?.warning ?? ''),
            );
          } finally {
            await svc.end();
            await store.close(1_000);
          }
        });
    });
  }
});
