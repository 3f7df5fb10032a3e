import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs from 'kafkajs';
import { createKafkaBroker } from '../../src/adapters/kafka/kafka-broker.ts';
import type { KafkaClientOptions } from '../../src/adapters/kafka/kafka-client-options.ts';
import { partitionOfKey } from '../../src/publish/broker.ts';
import {
  createClusterState,
  createRetryPolicy,
  defaultBreaker,
} from '../../src/publish/main/cluster-state.ts';
import { createQueue, type QueueOptions } from '../../src/publish/main/queue.ts';
import type { FailedEvent } from '../../src/publish/tier.ts';
import { kafkaClients } from '../adapters/kafka/kafka-clients.ts';
import { kafkaOptions, textRecord } from '../adapters/kafka/kafka-options.ts';
import { event, usualRetry } from '../publish/fake-cluster.ts';
import { useClock } from '../support/fake-time.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';

const partitionCount = 6;

for (const { name, create, load } of kafkaClients) {
  requiring('kafka', `the queue on a real Kafka: ${name}`, function () {
    this.timeout(120_000);
    let kafka: TestKafka;
    const failed: FailedEvent[] = [];
    const open: (() => Promise<void>)[] = [];

    before(async () => {
      kafka = await startKafka();
    });
    afterEach(async () => {
      for (const close of open.splice(0)) await close();
      failed.length = 0;
    });

    function queueOnKafka(
      topic: string,
      rest: Partial<QueueOptions> = {},
      client: Partial<KafkaClientOptions> = {},
    ): { queue: ReturnType<typeof createQueue>; sends: number[] } {
      const broker = create(kafkaOptions(kafka.brokers, client));
      const sends: number[] = [];
      const queue = createQueue({
        broker: {
          ...broker,
          send: (topicName, partition, records) => {
            sends.push(records.length);
            return broker.send(topicName, partition, records);
          },
        },
        topic,
        batch: { maxEvents: 500, maxBytes: 900_000, lingerMs: 5 },
        buffer: { maxEvents: 10_000, maxBytes: 32 * 1024 * 1024 },
        maxInFlight: 8,
        deliveryTimeoutMs: 30_000,
        onLost: () => {},
        retry: createRetryPolicy(usualRetry),
        cluster: createClusterState({ ...defaultBreaker, ask: async () => broker.describe() }),
        onPublished() {},
        onSendFailed() {},
        onRetried() {},
        next: async (one) => {
          failed.push(one);
          return 'dlq';
        },
        ...rest,
      });
      open.push(async () => {
        await queue.close(5_000);
        await broker.close(1_000);
      });
      return { queue, sends };
    }

    it('publishes 1,000 events of 20 keys, each once, in the order of their key, in a few sends', async () => {
      const topic = `queue.${Date.now()}`;
      await kafka.createTopic(topic, { partitions: partitionCount });
      const { queue, sends } = queueOnKafka(topic);
      const ids = Array.from({ length: 1_000 }, (_, id) => id);
      const outcomes = await Promise.all(
        ids.map((id) => queue.publish(event(String(id), { key: `order-${id % 20}` }))),
      );
      assert.deepEqual(new Set(outcomes), new Set(['published']));
      assert.ok(sends.length <= 2 * partitionCount, `${sends.length} sends`);

      const records = await kafka.read(topic, { count: 1_000 });
      assert.equal(records.length, 1_000);
      const byKey = Map.groupBy(records, ({ key }) => key);
      assert.equal(byKey.size, 20);
      for (const [key, of] of byKey) {
        assert.deepEqual(
          of.map(({ headers }) => Number(headers.eventId)),
          ids.filter((id) => `order-${id % 20}` === key),
        );
        assert.deepEqual(
          new Set(of.map(({ partition }) => partition)),
          new Set([partitionOfKey(key as string, partitionCount)]),
        );
      }
      assert.match(String(records[0]?.value), /^\{"eventId":"\d+","publishedAt":"2\d{3}-[^"]+Z"\}$/);
      assert.deepEqual(failed, []);
    });

    it('halves a batch that the broker finds too large; one event that is too large alone goes to the next tier', async () => {
      const topic = `queue.large.${Date.now()}`;
      await kafka.createTopic(topic, { config: { 'max.message.bytes': '20000' } });
      const { queue, sends } = queueOnKafka(topic);
      const sized = (id: number, bytes: number) =>
        event(String(id), { key: 'k', after: `","x":"${'x'.repeat(bytes)}"}` });
      const ids = Array.from({ length: 40 }, (_, id) => id);
      const outcomes = await Promise.all(
        ids.map((id) => queue.publish(sized(id, id === 17 ? 30_000 : 1_000))),
      );
      assert.deepEqual(
        outcomes,
        ids.map((id) => (id === 17 ? 'dlq' : 'published')),
      );
      assert.deepEqual(
        [failed[0]?.event.eventId, failed[0]?.failure.kind, failed.length],
        ['17', 'too_large', 1],
      );
      assert.equal(sends[0], 40);
      const records = await kafka.read(topic, { count: 39 });
      assert.deepEqual(
        records.map(({ headers }) => Number(headers.eventId)),
        ids.filter((id) => id !== 17),
      );
    });

    for (const hours of [3, -3])
      it(`tries once, and takes nothing for a bad event, with a clock that is ${hours} h off`, async () => {
        const topic = `queue.clock.${hours}.${Date.now()}`;
        const config = Object.fromEntries(
          ['before', 'after'].map((side) => [`message.timestamp.${side}.max.ms`, '3600000']),
        );
        await kafka.createTopic(topic, { config });
        useClock({ now: () => Date.now() + hours * 3_600_000 });
        const { queue, sends } = queueOnKafka(topic);
        const ids = Array.from({ length: 40 }, (_, id) => String(id));
        await Promise.all(ids.map((id) => queue.publish(event(id, { key: 'k' }))));
        assert.deepEqual(sends, [40]);
        assert.deepEqual(
          failed.map(({ event: { eventId } }) => eventId),
          ids,
        );
        for (const { failure } of failed) {
          assert.equal(failure.cause, 'INVALID_TIMESTAMP');
          assert.match(failure.message, /from this machine's clock .*: set the clock$/);
        }
        assert.equal(await kafka.count(topic), 0);
      });

    for (const [what, count] of [
      ['as many', partitionCount],
      ['more', 2 * partitionCount],
      ['fewer', partitionCount / 2],
    ] as const)
      it(`a topic that is deleted under load and made again with ${what} partitions has each later event once, in the order of its key`, async () => {
        const topic = `queue.anew.${count}.${Date.now()}`;
        await kafka.createTopic(topic, { partitions: partitionCount });
        const retry = createRetryPolicy({ ...usualRetry, maxAttempts: 100, maxIntervalMs: 100 });
        const { queue } = queueOnKafka(topic, { retry }, { makesTopics: false });
        const admin = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: 0 }).admin();
        await admin.connect();
        open.push(() => admin.disconnect());
        const outcomes: Promise<unknown>[] = [];
        const publishFor = async (ms: number, until?: Promise<unknown>): Promise<void> => {
          let isOver = until === undefined;
          until?.then(() => {
            isOver = true;
          });
          for (const end = Date.now() + ms; Date.now() < end || !isOver; await sleep(2))
            for (let more = 4; more > 0; more--) {
              const id = outcomes.length;
              outcomes.push(queue.publish(event(String(id), { key: `k${id % 40}` })));
            }
        };
        await publishFor(500);
        const made = (async () => {
          await admin.deleteTopics({ topics: [topic] });
          for (;;) {
            try {
              await admin.createTopics({ topics: [{ topic, numPartitions: count }], waitForLeaders: true });
              return;
            } catch {
              await sleep(20);
            }
          }
        })();
        await publishFor(0, made);
        const later = outcomes.length;
        await publishFor(1_000);
        assert.deepEqual(new Set(await Promise.all(outcomes)), new Set(['published']));

        const records = await kafka.read(topic, { count: outcomes.length - later });
        const ids = records.map(({ headers }) => Number(headers.eventId));
        assert.equal(new Set(ids).size, ids.length, 'an event is there twice');
        assert.deepEqual(
          ids.filter((id) => id >= later).sort((a, b) => a - b),
          Array.from({ length: outcomes.length - later }, (_, index) => later + index),
        );
        for (const [key, of] of Map.groupBy(records, (record) => record.key)) {
          const order = of.map(({ headers }) => Number(headers.eventId));
          assert.deepEqual(
            order,
            order.toSorted((a, b) => a - b),
          );
          assert.deepEqual(
            new Set(of.map(({ partition }) => partition)),
            new Set([partitionOfKey(key as string, count)]),
          );
        }
      });

    it('a topic that was made anew with more partitions while nothing was sent is noticed by its first answer', async () => {
      const topic = `queue.anew.${Date.now()}`;
      await kafka.createTopic(topic, { partitions: partitionCount });
      const { queue } = queueOnKafka(topic, {}, { makesTopics: false });
      const publish = (from: number) =>
        Promise.all(
          Array.from({ length: 40 }, (_, index) =>
            queue.publish(event(String(from + index), { key: `k${index}` })),
          ),
        );
      await publish(0);
      const admin = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: 0 }).admin();
      await admin.connect();
      open.push(() => admin.disconnect());
      await admin.deleteTopics({ topics: [topic] });
      await kafka.createTopic(topic, { partitions: 2 * partitionCount });
      // Until then the broker says that it does not lead them, which is noticed as well.
      await sleep(2_000);
      for (let from = 100; from <= 300; from += 100) await publish(from);
      const records = await kafka.read(topic, { count: 120 });
      assert.equal(records.length, 120);
      const misplaced = records.filter(
        ({ key, partition }) => partition !== partitionOfKey(key as string, 2 * partitionCount),
      );
      assert.ok(
        misplaced.every(({ headers }) => Number(headers.eventId) < 200),
        `${misplaced.length} misplaced`,
      );
    });

    it('a connection that swallows its answers is closed after seconds, not after the time-out of a request, and no batch is stored twice', async () => {
      const topic = `queue.swallowed.${Date.now()}`;
      await kafka.createTopic(topic);
      const sockets: Socket[] = [];
      const options = kafkaOptions(kafka.brokers, { requestTimeoutMs: 28_000 });
      const broker = createKafkaBroker(name, options, async (given) => {
        const transport = await load(given);
        return async (address, signal) => {
          const signedIn = await transport(address, signal);
          sockets.push(signedIn.socket);
          return signedIn;
        };
      });
      open.push(() => broker.close(1_000));
      assert.deepEqual(await broker.send(topic, 0, [textRecord('before')]), { ok: true });
      const swallowing = sockets.at(-1)?.pause();
      const started = Date.now();
      assert.deepEqual(await broker.send(topic, 0, [textRecord('during')]), { ok: true });
      const tookMs = Date.now() - started;
      assert.ok(tookMs > 2_500 && tookMs < 10_000, `${tookMs} ms`);
      assert.equal(swallowing?.destroyed, true);
      assert.deepEqual(await broker.send(topic, 0, [textRecord('after')]), { ok: true });
      const records = await kafka.read(topic, { count: 3 });
      assert.deepEqual(
        records.map(({ value }) => String(value)),
        ['"before"', '"during"', '"after"'],
      );
    });

    it('publishes to a topic that the broker makes for it', async () => {
      const topic = `queue.made.${Date.now()}`;
      const { queue, sends } = queueOnKafka(topic);
      const ids = Array.from({ length: 200 }, (_, id) => id);
      const outcomes = await Promise.all(
        ids.map((id) => queue.publish(event(String(id), { key: `k${id % 3}` }))),
      );
      assert.deepEqual(new Set(outcomes), new Set(['published']));
      assert.equal(sends[0], 1, 'the first is sent alone: nobody knows the partitions yet');
      assert.ok(sends.length < 20, `${sends.length} sends`);
      const records = await kafka.read(topic, { count: 200 });
      for (const [key, of] of Map.groupBy(records, (record) => record.key))
        assert.deepEqual(
          of.map(({ headers }) => Number(headers.eventId)),
          ids.filter((id) => `k${id % 3}` === key),
        );
    });
  });
}
