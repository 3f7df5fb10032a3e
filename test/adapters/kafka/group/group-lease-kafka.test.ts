import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Consumer } from 'kafkajs';
import kafkajs from 'kafkajs';
import { createKafkaGroup } from '../../../../src/adapters/kafka/group.ts';
import type { KafkaClientOptions } from '../../../../src/adapters/kafka/kafka-client-options.ts';
import type { WorkerIdGrant, WorkerIdLease } from '../../../../src/envelope/ids.ts';
import { openWorkerIdLease } from '../../../../src/start/adapters.ts';
import { type SecureKafka, startKafka, startSecureKafka, type TestKafka } from '../../../support/kafka.ts';
import { useLogger } from '../../../support/log.ts';
import { requiring } from '../../../support/requires.ts';
import { until as untilSo } from '../../../support/until.ts';
import { kafkaClients } from '../kafka-clients.ts';
import { configOf, kafkaOptions } from '../kafka-options.ts';

interface Opened {
  readonly lease: WorkerIdLease;
  readonly grants: (WorkerIdGrant | undefined)[];
  readonly lines: string[];
}

const clients = ['kafkajs', 'platformatic'] as const;
const opened: WorkerIdLease[] = [];

function open(client: string, options: KafkaClientOptions, group: string): Opened {
  const lines: string[] = [];
  const log = (line: string): void => void lines.push(line);
  const logger = { debug() {}, info: log, warn: log, error: log };
  useLogger(logger);
  const lease = openWorkerIdLease(configOf(client, options, group));
  const grants: Opened['grants'] = [];
  lease.start((grant) => grants.push(grant));
  opened.push(lease);
  return { lease, grants, lines };
}

const until = (isSo: () => boolean): Promise<void> => untilSo(isSo, { limitMs: 20_000 });

const numberOf = ({ grants }: Pick<Opened, 'grants'>): number | undefined => grants.at(-1)?.workerId;

afterEach(() => Promise.all(opened.splice(0).map((lease) => lease.close(1_000))));

requiring('kafka', 'worker ids of a group, in Kafka', function () {
  this.timeout(60_000);
  let kafka: TestKafka;
  let group: string;

  before(async () => {
    kafka = await startKafka();
  });
  beforeEach(() => {
    group = `svc-workers-${randomUUID()}`;
  });

  for (const client of clients) {
    it(`${client}: members have different ones, keep them when one leaves, and its number is free again`, async () => {
      const join = () => open(client, kafkaOptions(kafka.brokers), group);
      const first = join();
      await until(() => numberOf(first) !== undefined);
      const second = join();
      await until(() => numberOf(second) !== undefined);
      assert.deepEqual([numberOf(first), numberOf(second)], [0, 1]);
      await first.lease.close(2_000);
      assert.equal(numberOf(first), undefined);
      const third = join();
      await until(() => numberOf(third) !== undefined);
      assert.deepEqual([numberOf(second), numberOf(third)], [1, 0]);
      assert.equal(new Set(second.grants.map((grant) => grant?.workerId)).size, 1);
      assert.equal(new Set(second.grants.map((grant) => grant?.from.wallMs)).size, 1, 'without a gap');
      assert.deepEqual(
        [first, second, third].flatMap(({ lines }) => lines),
        [],
      );
    });

    it(`${client}: a group of consumers under that name is one line, and does not hurt them`, async () => {
      const topic = `events-${randomUUID()}`;
      await kafka.createTopic(topic);
      const consumer = await consume(kafka.brokers, topic, group);
      const { grants, lines } = open(client, kafkaOptions(kafka.brokers), group);
      await until(() => lines.length > 0);
      assert.match(
        lines.join('\n'),
        /^no worker id from Kafka: the group "[^"]+" belongs to another application: choose another group/,
      );
      assert.deepEqual(grants, []);
      await consumer.disconnect();
    });

    for (const [what, assignment, given] of [
      ['1024', Buffer.from([4, 0]), '1024'],
      ['65535', Buffer.from([255, 255]), '65535'],
      ['one byte', Buffer.from([7]), 'a single byte'],
      ['900 kB', Buffer.alloc(900_000), '900000 bytes'],
    ] as const) {
      it(`${client}: a leader that gives ${what} is one line, and leads nobody to use it`, async () => {
        const leader = await leadWith(client, kafka.brokers, group, assignment);
        const { grants, lines } = open(client, kafkaOptions(kafka.brokers), group);
        await until(() => lines.length > 0);
        assert.equal(
          lines.join('\n'),
          `no worker id from Kafka: the leader of the group "${group}" gave this process ${given}, which is not a worker id: check the members of the group, and grant Read on it only to processes with svc; until then event ids use a worker id of this host, which other hosts may also use`,
        );
        assert.ok(grants.every((grant) => grant === undefined));
        await leader.end();
        await until(() => numberOf({ grants }) === 0);
      });
    }

    it(`${client}: a leader is believed that gives the same one to all, and ids go on`, async () => {
      const leader = await leadWith(client, kafka.brokers, group, Buffer.from([0, 5]));
      const members = [1, 2].map(() => open(client, kafkaOptions(kafka.brokers), group));
      await until(() => members.every((member) => numberOf(member) === 5));
      assert.deepEqual(
        members.flatMap(({ lines }) => lines),
        [],
      );
      await leader.end();
      await until(() => new Set(members.map(numberOf)).size === 2);
    });

    it(`${client}: a name that Kafka refuses is one line`, async () => {
      const { lines } = open(client, kafkaOptions(kafka.brokers), '');
      await until(() => lines.length > 0);
      assert.match(
        lines.join('\n'),
        /^no worker id from Kafka: Kafka refuses the name of the group "": set svc\.id-generator\.group/,
      );
    });
  }

  it('members of both clients share them', async () => {
    const members = [...clients, ...clients].map((client) =>
      open(client, kafkaOptions(kafka.brokers), group),
    );
    await until(() => members.every((member) => numberOf(member) !== undefined));
    assert.deepEqual(members.map(numberOf).toSorted(), [0, 1, 2, 3]);
  });
});

