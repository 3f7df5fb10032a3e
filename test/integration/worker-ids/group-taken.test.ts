import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs from 'kafkajs';
import { createKafkaGroup } from '../../../src/adapters/kafka/group.ts';
import { loadKafkajsTransport } from '../../../src/adapters/kafkajs/kafkajs-transport.ts';
import { publishEvent } from '../../../src/capture/declare/publish-event.ts';
import type { HealthDetails } from '../../../src/manage/controls.ts';
import { kafkaOptions } from '../../adapters/kafka/kafka-options.ts';
import { newTopic } from '../../contract/broker.ts';
import { type SecureKafka, startSecureKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { type StartedSvc, startSvc } from '../started-svc.ts';

const leaseMs = 15_000;

type Worker = NonNullable<HealthDetails['worker']>;
const group = 'svc-workers';

requiring('secure-kafka', 'the group of worker ids, while svc runs', function () {
  this.timeout(90_000);
  let kafka: SecureKafka;
  let admin: kafkajs.Admin;
  let svc: StartedSvc;
  let id = 0;

  before(async () => {
    kafka = await startSecureKafka();
    admin = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: kafkajs.logLevel.NOTHING }).admin();
    await admin.connect();
  });
  after(async () => {
    await admin?.disconnect();
    await kafka?.stop();
  });
  afterEach(() => svc.end());

  async function started(client: string): Promise<Worker> {
    const topic = newTopic();
    await kafka.createTopic(topic);
    svc = startSvc({
      ...{ client, topic, bootstrapServers: kafka.secureBrokers },
      tls: { enabled: true, caFile: kafka.caFile },
      sasl: { mechanism: 'scram-sha-512', username: kafka.user, password: kafka.password },
    });
    svc.service.resume();
    for (const endMs = performance.now() + 30_000; ; await sleep(100)) {
      const found = await worker().catch(() => undefined);
      if (found?.source === 'kafka') return found;
      assert.ok(performance.now() < endMs, svc.lines.join('\n'));
    }
  }

  async function worker(): Promise<Worker | undefined> {
    const port = svc.info.join('\n').match(/management on http:\/\/127\.0\.0\.1:(\d+)/)?.[1];
    const answer = await fetch(`http://127.0.0.1:${port}/actuator/health/svc`);
    const { status, details } = (await answer.json()) as { status: string; details: HealthDetails };
    assert.equal(status, 'UP', JSON.stringify(details));
    return details.worker;
  }

  /** The worker ids that events have while this goes on; each is in its topic. */
  async function workersFor(ms: number): Promise<string[]> {
    const call = publishEvent({ eventType: 'Ordered' }, async () => ({ id: ++id }));
    const seen = new Set<string>();
    for (const endMs = performance.now() + ms; performance.now() < endMs; await sleep(200)) {
      await call();
      const { source, id: workerId } = (await worker()) ?? {};
      seen.add(`${source} ${workerId}`);
    }
    assert.equal(existsSync(join(svc.folder, 'backup')), false);
    return [...seen];
  }

  /** As an administrator does: a group with members is not deleted, so they are thrown out first. */
  async function deleteGroup(): Promise<void> {
    await assert.rejects(admin.deleteGroups([group]), /Error in DeleteGroups/);
    const { groups } = await admin.describeGroups([group]);
    const settings = { ...{ group, protocolType: group, protocolName: '' }, sessionTimeoutMs: 10_000 };
    const access = createKafkaGroup(kafkaOptions(kafka.brokers), loadKafkajsTransport);
    const to = await access.open({ ...settings, rebalanceTimeoutMs: 10_000 });
    for (const { memberId } of groups[0]?.members ?? []) await to.leave({ memberId, generation: 0 });
    to.close();
    await admin.deleteGroups([group]);
  }

  for (const client of ['kafkajs', 'platformatic']) {
    it(`${client}: is deleted, and it goes on with the worker id that it has`, async () => {
      const before = await started(client);
      await deleteGroup();
      assert.deepEqual(await workersFor(leaseMs + 5_000), [`kafka ${before.id}`]);
      const { groups } = await admin.describeGroups([group]);
      assert.equal(groups[0]?.members.length, 1, 'it has joined anew');
      assert.deepEqual(svc.lines, []);
    });

    it(`${client}: is forbidden, and it goes on with a worker id of the host, with one line`, async () => {
      const before = await started(client);
      const acl = {
        ...{ resourceType: kafkajs.AclResourceTypes.GROUP, resourceName: group },
        resourcePatternType: kafkajs.ResourcePatternTypes.LITERAL,
        ...{ principal: `User:${kafka.user}`, host: '*' },
        operation: kafkajs.AclOperationTypes.READ,
        permissionType: kafkajs.AclPermissionTypes.DENY,
      };
      await admin.createAcls({ acl: [acl] });
      try {
        const [first, last, ...more] = await workersFor(leaseMs + 5_000);
        assert.equal(first, `kafka ${before.id}`);
        assert.match(last ?? '', /^host \d+$/);
        assert.deepEqual(more, []);
        assert.equal(svc.lines.length, 1, svc.lines.join('\n'));
        assert.match(
          svc.lines[0] as string,
          /^warn: no worker id from Kafka: the user "svc" may not use the group "svc-workers": grant it Read/,
        );
      } finally {
        await admin.deleteAcls({ filters: [acl] });
      }
    });
  }
});
