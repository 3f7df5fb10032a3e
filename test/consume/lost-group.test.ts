import assert from 'node:assert/strict';
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Consumer, type MessagesStream } from '@platformatic/kafka';
import pg from 'pg';
import { type Consumption, consumeOnce } from '../../src/consume/consume-once.ts';
import { createInbox } from '../../src/consume/inbox.ts';
import { type OwnKafka, startOwnKafka } from '../support/kafka.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { until } from '../support/until.ts';
import { envelope, newName, record, testClient } from './on-kafka.ts';

requiring('kafka', 'consumeOnce with a broker that dies', () => {
  let kafka: OwnKafka;
  before(async function () {
    this.timeout(120_000);
    kafka = await startOwnKafka();
  });
  after(() => kafka?.stop());

  requiring('postgres', 'while the group is formed anew', () => {
    let pool: pg.Pool;
    const others: Consumer[] = [];
    let consumption: Consumption | undefined;

    before(async () => {
      pool = new pg.Pool({ connectionString: await (await startPostgres()).freshDatabase() });
      await createInbox({ pool, consumer: 'any' }).migrate();
    });
    after(async () => {
      await consumption?.stop(2_000);
      await Promise.all(others.map((other) => other.close(true).catch(() => {})));
      await pool?.end();
    });

    // @platformatic/kafka gives up a rejoin after four tries, sends no heartbeats from then on, and emits `error`.
    it('the process goes on, the client joins its group again, and everything is handled', async function () {
      this.timeout(120_000);
      const topic = newName('orders');
      await kafka.createTopic(topic, { partitions: 4 });
      const member = (heartbeatInterval: number): Consumer =>
        new Consumer({
          ...{ clientId: topic, groupId: topic, bootstrapBrokers: kafka.brokers, maxWaitTime: 100 },
          ...{ sessionTimeout: 12_000, rebalanceTimeout: 12_000, heartbeatInterval },
        });
      const joinAs = (heartbeatInterval: number): Promise<unknown> => {
        const other = member(heartbeatInterval);
        other.on('error', () => {});
        others.push(other);
        return other.joinGroup({});
      };
      const handled: string[] = [];
      const consumer = member(300);
      consumption = await consumeOnce<pg.PoolClient>({
        ...{ consumer, topics: [topic], inbox: createInbox({ pool, consumer: topic }) },
        handlers: { ORDER_PLACED: (event) => void handled.push(event.eventId) },
      });
      // A listener of the test alone would keep the process.
      assert.equal(consumer.listenerCount('error'), 1);
      let givenUp = 0;
      consumer.on('error', () => givenUp++);
      // It hears late of a rebalance, so that those who join again wait for it.
      await joinAs(11_000);
      await until(() => consumer.isActive(), { limitMs: 20_000 });
      const another = joinAs(300).catch(() => {});
      await sleep(3_000);
      await kafka.kill();
      await until(() => givenUp > 0, { limitMs: 60_000 });
      await kafka.restart();
      await another;
      await Promise.all(others.splice(0).map((each) => each.close(true).catch(() => {})));

      const client = testClient(kafka);
      const producer = await client.producer();
      const ids = Array.from({ length: 40 }, (_, n) => `${topic}-${n}`);
      await producer.send({ topic, messages: ids.map((id, n) => record(envelope(id), `k${n}`, n % 4)) });
      await client.close();
      await until(() => handled.length === ids.length, { limitMs: 60_000, say: () => `${handled.length}` });
      assert.deepEqual([...handled].sort(), [...ids].sort());
    });
  });

  // A stream that ends takes its topics along. A member that joins meanwhile would subscribe to nothing.
  it('joins with its topics although its stream has ended, so that nothing is thrown and it has partitions', async function () {
    this.timeout(60_000);
    const topic = newName('orders');
    await kafka.createTopic(topic, { partitions: 4 });
    const group = { clientId: topic, groupId: topic, bootstrapBrokers: kafka.brokers, maxWaitTime: 100 };
    const times = { sessionTimeout: 12_000, rebalanceTimeout: 12_000 };
    const consumer = new Consumer({ ...group, ...times, heartbeatInterval: 300 });
    const consume = consumer.consume.bind(consumer) as (
      options: never,
    ) => Promise<MessagesStream<Buffer, Buffer, Buffer, Buffer>>;
    let stream: Awaited<ReturnType<typeof consume>> | undefined;
    Object.assign(consumer, {
      consume: async (options: never) => {
        stream = await consume(options);
        return stream;
      },
    });
    const consumption = await consumeOnce({
      ...{ consumer, topics: [topic], handlers: { ORDER_PLACED: () => {} } },
      inbox: { consumer: topic, once: async () => true } as never,
    });
    // Makes each join last until its next heartbeat.
    const other = new Consumer({ ...group, ...times, heartbeatInterval: 4_000 });
    await other.joinGroup({});
    // What the client does when it gives up a rejoin, and what becomes of its stream meanwhile.
    consumer.emit('error', new Error('gave up'));
    await sleep(100);
    stream?.destroy(new Error('lost'));
    await sleep(2_000);
    await until(() => consumer.assignments?.length === 1, { limitMs: 20_000 });
    await other.close(true);
    await until(() => consumer.assignments?.[0]?.partitions.length === 4, { limitMs: 20_000 });
    await consumption.stop(2_000);
  });

  describe('and a process that stops meanwhile', () => {
    const variants = ['', ' with groupProtocol consumer', ' that cannot leave'];
    const clients = variants.map((variant) => `platformatic${variant}`);
    const program = fileURLToPath(new URL('stopped-consumer.ts', import.meta.url));
    const children: ChildProcessWithoutNullStreams[] = [];
    const said = new Map<ChildProcessWithoutNullStreams, string>();

    before(() => kafka.createTopic('orders', { partitions: 2 }));
    afterEach(() => {
      for (const child of children.splice(0)) child.kill('SIGKILL');
    });

    const saying = (child: ChildProcessWithoutNullStreams, text: string): Promise<void> =>
      until(() => said.get(child)?.includes(text), { limitMs: 25_000, say: () => said.get(child) ?? '' });

    async function start(client: string, group = newName('group')): Promise<ChildProcessWithoutNullStreams> {
      const child = spawn(process.execPath, [program, kafka.brokers.join(), client, group]);
      children.push(child);
      for (const output of [child.stdout, child.stderr])
        output.setEncoding('utf8').on('data', (text) => said.set(child, (said.get(child) ?? '') + text));
      await saying(child, 'consumes');
      return child;
    }

    async function membersOf(group: string): Promise<number> {
      const admin = testClient(kafka).kafka.admin();
      const { groups } = await admin.describeGroups([group]);
      await admin.disconnect();
      return groups[0]?.members.length ?? 0;
    }

    const outages: [string, { hurt: () => Promise<void>; heal: () => Promise<void>; comesBack: boolean }][] =
      [
        ['while it is away', { hurt: () => kafka.kill(), heal: () => kafka.restart(), comesBack: false }],
        ['before it is back', { hurt: () => kafka.kill(), heal: () => kafka.restart(), comesBack: true }],
        // The clients themselves wait for up to 55 s.
        ['while it is frozen', { hurt: () => kafka.pause(), heal: () => kafka.resume(), comesBack: true }],
      ];
    for (const [when, { hurt, heal, comesBack }] of outages)
      it(`${when}: stop resolves meanwhile, and nothing of a client keeps the process`, async function () {
        this.timeout(240_000);
        const group = newName('kafkajs');
        const apps = await Promise.all(clients.map((client) => start(client)));
        // It may leave a connection to its last coordinator behind, which keeps the process, but not its place in the group.
        const leaving = await start('kafkajs', group);
        const exits = Promise.all(apps.map((app) => once(app, 'exit')));
        await hurt();
        await sleep(4_000);
        for (const app of [...apps, leaving]) app.stdin.write('stop\n');
        await Promise.all([...apps, leaving].map((app) => saying(app, 'stopped')));
        if (comesBack) await heal();
        const late = sleep(40_000, undefined, { ref: false });
        const ended = await Promise.race([exits, late]);
        if (!comesBack) await heal();
        assert.deepEqual(
          ended?.map(([status]) => status),
          clients.map(() => 0),
          apps.map((app, n) => `${clients[n]}: ${app.exitCode} ${said.get(app)}`).join('\n'),
        );
        await until(async () => (await membersOf(group)) === 0, { limitMs: 60_000, everyMs: 1_000 });
      });
  });
});