requiring('secure-kafka', 'worker ids of a group, with permissions', function () {
  this.timeout(60_000);
  let kafka: SecureKafka;

  before(async () => {
    kafka = await startSecureKafka();
    const admin = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: kafkajs.logLevel.NOTHING }).admin();
    await admin.connect();
    const acl = (resourceName: string, user: string) => ({
      ...{ resourceType: kafkajs.AclResourceTypes.GROUP, resourceName, principal: `User:${user}`, host: '*' },
      resourcePatternType: kafkajs.ResourcePatternTypes.LITERAL,
      operation: kafkajs.AclOperationTypes.READ,
      permissionType: kafkajs.AclPermissionTypes.ALLOW,
    });
    await admin.createAcls({ acl: [acl('closed', 'somebody'), acl('open', kafka.user)] });
    await admin.disconnect();
  });
  after(() => kafka?.stop());

  for (const client of clients) {
    const signedIn = (): KafkaClientOptions =>
      kafkaOptions(kafka.secureBrokers, {
        connectionTimeoutMs: 5_000,
        tls: { caFile: kafka.caFile },
        sasl: { mechanism: 'scram-sha-512', username: kafka.user, password: kafka.password },
      });

    it(`${client}: without a right to the group, one line says which`, async () => {
      const { grants, lines } = open(client, signedIn(), 'closed');
      await until(() => lines.length > 0);
      assert.match(
        lines.join('\n'),
        /^no worker id from Kafka: the user "[^"]+" may not use the group "closed": grant it Read on this group, or set svc\.id-generator\.lease to host; until then /,
      );
      assert.deepEqual(grants, []);
    });

    it(`${client}: Read on the group is enough`, async () => {
      const member = open(client, signedIn(), 'open');
      await until(() => numberOf(member) !== undefined);
      assert.deepEqual(member.lines, []);
    });
  }
});

describe('worker ids of a group, where the broker hangs', function () {
  this.timeout(20_000);
  const sockets: Socket[] = [];
  let server: Server;

  before((done) => {
    server = createServer((socket) => void sockets.push(socket)).listen(0, '127.0.0.1', done);
  });
  after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  for (const client of clients) {
    it(`${client}: the end waits for nothing`, async () => {
      const { port } = server.address() as { port: number };
      const { lease, grants } = open(client, kafkaOptions([`127.0.0.1:${port}`]), 'svc-workers');
      await until(() => sockets.length > 0);
      const beganMs = performance.now();
      await lease.close(10_000);
      assert.ok(performance.now() - beganMs < 500);
      assert.deepEqual(grants, [undefined]);
      sockets.length = 0;
    });
  }
});

/** A first member of the group, which leads it and gives all others what it likes. */
async function leadWith(
  client: (typeof clients)[number],
  brokers: string[],
  group: string,
  assignment: Buffer,
): Promise<{ end(): Promise<void> }> {
  const { load } = kafkaClients.find(({ name }) => name === client) as (typeof kafkaClients)[number];
  const access = createKafkaGroup(kafkaOptions(brokers), load);
  const settings = {
    ...{ group, protocolType: 'svc-workers', protocolName: 'worker-ids-v1' },
    ...{ sessionTimeoutMs: 10_000, rebalanceTimeoutMs: 20_000 },
  };
  // A new cluster has no coordinator yet, and then one that is still loading.
  const again = <T>(work: () => Promise<T>): Promise<T> =>
    work().catch(() => sleep(200).then(() => again(work)));
  const connection = await again(() => access.open(settings));
  const lead = async (memberId: string) => {
    const joined = await connection.join(memberId, Buffer.alloc(0));
    const others = joined.members.filter((member) => member.memberId !== joined.memberId);
    await connection.sync(
      joined,
      others.map((member) => ({ memberId: member.memberId, assignment })),
    );
    return joined;
  };
  let joined = await again(() => lead(''));
  let hasEnded = false;
  const leading = (async () => {
    for (; !hasEnded; await sleep(200))
      await connection.heartbeat(joined).catch(async () => {
        joined = await lead(joined.memberId);
      });
  })();
  return {
    async end() {
      hasEnded = true;
      await leading;
      await connection.leave(joined);
      connection.close();
    },
  };
}

async function consume(brokers: string[], topic: string, groupId: string): Promise<Consumer> {
  const consumer = new kafkajs.Kafka({ brokers, logLevel: kafkajs.logLevel.NOTHING }).consumer({ groupId });
  await consumer.connect();
  await consumer.subscribe({ topic });
  const joined = new Promise<void>((resolve) => consumer.on(consumer.events.GROUP_JOIN, () => resolve()));
  await consumer.run({ eachMessage: async () => {} });
  await joined;
  return consumer;
}
