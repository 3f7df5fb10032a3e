import assert from 'node:assert/strict';
import type { OutboxRow } from '../../../src/outbox/outbox-row.ts';
import {
  type BrokerRecord,
  createSendSlots,
  partitionOf,
  type SendResult,
} from '../../../src/publish/broker.ts';
import { recover } from '../../../src/publish/recovery/recover.ts';
import type { RecoverySource, StoredEvent } from '../../../src/publish/recovery-source.ts';
import { createLane, createSender, newBatch } from '../../../src/publish/sender/sender.ts';
import { createDlqTier } from '../../../src/publish/tiers/tiers.ts';
import { createMemoryOutboxStore } from '../../outbox/memory-outbox-store.ts';
import { relayOver, rowOf } from '../../outbox/relay/relay-under-test.ts';
import { silentLog } from '../../support/log.ts';
import { failedEvent } from '../failed-event.ts';
import { away, event, noAnswer, queueOver, tooLarge } from '../fake-cluster.ts';
import { type End, type Handed, type SenderTraits, senderContract } from './sender-contract.ts';

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

senderContract('the queue of the main topic', {
  maxEvents: 500,
  retries: true,
  limitMs: 30_000,
  make(broker) {
    const ends = new Map<string, End>();
    const { queue } = queueOver(broker);
    return {
      send(items) {
        for (const { id, key } of items)
          void queue
            .publish(event(id, { key }))
            .then((outcome) => ends.set(id, outcome === 'published' ? 'stored' : 'elsewhere'));
      },
      endOf: (id) => ends.get(id),
      close: () => queue.close(8_000),
    };
  },
});

senderContract('dead letters', {
  maxEvents: 250,
  retries: false,
  limitMs: 1_000,
  make(broker) {
    const ends = new Map<string, End>();
    const tier = createDlqTier({
      ...{ broker, topic: 'dlq', format: 'operations', leastTimeMs: 1_000, logger: silentLog, partitionOf },
      cluster: { isAway: false },
      onSendFailed() {},
    });
    return {
      send(items) {
        for (const { id, key } of items) {
          const failed = failedEvent(id, { deadlineAtMs: 0 });
          const letter = { ...failed, record: { ...failed.record, key, value: failed.record.value } };
          void tier.store(letter).then((stored) => ends.set(id, stored ? 'stored' : 'elsewhere'));
        }
      },
      endOf: (id) => ends.get(id),
      close: () => tier.close(8_000),
    };
  },
});

/** Runs one after the other over what is left, as a drain does. */
const recovery = (keepsOrder: boolean): SenderTraits => ({
  isInRow: !keepsOrder,
  maxEvents: 500,
  retries: true,
  limitMs: undefined,
  make(broker) {
    const left = new Map<string, StoredEvent>();
    const ends = new Map<string, End>();
    const uncertain = new Map();
    let isStopped = false;
    let running: Promise<unknown> | undefined;
    const source: RecoverySource = {
      name: 'fake',
      async open() {},
      count: async () => left.size,
      async *read(size) {
        const all = [...left.values()];
        for (let at = 0; at < all.length; at += size)
          yield { events: all.slice(at, at + size), unreadable: [] };
      },
      async done(events) {
        for (const { eventId } of events) {
          left.delete(eventId);
          ends.set(eventId, 'stored');
        }
      },
      async close() {},
    };
    async function runs(): Promise<void> {
      while (left.size > 0 && !isStopped) {
        const held = new Set<string | null>();
        const run = recover({
          ...{ source, keepsOrder, uncertain, partitionOf, sleep, ratePerSecond: 0, dryRun: false },
          ...(keepsOrder ? { retryWaitsMs: [] } : {}),
          send: broker.send,
          partitionsFor: broker.partitionsFor,
          accept: ({ key }) => !held.has(key),
          onHeldUp: ({ key }) => held.add(key),
          isStopped: () => isStopped,
        });
        await run.catch(() => {});
        for (const id of left.keys()) ends.set(id, 'kept');
        await sleep(1_000);
      }
      running = undefined;
    }
    return {
      send(items) {
        for (const { id, key } of items) left.set(id, storedEvent(id, key));
        // What comes in one turn is read together.
        running ??= sleep(1).then(runs);
      },
      endOf: (id) => ends.get(id),
      async close() {
        isStopped = true;
        await running;
      },
    };
  },
});
const storedEvent = (id: string, key: string): StoredEvent => ({
  ...{ place: id, eventId: id, eventType: 'T', topic: 'orders', key, headers: { eventId: id } },
  ...{ value: Buffer.from(id), storedAt: 0, reason: undefined },
});
senderContract('recovery that keeps the order', recovery(true));
senderContract('recovery in a row', recovery(false));

