import assert from 'node:assert/strict';
import {
  Connection,
  consumerGroupHeartbeatV1,
  leaveGroupV5,
  Consumer as PlatformaticConsumer,
} from '@platformatic/kafka';
import { CloudEvent, Kafka } from 'cloudevents';
import type { Consumer } from 'kafkajs';
import pg from 'pg';
import { type ConsumeOptions, type Consumption, consumeOnce } from '../../src/consume/consume-once.ts';
import { RefusedEvent } from '../../src/consume/handle-event.ts';
import { createInbox } from '../../src/consume/inbox.ts';
import { createTraceStarter } from '../../src/context/context-store.ts';
import { fromDlqRecord } from '../../src/publish/tiers/dlq-message.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { runSvc } from '../support/run-svc.ts';
import { until } from '../support/until.ts';
import { envelope, newName, record, type TestClient, testClient } from './on-kafka.ts';

const clients = ['kafkajs', '@platformatic/kafka', '@platformatic/kafka, groupProtocol consumer'] as const;

for (const client of clients)
  requiring('kafka', `consumeOnce on a real Kafka, with ${client}`, () => {
    requiring('postgres', 'and PostgreSQL', () => consumes(client));
  });

function consumes(name: (typeof clients)[number]): void {
  let kafka: TestKafka;
  let client: TestClient;
  let pool: pg.Pool;
  const running: Consumption[] = [];
  const longMs = 60_000;

  before(async function () {
    this.timeout(longMs);
    kafka = await startKafka();
    client = testClient(kafka);
    pool = new pg.Pool({ connectionString: await (await startPostgres()).freshDatabase(), max: 12 });
    await pool.query('CREATE TABLE bills (topic text, event_id text)');
    await createInbox({ pool, consumer: 'any' }).migrate();
  });
  afterEach(async function () {
    this.timeout(longMs);
    await Promise.all(running.splice(0).map((each) => each.stop(2_000).catch(() => {})));
  });
  after(async () => {
    await client?.close();
    await pool?.end();
  });

  const consumerOf = (groupId: string): object =>
    name === 'kafkajs'
      ? client.consumer(groupId)
      : new PlatformaticConsumer({
          ...{ clientId: groupId, groupId, bootstrapBrokers: kafka.brokers, maxWaitTime: 100 },
          ...(name === '@platformatic/kafka'
            ? { sessionTimeout: 10_000, heartbeatInterval: 500, rebalanceTimeout: 10_000 }
            : { groupProtocol: 'consumer' as const }),
        });

  async function topicOf(partitions: number): Promise<string> {
    const topic = newName('orders');
    await kafka.createTopic(topic, { partitions });
    return topic;
  }

  async function send(topic: string, messages: ReturnType<typeof record>[]): Promise<void> {
    const producer = await client.producer();
    await producer.send({ topic, messages });
  }

  async function start(
    topic: string,
    options: Partial<ConsumeOptions<pg.PoolClient>> & Pick<ConsumeOptions<pg.PoolClient>, 'handlers'>,
  ): Promise<Consumption> {
    const consumption = await consumeOnce<pg.PoolClient>({
      ...{ consumer: consumerOf(topic), topics: [topic], inbox: createInbox({ pool, consumer: topic }) },
      retry: { initialMs: 50, maxMs: 200, maxAttempts: 3 },
      ...options,
    });
    running.push(consumption);
    return consumption;
  }

  const billed = (topic: string) => async (event: { eventId: string }, tx: pg.PoolClient) => {
    await tx.query('INSERT INTO bills VALUES ($1, $2)', [topic, event.eventId]);
  };
  const billsOf = async (topic: string): Promise<string[]> =>
    (await pool.query('SELECT event_id FROM bills WHERE topic = $1 ORDER BY 1', [topic])).rows.map(
      ({ event_id }) => event_id,
    );
  const waiting = (isSo: () => unknown, consumption?: Consumption) =>
    until(isSo, { limitMs: 60_000, say: () => JSON.stringify(consumption?.counts()) });
  const all = (topic: string, count: number, keys = 9) =>
    Array.from({ length: count }, (_, n) => record(envelope(`${topic}-${n}`), `k${n % keys}`));

  it('handles each event once, in the order of its partition, whoever sends it twice', async function () {
    this.timeout(longMs);
    const topic = await topicOf(3);
    const events = all(topic, 900);
    await send(topic, [...events, ...events]);
    const seen: string[] = [];
    const consumption = await start(topic, {
      handlers: {
        ORDER_PLACED: async (event, tx, { key }) => {
          await billed(topic)(event, tx);
          seen.push(`${key} ${event.eventId}`);
        },
      },
    });
    await waiting(() => consumption.counts().handled + consumption.counts().repeated === 1_800, consumption);
    const { handled, repeated, inHand } = consumption.counts();
    assert.deepEqual({ handled, repeated, inHand }, { handled: 900, repeated: 900, inHand: 0 });
    assert.equal(new Set(await billsOf(topic)).size, 900);
    assert.equal((await billsOf(topic)).length, 900);
    for (let key = 0; key < 9; key++) {
      const numbers = seen
        .filter((each) => each.startsWith(`k${key} `))
        .map((each) => Number(each.split('-').at(-1)));
      assert.deepEqual(
        numbers,
        [...numbers].sort((a, b) => a - b),
      );
    }
  });

  it('reads CloudEvents in both modes, and takes the same id of another source for another event', async function () {
    this.timeout(longMs);
    const topic = await topicOf(1);
    const producer = await client.producer();
    const traceId = '0af7651916cd43dd8448eb211c80319c';
    const traceparent = `00-${traceId}-b7ad6b7169203331-01`;
    const own = (id: string) => ({
      ...{ id, source: '/orders', type: 'ORDER_PLACED', data: { id } },
      ...{ userid: 'u-1', correlationid: 'c-1', tags: '{"tenant":"acme"}' },
    });
    const written = (event: object, mode: 'binary' | 'structured', headers: object = {}) => {
      const made = Kafka[mode](new CloudEvent(event));
      const value = typeof made.value === 'string' ? made.value : JSON.stringify(made.value);
      const all = Object.entries({ ...made.headers, ...headers }).filter(([, text]) => text !== undefined);
      return { key: 'k', value, headers: Object.fromEntries(all) as Record<string, string> };
    };
    // As svc writes them.
    const byHeaders = (eventId: string) => ({ eventId, eventType: 'ORDER_PLACED' });
    const foreign = (source: string) => ({
      id: '1',
      source,
      type: 'ORDER_PLACED',
      data: { id: source },
      traceparent,
    });
    const messages = [
      written(own(`${topic}-1`), 'binary', byHeaders(`${topic}-1`)),
      written(own(`${topic}-2`), 'structured', byHeaders(`${topic}-2`)),
      record(envelope(`${topic}-2`)),
      written(foreign('/bank'), 'binary'),
      written(foreign('/mail'), 'binary'),
      written(foreign('/mail'), 'structured'),
    ];
    await producer.send({ topic, messages });
    const seen: unknown[] = [];
    const traces: unknown[] = [];
    const consumption = await start(topic, {
      handlers: {
        ORDER_PLACED: ({ eventId, payload, metadata: { actor, correlationId, tags } }) => {
          seen.push([eventId, payload, actor.userId, correlationId, tags]);
          traces.push(createTraceStarter('kafka')(topic, eventId, undefined).traceId);
        },
      },
    });
    await waiting(() => consumption.counts().handled + consumption.counts().repeated === 6, consumption);
    const ofOwn = ['u-1', 'c-1', { tenant: 'acme' }];
    assert.deepEqual(seen, [
      [`${topic}-1`, { id: `${topic}-1` }, ...ofOwn],
      [`${topic}-2`, { id: `${topic}-2` }, ...ofOwn],
      ['1', { id: '/bank' }, null, null, {}],
      ['1', { id: '/mail' }, null, null, {}],
    ]);
    assert.deepEqual(traces.slice(2), [traceId, traceId]);
  });

  it('goes on where it has ended, and reads nothing twice that it has committed', async function () {
    this.timeout(longMs);
    const topic = await topicOf(2);
    await send(topic, all(topic, 20));
    const handlers = { ORDER_PLACED: billed(topic) };
    const first = await start(topic, { handlers });
    await waiting(() => first.counts().handled === 20, first);
    await first.stop();
    await send(topic, [record(envelope(`${topic}-next`))]);
    const second = await start(topic, { handlers });
    await waiting(() => second.counts().handled === 21, second);
    assert.deepEqual([second.counts().taken, second.counts().repeated], [21, 0]);
  });

  it('shares partitions with others, and hands them over without handling anything twice', async function () {
    this.timeout(longMs);
    const topic = await topicOf(4);
    await send(topic, all(topic, 400));
    const slowly = async (event: { eventId: string }, tx: pg.PoolClient) => {
      await billed(topic)(event, tx);
      await new Promise((resolve) => setTimeout(resolve, 5));
    };
    const one = await start(topic, { handlers: { ORDER_PLACED: slowly } });
    await waiting(() => one.counts().handled > 20, one);
    await start(topic, { handlers: { ORDER_PLACED: slowly } });
    await waiting(async () => (await billsOf(topic)).length >= 400, one);
    assert.equal((await billsOf(topic)).length, 400);
    assert.equal(new Set(await billsOf(topic)).size, 400);
  });

  /** What the coordinator does when a process was frozen for longer than its session. */
  async function expel(groupId: string, memberId: string): Promise<void> {
    const [host, port] = (kafka.brokers[0] ?? '').split(':');
    const connection = new Connection('expels');
    await connection.connect(host ?? '', Number(port));
    if (name === '@platformatic/kafka, groupProtocol consumer')
      await consumerGroupHeartbeatV1.api.async(
        connection,
        groupId,
        memberId,
        -1,
        null,
        null,
        0,
        [],
        null,
        null,
        [],
      );
    else await leaveGroupV5.api.async(connection, groupId, [{ memberId }]);
    await connection.close();
  }

  it('joins its group again when the broker no longer knows it, and commits what it handles then', async function () {
    this.timeout(longMs);
    const topic = await topicOf(1);
    const consumer = consumerOf(topic) as Consumer | PlatformaticConsumer<Buffer, Buffer, Buffer, Buffer>;
    let memberId = '';
    if (name === 'kafkajs')
      (consumer as Consumer).on('consumer.group_join', ({ payload }) => {
        memberId = payload.memberId;
      });
    const consumption = await start(topic, { consumer, handlers: { ORDER_PLACED: billed(topic) } });
    await send(topic, all(topic, 10));
    await waiting(() => consumption.counts().handled === 10, consumption);
    await expel(topic, 'memberId' in consumer ? (consumer.memberId ?? '') : memberId);
    await send(topic, all(`${topic}-later`, 10));
    await waiting(() => consumption.counts().handled === 20, consumption);
    const admin = client.kafka.admin();
    const committed = async () =>
      (await admin.fetchOffsets({ groupId: topic, topics: [topic] }))[0]?.partitions[0]?.offset;
    await until(async () => (await committed()) === '20', { limitMs: 30_000 });
    await admin.disconnect();
  });

  it('a partition that another consumer has: nothing of it goes on where it was', async function () {
    this.timeout(longMs);
    const topic = await topicOf(4);
    const total = 3_000;
    await send(topic, all(topic, total, 16));
    const handled: { key: string | null; number: number; by: string }[] = [];
    const by = (name: string) => ({
      ORDER_PLACED: async (
        event: { eventId: string },
        tx: pg.PoolClient,
        { key }: { key: string | null },
      ) => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        await billed(topic)(event, tx);
        handled.push({ key, number: Number(event.eventId.split('-').at(-1)), by: name });
      },
    });
    const first = await start(topic, { handlers: by('first') });
    await waiting(() => handled.length > 100, first);
    const second = await start(topic, { handlers: by('second') });
    await waiting(() => handled.length === total, first);
    assert.ok(handled.some((each) => each.by === 'second'));
    const behind = handled.filter((each, n) =>
      handled.slice(0, n).some(({ key, number }) => key === each.key && number > each.number),
    );
    assert.deepEqual(behind, [], 'handled behind a later one of their key');
    // The last handler has returned, and its transaction is ended.
    await waiting(() => second.counts().inHand === 0, second);
    assert.equal((await billsOf(topic)).length, total);
  });

  it('a partition that waits while others are slow: what was let go of it comes before what is behind', async function () {
    this.timeout(longMs);
    const topic = await topicOf(2);
    const total = 1_600;
    const [waits, slow] = ['waits', 'slow'];
    const sent = Array.from({ length: total }, (_, n) =>
      record(envelope(`${topic}-${n}`), n % 2 === 0 ? waits : slow, n % 2),
    );
    await send(topic, sent.slice(0, total / 2));
    let isRepaired = false;
    const handled: Record<string, number[]> = { [waits]: [], [slow]: [] };
    const consumption = await start(topic, {
      handlers: {
        ORDER_PLACED: async (event, tx, { key }) => {
          if (key === waits && !isRepaired) throw new Error('not yet');
          await billed(topic)(event, tx);
          if (key === slow) await new Promise((resolve) => setTimeout(resolve, 5));
          handled[key ?? '']?.push(Number(event.eventId.split('-').at(-1)));
        },
      },
    });
    await waiting(() => (handled[slow]?.length ?? 0) > 20, consumption);
    await send(topic, sent.slice(total / 2));
    await waiting(() => (handled[slow]?.length ?? 0) > 60, consumption);
    isRepaired = true;
    await waiting(() => consumption.counts().handled === total, consumption);
    for (const [n, key] of [waits, slow].entries())
      assert.deepEqual(
        handled[key],
        Array.from({ length: total / 2 }, (_, each) => each * 2 + n),
      );
  });

  describe('an event that cannot be handled', () => {
    it('goes to the dead letters with its cause, and svc dlq reads it; the next ones are handled', async function () {
      this.timeout(longMs);
      const topic = await topicOf(1);
      const dead = await topicOf(1);
      const good = record(envelope(`${topic}-good`));
      const raw = (value: string, eventId: string) => ({
        ...good,
        value,
        headers: { ...good.headers, eventId },
      });
      await send(topic, [
        record(envelope(`${topic}-type`, { eventType: 'ORDER_LOST' })),
        raw('{"half', `${topic}-half`),
        raw('{"specversion":"1.0","id":"1"}', `${topic}-newer`),
        raw(`\0\0\0\0\u0007avro`, `${topic}-avro`),
        record(envelope(`${topic}-refused`, { eventType: 'REFUSED' })),
        record(envelope(`${topic}-throws`, { eventType: 'THROWS' })),
        good,
      ]);
      let runs = 0;
      const errors: unknown[] = [];
      const consumption = await start(topic, {
        deadLetters: { topic: dead, producer: await client.producer() },
        onError: (error) => errors.push(error),
        handlers: {
          ORDER_PLACED: billed(topic),
          REFUSED: () => {
            throw new RefusedEvent('no amount of jane@example.com');
          },
          THROWS: async (event, tx) => {
            runs++;
            await billed(topic)(event, tx);
            throw new Error('secret of jane@example.com');
          },
        },
      });
      await waiting(() => consumption.counts().handled === 1, consumption);
      assert.deepEqual(await billsOf(topic), [`${topic}-good`]);
      assert.equal(runs, 3);
      assert.equal(errors.length, 8);
      const records = await kafka.read(dead, { count: 6 });
      assert.ok(records.every(({ value }) => !value?.includes('jane@example.com')));
      const letters = records.map(({ key, valueBytes, headers, timestamp }) => {
        const texts = headers as Record<string, string>;
        return fromDlqRecord({ key, value: valueBytes as Buffer, headers: texts, timestamp }, 'here');
      });
      assert.deepEqual(
        letters.map((letter) =>
          typeof letter === 'string' ? letter : [letter.eventId, letter.topic, letter.reason],
        ),
        [
          [`${topic}-type`, topic, 'SVC_CONSUME_UNKNOWN_TYPE'],
          [`${topic}-half`, topic, 'SVC_CONSUME_UNREADABLE'],
          [`${topic}-newer`, topic, 'SVC_CONSUME_UNREADABLE'],
          [`${topic}-avro`, topic, 'SVC_CONSUME_UNREADABLE'],
          [`${topic}-refused`, topic, 'RefusedEvent'],
          [`${topic}-throws`, topic, 'Error'],
        ],
      );
      const { dead_letter, retries, inHand } = consumption.counts();
      assert.deepEqual({ dead_letter, retries, inHand }, { dead_letter: 6, retries: 2, inHand: 0 });
    });

    for (const format of ['operations', 'recovery'] as const)
      it(`svc dlq recover sends it to its topic again, where it is handled once (${format})`, async function () {
        this.timeout(longMs);
        const topic = await topicOf(1);
        const dead = await topicOf(1);
        await send(topic, [
          record(envelope(`${topic}-1`, { eventType: 'FAILS' })),
          record(envelope(`${topic}-2`)),
        ]);
        let isRepaired = false;
        const consumption = await start(topic, {
          deadLetters: { topic: dead, producer: await client.producer(), format },
          handlers: {
            ORDER_PLACED: billed(topic),
            FAILS: async (event, tx) => {
              if (!isRepaired) throw new Error('not yet');
              await billed(topic)(event, tx);
            },
          },
        });
        await waiting(
          () => consumption.counts().handled + consumption.counts().dead_letter === 2,
          consumption,
        );
        isRepaired = true;
        const to = ['--topic', topic, '--broker', kafka.brokers.join(',')];
        const { code, stderr } = await runSvc(['dlq', 'recover', '--dlq-topic', dead, ...to], {
          cwd: '/',
        });
        assert.equal(code, 0, stderr);
        await waiting(() => consumption.counts().handled === 2, consumption);
        assert.deepEqual(await billsOf(topic), [`${topic}-1`, `${topic}-2`]);
        const [first, again, ...more] = (await kafka.read(topic, { count: 3 })).filter(
          ({ headers }) => headers.eventId === `${topic}-1`,
        );
        assert.deepEqual([again?.value, again?.key, more], [first?.value, first?.key, []]);
      });

    it('without a dead letter topic its partition waits, the others go on, and nothing is lost', async function () {
      this.timeout(longMs);
      const topic = await topicOf(2);
      const to = (eventId: string, partition: number, eventType = 'ORDER_PLACED') =>
        record(envelope(`${topic}-${eventId}`, { eventType }), eventId, partition);
      const rest = (partition: number) =>
        Array.from({ length: 600 }, (_, n) => to(`${partition}-${n}`, partition));
      await send(topic, [to('bad', 0, 'THROWS'), ...rest(0), ...rest(1)]);
      let isRepaired = false;
      const consumption = await start(topic, {
        handlers: {
          ORDER_PLACED: billed(topic),
          THROWS: async (event, tx) => {
            if (!isRepaired) throw new Error('not yet');
            await billed(topic)(event, tx);
          },
        },
      });
      await waiting(() => consumption.counts().handled === 600, consumption);
      await waiting(() => consumption.counts().retries > 4, consumption);
      assert.ok((await billsOf(topic)).every((id) => id.startsWith(`${topic}-1-`)));
      isRepaired = true;
      await waiting(() => consumption.counts().handled === 1_201, consumption);
      assert.equal(new Set(await billsOf(topic)).size, 1_201);
      assert.equal((await billsOf(topic)).length, 1_201);
    });

    it('a handler that hangs is told so, and holds up its partition alone', async function () {
      this.timeout(longMs);
      const topic = await topicOf(2);
      const to = (eventId: string, partition: number, eventType = 'ORDER_PLACED') =>
        record(envelope(`${topic}-${eventId}`, { eventType }), eventId, partition);
      await send(topic, [to('hangs', 0, 'HANGS'), to('behind', 0), to('a', 1), to('b', 1)]);
      let isTold = false;
      const hanging = Promise.withResolvers<void>();
      const consumption = await start(topic, {
        ...{ handlerTimeoutMs: 300, concurrency: 1 },
        handlers: {
          ORDER_PLACED: billed(topic),
          HANGS: (_, __, { signal }) => {
            signal.addEventListener('abort', () => {
              isTold = true;
            });
            return hanging.promise;
          },
        },
      });
      await waiting(() => isTold && consumption.counts().handled === 2, consumption);
      assert.deepEqual(await billsOf(topic), [`${topic}-a`, `${topic}-b`]);
      await assert.rejects(consumption.stop(500), {
        code: 'SVC_CONSUME_HANDLER_HANGS',
        message: new RegExp(`${topic}-0`),
      });
      const next = await start(topic, { handlers: { ORDER_PLACED: billed(topic), HANGS: billed(topic) } });
      // It is still in its transaction: the next one waits for that.
      hanging.reject(new Error('given up'));
      await waiting(async () => (await billsOf(topic)).length === 4, next);
    });

    it('a connection that is lost in a handler is no fault of the event', async function () {
      this.timeout(longMs);
      const topic = await topicOf(1);
      await send(topic, [record(envelope(`${topic}-1`)), record(envelope(`${topic}-2`))]);
      const ends = ['while it asks', 'while it waits'];
      const consumption = await start(topic, {
        retry: { initialMs: 50, maxMs: 200, maxAttempts: 1 },
        handlers: {
          ORDER_PLACED: async (event, tx) => {
            await billed(topic)(event, tx);
            const end = ends.shift();
            if (end === 'while it asks') await tx.query('SELECT pg_terminate_backend(pg_backend_pid())');
            if (end !== 'while it waits') return;
            const { pid } = (await tx.query('SELECT pg_backend_pid() AS pid')).rows[0];
            await pool.query('SELECT pg_terminate_backend($1)', [pid]);
            await new Promise((resolve) => setTimeout(resolve, 100));
          },
        },
      });
      await waiting(() => consumption.counts().handled === 2, consumption);
      assert.deepEqual(await billsOf(topic), [`${topic}-1`, `${topic}-2`]);
      assert.deepEqual([consumption.counts().retries, ends], [2, []]);
    });

    it('a table that is missing: it does not start; dropped later, its partitions wait for it', async function () {
      this.timeout(longMs);
      const topic = await topicOf(1);
      await send(topic, [record(envelope(`${topic}-1`))]);
      const inbox = createInbox({ pool, consumer: topic, table: `inbox_${Date.now()}` });
      const handlers = { ORDER_PLACED: billed(topic) };
      await assert.rejects(start(topic, { inbox, handlers }), { code: 'SVC_CONSUME_TABLE_MISSING' });
      const errors = new Set<unknown>();
      const consumption = await start(topic, {
        ...{ inbox: { ...inbox, check: async () => {}, cleanup: async () => 0 }, handlers },
        onError: (error) => errors.add((error as { code?: string }).code),
      });
      await waiting(() => consumption.counts().retries > 4, consumption);
      assert.deepEqual([...errors], ['SVC_CONSUME_TABLE_MISSING']);
      await inbox.migrate();
      await waiting(() => consumption.counts().handled === 1, consumption);
    });
  });
}
