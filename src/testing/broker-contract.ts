// testing/: the contract of the port `Broker`, as tests for any runner.

import assert from 'node:assert/strict';
import type { Broker, BrokerRecord, SendFailure, SendFailureKind, SendResult } from '../publish/broker.ts';

/** A test for any test runner: `it(title, run)`. */
export interface ContractCase {
  readonly title: string;
  readonly run: () => Promise<void>;
}

/**
 * The contract of the port `Broker`, one test per promise. svc's own brokers pass it, and so must one that an application
 * registers. `get` is called when a test runs.
 * @example
 * ```ts
 * describe('our broker', () => {
 *   for (const { title, run } of brokerContract(() => underTest)) it(title, run);
 * });
 * ```
 */
export function brokerContract(get: () => BrokerUnderTest): readonly ContractCase[] {
  const cases: ContractCase[] = [];
  const opened: Broker[] = [];
  const open = (): Broker => {
    const broker = get().open();
    opened.push(broker);
    return broker;
  };
  const prepared = async (partitionCount = 1): Promise<string> => {
    const topic = newTopic();
    await get().createTopic(topic, partitionCount);
    return topic;
  };
  const values = (records: readonly ContractRecord[]): unknown[] =>
    records.map(({ value }) => JSON.parse(String(value)));

  function it(title: string, test: () => Promise<void>): void {
    const end = () => Promise.all(opened.splice(0).map((broker) => broker.close(1000)));
    cases.push({ title, run: () => test().finally(end) });
  }

  it('connects, and again when it is connected', async () => {
    const broker = open();
    assert.deepEqual(await broker.connect(), { ok: true });
    assert.deepEqual(await broker.connect(), { ok: true });
  });

  it('connects by itself at the first send', async () => {
    const topic = await prepared();
    assert.deepEqual(await open().send(topic, 0, [recordOf('first')]), { ok: true });
    assert.equal(await get().count(topic), 1);
  });

  it('stores key, headers, timestamp and the bytes of the value exactly', async () => {
    const topic = await prepared();
    const sent = [
      recordOf(
        { text: 'Grüße, 世界 🎉 \u2028 \\n "quoted"' },
        { key: 'größe-键', headers: { eventType: 'ÜBER', 'content-type': 'application/json' } },
      ),
      recordOf({ empty: '' }, { key: '', headers: {} }),
      recordOf('no key', { key: null, headers: { empty: '' } }),
      recordOf('x'.repeat(500_000), { timestamp: 1_772_618_400_131 }),
      recordOf(null, { timestamp: 1_772_618_400_132 }),
    ];
    assert.deepEqual(await open().send(topic, 0, sent), { ok: true });
    const found = await get().read(topic, sent.length);
    assert.deepEqual(
      found.map(({ key, value, headers, timestamp }) => ({
        key,
        headers: { ...headers },
        timestamp,
        value: value?.toString('hex'),
      })),
      sent.map(({ key, value, headers, timestamp }) => ({
        key,
        headers,
        timestamp,
        value: value.toString('hex'),
      })),
    );
  });

  it('keeps the order of the records of a send, and of sends one after another', async () => {
    const topic = await prepared();
    const broker = open();
    await broker.send(
      topic,
      0,
      Array.from({ length: 100 }, (_, index) => recordOf(index)),
    );
    for (let index = 100; index < 120; index++) await broker.send(topic, 0, [recordOf(index)]);
    assert.deepEqual(
      values(await get().read(topic, 120)),
      Array.from({ length: 120 }, (_, index) => index),
    );
  });

  it('takes several sends at once and stores each record once', async () => {
    const topic = await prepared(3);
    const broker = open();
    const sends = Array.from({ length: 60 }, (_, index) =>
      broker.send(topic, get().hasPartitions ? index % 3 : 0, [
        recordOf({ index, half: 0 }),
        recordOf({ index, half: 1 }),
      ]),
    );
    for (const result of await Promise.all(sends)) assert.deepEqual(result, { ok: true });
    const found = values(await get().read(topic, 120)) as { index: number; half: number }[];
    assert.deepEqual(
      found.map(({ index, half }) => index * 2 + half).sort((a, b) => a - b),
      Array.from({ length: 120 }, (_, index) => index),
    );
    for (let at = 0; at < found.length; at += 2) {
      assert.deepEqual(
        [found[at]?.half, found[at + 1]?.half],
        [0, 1],
        'the records of a send stand together',
      );
      assert.equal(found[at]?.index, found[at + 1]?.index);
    }
  });

  it('stores all records of a send or none', async () => {
    const { refused } = get();
    if (refused === undefined) return;
    const topic = await prepared();
    const broker = open();
    const failure = failureOf(
      await broker.send(topic, 0, [recordOf('before'), refused.record, recordOf('after')]),
    );
    assert.equal(failure.kind, refused.kind);
    assertOneLine(failure);
    assert.equal(await get().count(topic), 0);
    assert.deepEqual(await broker.send(topic, 0, [recordOf('next')]), { ok: true });
    assert.equal(await get().count(topic), 1);
  });

  it('writes to the partition that is named', async () => {
    const topic = await prepared(4);
    const broker = open();
    const wanted = get().hasPartitions ? [3, 0, 2, 3] : [0, 0, 0, 0];
    for (const partition of wanted) await broker.send(topic, partition, [recordOf(partition)]);
    const found = await get().read(topic, wanted.length);
    assert.deepEqual(
      found.map(({ partition }) => partition),
      [...wanted].sort(),
    );
    assert.deepEqual(values(found), [...wanted].sort());
  });

  it('keeps records of one key together where no partition is named', async () => {
    const topic = await prepared(6);
    const broker = open();
    for (let index = 0; index < 12; index++) {
      await broker.send(topic, undefined, [recordOf(index, { key: `key-${index % 3}` })]);
    }
    const found = await get().read(topic, 12);
    for (const key of ['key-0', 'key-1', 'key-2']) {
      const partitions = new Set(
        found.filter((record) => record.key === key).map(({ partition }) => partition),
      );
      assert.equal(partitions.size, 1, key);
    }
  });

  it('takes a send of no records as done', async () => {
    const topic = await prepared();
    assert.deepEqual(await open().send(topic, 0, []), { ok: true });
    assert.equal(await get().count(topic), 0);
  });

  it('makes an unknown topic with its first record, and stores that record once', async () => {
    const topic = newTopic();
    const broker = open();
    assert.deepEqual(await broker.send(topic, undefined, [recordOf('first of its topic')]), { ok: true });
    assert.equal(await get().count(topic), 1);
  });

  it('refuses a name that Kafka refuses as fatal, in one line, and goes on', async () => {
    const broker = open();
    const tooLong = 'a'.repeat(get().longestTopicName + 1);
    for (const topic of ['', '.', '..', 'a/b', '../up', 'a b', 'a\nb', 'ä', tooLong]) {
      const failure = failureOf(await broker.send(topic, 0, [recordOf({ secret: 'sesame' })]));
      assert.equal(failure.kind, 'fatal', JSON.stringify(topic));
      assert.equal(failure.cause, 'INVALID_TOPIC_EXCEPTION');
      assertOneLine(failure);
    }
    assert.deepEqual(await broker.send(await prepared(), 0, [recordOf('good')]), { ok: true });
  });

  it('takes the longest name', async () => {
    const start = newTopic();
    const topic = start + '-'.repeat(get().longestTopicName - start.length);
    assert.deepEqual(await open().send(topic, 0, [recordOf(1)]), { ok: true });
  });

  it('knows the partitions of a topic', async () => {
    const topic = await prepared(4);
    const broker = open();
    assert.equal(await broker.partitionsFor(topic), get().hasPartitions ? 4 : 1);
    assert.equal(await broker.partitionsFor('not a topic'), undefined);
  });

  it('describes its cluster', async () => {
    const { clusterId, nodeCount } = await open().describe();
    assert.ok(nodeCount >= 1);
    if (get().isCluster) assert.match(String(clusterId), /^[\w-]{22}$/);
    else assert.equal(clusterId, null);
  });

  it('reports its connections and sends, or nothing if it cannot', async () => {
    const broker = open();
    assert.equal(broker.traffic?.(), undefined, 'nothing is loaded before the first use');
    const topic = await prepared();
    const first = recordOf(1);
    await broker.send(topic, 0, [first]);
    const { isCluster } = get();
    assert.equal(broker.traffic !== undefined, isCluster);
    if (broker.traffic === undefined) return;
    const idle = broker.traffic();
    assert.ok((idle?.connectionCount ?? 0) >= 1);
    assert.equal(idle?.inFlightRequests, 0);
    const latency = idle?.requestLatencyAvg ?? Number.NaN;
    assert.ok(latency >= 0 && latency < 10_000, String(latency));
    let max = 0;
    const sending = broker.send(topic, 0, [recordOf('x'.repeat(500_000))]).finally(() => {
      sent = true;
    });
    let sent = false;
    while (!sent) {
      max = Math.max(max, broker.traffic()?.inFlightRequests ?? 0);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await sending;
    assert.equal(max, 1);
    assert.equal(broker.traffic()?.inFlightRequests, 0);
    await broker.close(1_000);
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(broker.traffic()?.connectionCount, 0);
  });

  it('waits for sends in flight when it closes', async () => {
    const topic = await prepared();
    const broker = open();
    const sends = Array.from({ length: 20 }, (_, index) => broker.send(topic, 0, [recordOf(index)]));
    await broker.close(5000);
    for (const result of await Promise.all(sends)) assert.deepEqual(result, { ok: true });
    assert.equal(await get().count(topic), 20);
  });

  it('fails for good after it was closed', async () => {
    const topic = await prepared();
    const broker = open();
    await broker.connect();
    await broker.close(1000);
    await broker.close(1000);
    for (const result of [await broker.send(topic, 0, [recordOf(1)]), await broker.connect()]) {
      const failure = failureOf(result);
      assert.equal(failure.kind, 'fatal');
      assertOneLine(failure);
    }
    await assert.rejects(broker.describe(), { code: 'SVC_ADAPTERS_NOT_REACHABLE' });
    assert.equal(await get().count(topic), 0);
  });

  it('closes without ever having been used', async () => {
    await open().close(1000);
  });
  return cases;
}

/** A record as an independent reader found it. */
export interface ContractRecord {
  readonly key: string | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, string | null>>;
  readonly timestamp: number;
  readonly partition: number;
}

/** The access of the tests to a broker, and the features it declares. */
export interface BrokerUnderTest {
  /** A new client of the same broker, which shares only the stored records. */
  open(): Broker;
  createTopic(name: string, partitionCount: number): Promise<void>;
  /** At least `count` records, in the order of partitions and offsets. */
  read(topic: string, count: number): Promise<readonly ContractRecord[]>;
  count(topic: string): Promise<number>;
  /** Whether topics have the requested number of partitions; else each has one. */
  readonly hasPartitions: boolean;
  /** Whether there is a cluster with an id, and connections that are counted. */
  readonly isCluster: boolean;
  /** The maximum length of a topic name. */
  readonly longestTopicName: number;
  /** A record that the broker itself refuses, and the kind of failure. */
  readonly refused?: { readonly record: BrokerRecord; readonly kind: SendFailureKind } | undefined;
}

let sequence = 0;
/** Unique across runs, too. */
export const newTopic = (): string =>
  `contract.${Date.now().toString(36)}${Math.random().toString(36).slice(2, 6)}.${++sequence}`;

export function recordOf(value: unknown, rest: Partial<BrokerRecord> = {}): BrokerRecord {
  return {
    key: null,
    value: Buffer.from(JSON.stringify(value)),
    headers: {},
    timestamp: Date.now(),
    ...rest,
  };
}

export function failureOf(result: SendResult): SendFailure {
  assert.equal(result.ok, false, 'the send succeeded');
  return (result as { failure: SendFailure }).failure;
}

/** The failure as an operator reads it. */
export function assertOneLine({ message, cause }: SendFailure): void {
  assert.match(message, /^[^\n\r]{10,400}$/);
  assert.match(cause, /^[^\n\r]+$/);
  assert.doesNotMatch(message, /sesame/);
}