senderContract('the relay', {
  maxEvents: 500,
  retries: true,
  limitMs: 2_000,
  make(broker, nowMs) {
    const store = createMemoryOutboxStore(nowMs);
    const relay = relayOver({ store, broker }, { batchSize: 1_000, circuitBreaker: false });
    relay.start();
    let isClosed = false;
    return {
      send(items: readonly Handed[]) {
        const rows = items.map(({ id, key }): OutboxRow => {
          const row = rowOf(key, 0, { eventId: id });
          return { ...row, headers: { ...row.headers, eventId: id } };
        });
        void store.insert(rows).then(() => relay.wake());
      },
      endOf(id) {
        const status = store.statusOf(id);
        if (status === 'PUBLISHED') return 'stored';
        return status === 'FAILED' ? 'elsewhere' : 'kept';
      },
      close() {
        if (isClosed) return Promise.resolve();
        isClosed = true;
        return relay.stop(8_000);
      },
    };
  },
});

describe('the sends of a partition', () => {
  it('act upon an answer at once: nobody can ask for a send between a failure and its end', async () => {
    const order: string[] = [];
    await new Promise<void>((resolve) => {
      const lane = createLane<number, ReturnType<typeof newBatch<number>>>({
        slots: createSendSlots(1),
        next: () => newBatch([1]),
        send: async () => ({ ok: false, failure: away }),
        putFirst() {},
        onStored() {},
        onFailed() {
          queueMicrotask(() => order.push('another turn'));
          order.push('failed');
          return 'ended';
        },
        onSent() {
          order.push('sent');
          setImmediate(resolve);
        },
      });
      lane.ask();
    });
    assert.deepEqual(order, ['failed', 'sent', 'another turn']);
  });
});

describe('the sender, with nothing around it', () => {
  function over(answer: (ids: string[], nth: number) => Promise<SendResult> | SendResult, limitMs = 10) {
    const sends: string[] = [];
    const records = new Map<string, BrokerRecord>();
    const sender = createSender<string>({
      ...{ maxInFlight: 2, limits: { maxEvents: 3, maxBytes: 100 }, bytesOf: () => 1 },
      toRecord: (id, timestamp) => ({ key: null, value: Buffer.from(id), headers: {}, timestamp }),
      async send(_, sent, ids) {
        for (const [at, id] of ids.entries()) {
          const known = records.get(id);
          sends.push(known === undefined ? id : `${id}${known === sent[at] ? ' again' : ' anew'}`);
          records.set(id, sent[at] as BrokerRecord);
        }
        sends.push('|');
        return answer([...ids], sends.filter((one) => one === '|').length);
      },
      timeLimit: { limitMs: () => limitMs, keepsAlive: true, late: () => noAnswer },
      mayGo: () => 'send',
      uncertain: { batches: new Map(), idOf: (id) => id },
      onStored() {},
      onFailed: () => 'ended',
    });
    const put = (...ids: string[]): Promise<void> => {
      for (const id of ids) sender.put(id, 't', 0);
      return sender.idle();
    };
    return { sends, sender, put };
  }
  const ok = { ok: true } as const;

  it('sends nothing behind a send that is late, whoever wants it', async () => {
    let answer = (_: SendResult): void => {};
    const { sends, sender, put } = over((_, nth) =>
      nth === 1 ? new Promise((resolve) => (answer = resolve)) : ok,
    );
    await put('a');
    sender.put('b', 't', 0);
    sender.pump();
    await sleep(30);
    assert.deepEqual(sends, ['a', '|']);
    answer(ok);
    await sender.idle();
    assert.deepEqual(sends, ['a', '|', 'b', '|']);
  });

  it('sends what may be stored again alone and whole, whatever its answer was, until another batch is stored', async () => {
    const { sends, put } = over((_, nth) => {
      if (nth > 2) return ok;
      return { ok: false, failure: nth === 1 ? noAnswer : tooLarge };
    });
    await put('b', 'c');
    await put('b', 'c');
    await put('a', 'b', 'c', 'd');
    assert.deepEqual(sends, [
      ...['b', 'c', '|', 'b again', 'c again', '|'],
      // It is not the last one of its partition any more: no broker knows it again.
      ...['a', '|', 'b anew', 'c anew', 'd', '|'],
    ]);
  });

  it('gives up what is in no send, of one topic or of all', async () => {
    const { sender } = over(() => new Promise(() => {}), 1);
    sender.put('a', 't', 0);
    sender.pump();
    for (const id of ['b', 'c']) sender.put(id, 't', 0);
    sender.put('d', 'other', 0);
    assert.deepEqual([sender.takeAll('other'), sender.takeAll(), sender.takeAll()], [['d'], ['b', 'c'], []]);
    await sender.idle();
  });
});
