import assert from 'node:assert/strict';
import type { OutboxRow } from '../../../src/outbox/outbox-row.ts';
import { notMadeFailure } from '../../../src/publish/broker.ts';
import { away, forbidden, noAnswer, tooLarge } from '../../publish/fake-cluster.ts';
import { useClock } from '../../support/fake-time.ts';
import { onFakeTime } from './fake-time.ts';
import { invalid, rowOf, unknownTopic } from './relay-under-test.ts';

describe('relay: failures', () => {
  let its: ReturnType<typeof onFakeTime>;
  beforeEach(() => {
    its = onFakeTime({ partitions: 1 });
  });
  afterEach(() => its.time.restore());

  const has = (sent: { records: readonly { headers: Readonly<Record<string, string>> }[] }, name: string) =>
    sent.records.some(({ headers }) => `${headers.aggregateId}${headers.seq}` === name);

  it('tries a bad event again after 1, 2 and 4 seconds, blocks its aggregate, then sets it aside', async () => {
    its.broker.reply = (sent) => (has(sent, 'a1') ? invalid : undefined);
    const bad = rowOf('a', 1);
    await its.insert(bad, rowOf('b', 1), rowOf('a', 2));
    const relay = its.relay();
    relay.start();
    await its.time.tickAsync(100);
    assert.deepEqual(
      its.broker.stored.map(({ headers }) => headers.aggregateId),
      ['b'],
    );
    await its.insert(rowOf('b', 2), rowOf('a', 3));
    relay.wake();
    await its.time.tickAsync(6_800);
    assert.deepEqual(
      its.broker.stored.map(({ headers }) => `${headers.aggregateId}${headers.seq}`),
      ['b1', 'b2'],
    );
    await its.time.tickAsync(400);
    assert.deepEqual(
      its.broker.stored.map(({ headers }) => `${headers.aggregateId}${headers.seq}`),
      ['b1', 'b2', 'a2', 'a3'],
    );
    const alone = its.broker.sends.filter((sent) => has(sent, 'a1') && sent.records.length === 1);
    assert.deepEqual(
      alone.map(({ atMs }) => atMs),
      [0, 1_000, 3_000, 7_000],
    );
    const [row] = await its.store.read({ statuses: ['FAILED'] }, 0, 10);
    assert.deepEqual(
      [row?.eventId, row?.retryCount, row?.lastError],
      [bad.eventId, 4, 'INVALID_RECORD: Failed to send message after 3 retries: no such record'],
    );
    assert.deepEqual(relay.state().processed, { published: 4, failed: 1 });
    assert.equal(relay.state().circuitBreakerState, 'CLOSED');
    await relay.stop(1_000);
  });

  it('counts each send in vain by its kind, and each row once, at the end that is marked in the table', async () => {
    its.broker.reply = ({ atMs }) => (atMs < 5_000 ? away : undefined);
    await its.insert(rowOf('a', 1), rowOf('b', 1));
    const relay = its.relay({ circuitBreaker: false });
    relay.start();
    await its.time.tickAsync(3_000);
    const { ledger, durations } = its.counters;
    const sends = its.broker.sends.length;
    assert.ok(sends > 1);
    assert.equal(relay.state().consecutiveFailures, sends);
    assert.equal(ledger.brokerErrors()[away.kind], sends);
    assert.equal(ledger.snapshot().relayed, 0);
    await its.time.tickAsync(60_000);
    const { calls, published, relayed, gaveUp, inFlight } = ledger.snapshot();
    assert.deepEqual([calls, published, inFlight, relayed, gaveUp], [0, 0, 0, 2, 0]);
    assert.deepEqual([...durations.rows()].map(({ histogram: { count } }) => count).join(), '2');
    await relay.stop(1_000);
  });

  it('writes and counts what fails while the failure of another is being written', async () => {
    const { fail } = its.store;
    its.store.fail = async (...written) => {
      await fail(...written);
      await new Promise((done) => setTimeout(done, 50));
    };
    its.broker.reply = async ({ records }) => {
      if (records[0]?.headers.aggregateId === 'b') await new Promise((done) => setTimeout(done, 20));
      return invalid;
    };
    its.broker.partitions = 4;
    await its.insert(rowOf('a', 1), rowOf('b', 1));
    const relay = its.relay({ maxRetries: 0 });
    relay.start();
    await its.time.tickAsync(2_000);
    assert.equal((await its.store.read({ statuses: ['FAILED'] }, 0, 10)).length, 2);
    assert.deepEqual([relay.state().processed.failed, its.counters.ledger.snapshot().gaveUp], [2, 2]);
    await relay.stop(1_000);
  });

  describe('a clock that Kafka does not take the time of', () => {
    const hourMs = 3_600_000;
    const sent = () => its.broker.stored.map(({ headers }) => `${headers.aggregateId}${headers.seq}`);
    let offMs: number;
    beforeEach(() => {
      useClock({ now: () => its.time.now + offMs, monotonic: () => its.time.now });
      its.broker.reply = ({ records, atMs }) =>
        records.some(({ timestamp }) => Math.abs(Number(timestamp) - atMs) > hourMs)
          ? { kind: 'fatal', cause: 'INVALID_TIMESTAMP', message: 'the clock' }
          : undefined;
    });

    for (const [name, ms] of [
      ['ahead of', 3 * hourMs],
      ['behind', -3 * hourMs],
    ] as const) {
      it(`is not asked where it is three hours ${name} that of the database`, async () => {
        offMs = ms;
        await its.insert(rowOf('a', 1), rowOf('b', 1), rowOf('a', 2));
        const relay = its.relay();
        relay.start();
        await its.time.tickAsync(100);
        assert.deepEqual([sent(), its.broker.sends.length], [['a1', 'b1', 'a2'], 1]);
        await its.time.tickAsync(30_000);
        const lines = its.said().filter((line) => line.includes(`10800 s ${name} that of the database`));
        assert.deepEqual(
          lines.map((line) => line.split(' ')[0]),
          ['error'],
        );
        await relay.stop(1_000);
      });

      it(`costs no row a try, and keeps their order, where it is three hours ${name} Kafka, as the database's is`, async () => {
        offMs = ms;
        const { claim } = its.store;
        its.store.claim = (owner, leaseMs, options) =>
          claim(owner, leaseMs, { ...options, onTime: (nowMs) => options?.onTime?.(nowMs + offMs) });
        await its.insert(rowOf('a', 1), rowOf('b', 1), rowOf('a', 2));
        const relay = its.relay();
        relay.start();
        await its.time.tickAsync(120_000);
        assert.deepEqual([sent(), relay.state().processed.failed], [[], 0]);
        assert.equal(relay.state().circuitBreakerState, 'CLOSED');
        assert.match(its.said().join('\n'), /wait in their table: the clock/);
        await its.insert(rowOf('a', 3));
        offMs = 0;
        await its.time.tickAsync(120_000);
        assert.deepEqual(sent(), ['a1', 'b1', 'a2', 'a3']);
        assert.deepEqual(await its.store.read({ statuses: ['FAILED'] }, 0, 9), []);
        await relay.stop(1_000);
      });
    }

    for (const [ms, timestamp] of [
      [10_000, 10_000],
      [10_001, 0],
      [-10_000, -10_000],
      [-10_001, 0],
    ] as const)
      it(`gives the time of the machine up to ten seconds from that of the database: ${ms} ms`, async () => {
        offMs = ms;
        await its.insert(rowOf('a', 1));
        const relay = its.relay();
        relay.start();
        await its.time.tickAsync(0);
        assert.equal(Number(its.broker.stored[0]?.timestamp) - Number(its.broker.sends[0]?.atMs), timestamp);
        await relay.stop(1_000);
      });
  });

  it('sets a row that cannot be a record aside at once, in its turn, and asks the broker nothing', async () => {
    const bad = (aggregateId: string, sequence: number, rest: Partial<OutboxRow> = {}) => ({
      ...rowOf(aggregateId, sequence, rest),
      fault: 'its header "a" must be a string',
    });
    await its.insert(
      rowOf('a', 1),
      bad('a', 2),
      bad('b', 1, { topic: 'no\ntopic' }),
      rowOf('a', 3),
      rowOf('b', 2),
    );
    const relay = its.relay();
    relay.start();
    await its.time.tickAsync(100);
    assert.deepEqual(
      its.broker.stored.map(({ headers }) => `${headers.aggregateId}${headers.seq}`),
      ['a1', 'b2', 'a3'],
    );
    const says =
      'SVC_PUBLISH_NOT_A_RECORD: it cannot be encoded as a record: its header "a" must be a string';
    assert.deepEqual(
      (await its.store.read({ statuses: ['FAILED'] }, 0, 9)).map(({ lastError }) => lastError),
      [says, says],
    );
    assert.doesNotMatch(its.said().join(), /no\n?topic|OPEN/);
    await relay.stop(1_000);
  });

  it('takes a batch apart of which one record cannot be encoded, and spends no time on tries', async () => {
    its.broker.reply = (sent) => (has(sent, 'a5') ? notMadeFailure('TypeError') : undefined);
    await its.insert(...Array.from({ length: 9 }, (_, at) => rowOf('a', at)));
    const relay = its.relay();
    relay.start();
    await its.time.tickAsync(100);
    assert.deepEqual(
      its.broker.stored.map(({ headers }) => headers.seq),
      ['0', '1', '2', '3', '4', '6', '7', '8'],
    );
    const [row] = await its.store.read({ statuses: ['FAILED'] }, 0, 9);
    assert.deepEqual(
      [row?.headers.seq, row?.retryCount, row?.lastError],
      ['5', 1, 'SVC_PUBLISH_NOT_A_RECORD: it cannot be encoded as a record: TypeError'],
    );
    await relay.stop(1_000);
  });

  it('keeps back the aggregate of a FAILED row where that is to block it, until it is retried, and no other', async () => {
    its.broker.reply = (sent) => (has(sent, 'a1') ? invalid : undefined);
    await its.insert(rowOf('a', 1), rowOf('b', 1), rowOf('a', 2));
    const settings = { onFailed: 'block', maxRetries: 1 } as const;
    const relay = its.relay(settings);
    relay.start();
    await its.time.tickAsync(5_000);
    await its.insert(rowOf('a', 3), rowOf('b', 2));
    const names = () => its.broker.stored.map(({ headers }) => `${headers.aggregateId}${headers.seq}`);
    await its.time.tickAsync(5_000);
    assert.deepEqual(names(), ['b1', 'b2']);
    assert.equal(relay.state().processed.failed, 1);
    assert.match(its.said().join('\n'), /^error outbox: an event is FAILED and blocks its aggregate/m);
    await relay.stop(1_000);
    // Another one, which has not seen it fail.
    const next = its.relay(settings);
    next.start();
    await its.time.tickAsync(5_000);
    assert.deepEqual(names(), ['b1', 'b2']);
    its.broker.reply = () => undefined;
    await its.store.retry({});
    await its.time.tickAsync(2_000);
    assert.deepEqual(names(), ['b1', 'b2', 'a1', 'a2', 'a3']);
    await next.stop(1_000);
  });

  it('reads no rows as long as it does not know which aggregates are blocked', async () => {
    its.store.failedAggregates = async () => {
      throw new Error('away');
    };
    await its.insert(rowOf('a', 1));
    const relay = its.relay({ onFailed: 'block' });
    relay.start();
    await its.time.tickAsync(5_000);
    assert.equal(its.broker.stored.length, 0);
    await relay.stop(1_000);
  });

  it('waits no longer than a minute between two tries', async () => {
    its.broker.reply = () => tooLarge;
    await its.insert(rowOf('a', 1));
    const relay = its.relay({ maxRetries: 9, pollIntervalMs: 1_000 });
    relay.start();
    await its.time.tickAsync(600_000);
    const at = its.broker.sends.map(({ atMs }) => Math.round(atMs / 1_000));
    assert.deepEqual(at, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
  });

  it('takes a lone large record for the fault when the cluster cuts the connection twice and answers otherwise', async () => {
    its.broker.reply = (sent) => (has(sent, 'big1') ? noAnswer : undefined);
    await its.insert(
      rowOf('big', 1, { payload: Buffer.alloc(513 * 1024) }),
      rowOf('a', 1),
      rowOf('b', 1, { payload: Buffer.alloc(10) }),
    );
    its.relay({ maxRetries: 1 }).start();
    await its.time.tickAsync(5_000);
    assert.equal(its.store.statusOf(its.broker.stored[0]?.headers.eventId as string), 'PUBLISHED');
    assert.equal((await its.store.read({ aggregateId: 'big' }, 0, 1))[0]?.status, 'FAILED');
    assert.equal(its.broker.stored.length, 2);
    // It may be stored: each try is repeated once, before another one counts.
    assert.equal(its.broker.sends.filter((sent) => has(sent, 'big1')).length, 4);
  });

  it('pauses a topic that refuses, alone, without a retry spent, and says so once', async () => {
    let isForbidden = true;
    its.broker.reply = ({ topic }) => (topic === 'secret' && isForbidden ? forbidden : undefined);
    await its.insert(rowOf('a', 1, { topic: 'secret' }), rowOf('a', 2), rowOf('a', 3, { topic: 'secret' }));
    const relay = its.relay();
    relay.start();
    await its.time.tickAsync(4_000);
    assert.deepEqual(its.sends(), ['0 secret a1', '0 orders a2']);
    await its.time.tickAsync(12_000);
    assert.equal(its.sends().length, 4, 'tried again after 5 s and 10 s more');
    isForbidden = false;
    await its.time.tickAsync(30_000);
    assert.deepEqual(its.sends().slice(-1), ['35 secret a1,a3']);
    assert.deepEqual(its.said(), [
      'warn outbox: the events for topic "secret" wait in their table: may not write',
      'info outbox: topic "secret" takes events again',
    ]);
    assert.ok((await its.store.read({}, 0, 9)).every(({ retryCount }) => retryCount === 0));
    assert.equal(relay.state().circuitBreakerState, 'CLOSED');
  });

  it('waits for a topic that is not there yet', async () => {
    let isThere = false;
    its.broker.reply = () => (isThere ? undefined : unknownTopic);
    await its.insert(rowOf('a', 1), rowOf('b', 1));
    its.relay().start();
    await its.time.tickAsync(1_000);
    isThere = true;
    await its.time.tickAsync(5_000);
    assert.deepEqual(its.sends(), ['0 orders a1,b1', '5 orders a1,b1']);
  });

  it('tries a paused topic again at its time, over a database that takes its time', async () => {
    its.store.delay = () => new Promise((resolve) => setTimeout(resolve, 40));
    let isThere = false;
    its.broker.reply = () => (isThere ? undefined : unknownTopic);
    void its.insert(rowOf('a', 1));
    its.relay().start();
    await its.time.tickAsync(3_000);
    isThere = true;
    await its.time.tickAsync(4_000);
    assert.equal(its.broker.stored.length, 1);
    assert.ok((its.store.calls.get('pending') ?? 0) < 20, `${its.store.calls.get('pending')} readings`);
  });

  it('sends again what had no answer, under the same event id, as the same batch and before what comes later', async () => {
    let answers = 0;
    its.broker.reply = () => (answers++ === 0 ? noAnswer : undefined);
    const row = rowOf('a', 1);
    await its.insert(row);
    its.relay().start();
    await its.time.tickAsync(10);
    await its.insert(rowOf('a', 2));
    await its.time.tickAsync(2_000);
    assert.deepEqual(its.sends(), ['0 orders a1', '1 orders a1', '1 orders a2']);
    assert.deepEqual(its.broker.sends[1]?.ids[0], row.eventId);
    assert.equal((await its.store.read({}, 0, 1))[0]?.retryCount, 0);
  });

  it('waits no longer than its time-out for a send, and sends nothing behind its back', async () => {
    let end = (): void => {};
    let sends = 0;
    its.broker.reply = async () => {
      if (sends++ === 0) await new Promise<void>((resolve) => (end = resolve));
      return undefined;
    };
    await its.insert(rowOf('a', 1));
    const relay = its.relay();
    relay.start();
    await its.time.tickAsync(8_000);
    assert.equal(relay.state().consecutiveFailures, 1);
    assert.equal(its.broker.sends.length, 1);
    end();
    await its.time.tickAsync(2_000);
    // The answer came after all.
    assert.equal(its.broker.sends.length, 1);
    assert.equal((await its.store.statistics()).published, 1);
    await its.insert(rowOf('a', 2));
    await its.time.tickAsync(2_000);
    assert.equal(its.broker.sends.length, 2);
    assert.equal(its.broker.maxAtOnce, 1);
  });

  it('goes on with other partitions while one is away', async () => {
    const broker = its.broker;
    broker.partitions = 2;
    broker.reply = ({ partition }) => (partition === 0 ? away : undefined);
    await its.insert(...Array.from({ length: 40 }, (_, at) => rowOf(`a${at}`, at)));
    const relay = its.relay();
    relay.start();
    for (let second = 1; second <= 20; second++) {
      await its.insert(...Array.from({ length: 10 }, (_, at) => rowOf(`b${second}-${at}`, at)));
      await its.time.tickAsync(1_000);
    }
    assert.equal(relay.state().circuitBreakerState, 'CLOSED');
    const pending = await its.store.read({ statuses: ['PENDING'] }, 0, 1_000);
    assert.equal(pending.length + broker.stored.length, 240);
    assert.ok(broker.stored.length > 90, String(broker.stored.length));
    const tries = broker.sends.filter(({ partition }) => partition === 0).length;
    assert.ok(tries >= 4 && tries <= 7, `${tries} tries`);
  });
});
