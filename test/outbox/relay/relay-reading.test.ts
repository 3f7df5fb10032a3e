import assert from 'node:assert/strict';
import { createBatchSize } from '../../../src/outbox/batches.ts';
import { onFakeTime } from './fake-time.ts';
import { invalid, rowOf, unknownTopic } from './relay-under-test.ts';

const page = (count: number, bytes = 0) =>
  Array.from({ length: count }, () => ({ payload: { length: bytes / count } }));

describe('relay: reading', () => {
  let its: ReturnType<typeof onFakeTime>;
  beforeEach(() => {
    its = onFakeTime();
  });
  afterEach(() => its.time.restore());

  it('grows batches while they are full, to ten times and 1,000 rows, and never below the setting', () => {
    const sizes = (batchSize: number, dynamicBatching: boolean, reads: readonly number[]) => {
      const size = createBatchSize({ batchSize, dynamicBatching });
      return reads.map((rows) => {
        size.read(page(Math.min(rows, size.rows)));
        return size.rows;
      });
    };
    const many = 5_000;
    assert.deepEqual(sizes(100, true, [many, many, many, many, many]), [200, 400, 800, 1_000, 1_000]);
    assert.deepEqual(sizes(100, true, [many, many, 0, 0, 0]), [200, 400, 200, 100, 100]);
    assert.deepEqual(sizes(7, true, [many, many, many, many, many]), [14, 28, 56, 70, 70]);
    assert.deepEqual(sizes(2_000, true, [many, 0]), [2_000, 2_000]);
    assert.deepEqual(sizes(100, false, [many, many]), [100, 100]);
    const large = createBatchSize({ batchSize: 100, dynamicBatching: true });
    large.read(page(100, 5 * 1024 * 1024));
    assert.equal(large.rows, 100);
  });

  it('makes batches smaller while rows are large, or do not come in time, and large again afterwards', () => {
    const size = createBatchSize({ batchSize: 500, dynamicBatching: false });
    const megabyte = 1024 * 1024;
    const steps = [
      [() => size.failed(), 250],
      [() => size.failed(), 125],
      [() => size.read(page(125, 125 * megabyte)), 16],
      [() => size.read(page(16, 16 * megabyte)), 16],
      [() => size.read(page(3, 3 * megabyte)), 16],
      [() => size.read(page(16, 100)), 32],
      [() => size.read(page(1, 17 * megabyte)), 1],
      [() => size.failed(), 1],
    ] as const;
    for (const [step, rows] of steps) {
      step();
      assert.equal(size.rows, rows, String(step));
    }
    for (let batches = 0; batches < 20; batches++) size.read(page(size.rows, 100));
    assert.equal(size.rows, 500);
  });

  it('reads on while it sends, with a bounded number of rows in memory', async () => {
    const limits: number[] = [];
    const { pending } = its.store;
    its.store.pending = (shards, afterId, limit) => {
      limits.push(limit);
      return pending(shards, afterId, limit);
    };
    let ends: (() => void)[] = [];
    its.broker.reply = async () => {
      await new Promise<void>((resolve) => ends.push(resolve));
      return undefined;
    };
    await its.insert(...Array.from({ length: 9_000 }, (_, at) => rowOf(`a${at % 90}`, at)));
    its.relay({ sendTimeoutMs: 30_000, leaseMs: 90_000 }).start();
    await its.time.tickAsync(20);
    assert.deepEqual(limits.slice(0, 5), [100, 200, 400, 800, 1_000]);
    const read = limits.reduce((sum, limit) => sum + limit, 0);
    assert.ok(read <= 4_000, `${read} rows in memory`);
    for (let round = 0; round < 200; round++) {
      for (const end of ends.splice(0)) end();
      await its.time.tickAsync(20);
    }
    ends = [];
    assert.equal(its.broker.stored.length, 9_000);
    assert.equal(its.broker.maxAtOnce, 1);
    const acks = its.store.calls.get('ack') ?? 0;
    assert.ok(acks < 60, `${acks} statements to acknowledge`);
  });

  it('sees rows whose transaction commits late, although later ones are sent already', async () => {
    const late = its.store.begin(rowOf('late', 1));
    await its.insert(rowOf('a', 1));
    const relay = its.relay({ pollIntervalMs: 10_000 });
    relay.start();
    await its.time.tickAsync(1_500);
    its.store.commit(late);
    await its.insert(rowOf('a', 2));
    relay.wake();
    await its.time.tickAsync(20);
    assert.deepEqual(its.broker.stored.map(({ headers }) => `${headers.aggregateId}${headers.seq}`).sort(), [
      'a1',
      'a2',
      'late1',
    ]);
  });

  it('sends a row that commits late before a later one of its aggregate', async () => {
    const late = its.store.begin(rowOf('late', 1));
    await its.insert(...Array.from({ length: 120 }, (_, at) => rowOf(`a${at}`, at)));
    its.broker.reply = async () => {
      await new Promise((resolve) => setTimeout(resolve, 30));
      return undefined;
    };
    const relay = its.relay({ batchSize: 50, dynamicBatching: false });
    relay.start();
    await its.time.tickAsync(10);
    its.store.commit(late);
    await its.insert(rowOf('late', 2), ...Array.from({ length: 60 }, (_, at) => rowOf(`b${at}`, at)));
    relay.wake();
    await its.time.tickAsync(2_000);
    const sent = its.broker.stored.filter(({ headers }) => headers.aggregateId === 'late');
    assert.deepEqual(
      sent.map(({ headers }) => headers.seq),
      ['1', '2'],
    );
  });

  it('sees them under load as well, within about a second', async () => {
    const late = its.store.begin(rowOf('late', 1));
    let isEnough = false;
    const { pending } = its.store;
    // There is always more.
    its.store.pending = async (...parts) => {
      if (!isEnough) await its.insert(...Array.from({ length: 70 }, (_, at) => rowOf(`a${at}`, at)));
      return pending(...parts);
    };
    its.broker.reply = async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      return undefined;
    };
    its.relay({ batchSize: 50, dynamicBatching: false }).start();
    await its.time.tickAsync(300);
    its.store.commit(late);
    await its.time.tickAsync(1_500);
    isEnough = true;
    assert.ok(its.broker.stored.some(({ headers }) => headers.aggregateId === 'late'));
  });

  it('looks at once after a wake, once for many, and else at each interval', async () => {
    const relay = its.relay({ pollIntervalMs: 5_000 });
    relay.start();
    await its.time.tickAsync(2_000);
    assert.equal(its.store.calls.get('pending'), 1);
    await its.insert(rowOf('a', 1));
    for (let wakes = 0; wakes < 20; wakes++) relay.wake();
    await its.time.tickAsync(1);
    assert.equal(its.broker.stored.length, 1);
    await its.insert(rowOf('a', 2));
    for (let wakes = 0; wakes < 20; wakes++) relay.wake();
    await its.time.tickAsync(20);
    assert.equal(its.broker.stored.length, 2);
    assert.equal(its.store.calls.get('pending'), 3);
    await its.time.tickAsync(4_900);
    assert.equal(its.store.calls.get('pending'), 3);
    await its.time.tickAsync(200);
    assert.equal(its.store.calls.get('pending'), 4);
  });

  it('sends nothing again that was acknowledged while a reading was under way', async () => {
    const { pending } = its.store;
    its.store.pending = async (...parts) => {
      const rows = await pending(...parts);
      await new Promise((resolve) => setTimeout(resolve, 400));
      return rows;
    };
    its.broker.reply = async () => {
      await new Promise((resolve) => setTimeout(resolve, 700));
      return undefined;
    };
    await its.insert(rowOf('a', 1));
    its.relay({ pollIntervalMs: 100 }).start();
    await its.time.tickAsync(10_000);
    assert.equal(its.broker.stored.length, 1);
  });

  it('sends nothing again that was acknowledged while a reading saw it, behind more deferred events than a reading excludes', async () => {
    const { pending } = its.store;
    let end: (() => void) | undefined;
    let seen = 0;
    its.store.pending = async (...parts) => {
      const rows = await pending(...parts);
      if (end === undefined || !rows.some(({ topic }) => topic === 'orders')) return rows;
      seen++;
      end();
      await new Promise((resolve) => setTimeout(resolve, 400));
      return rows;
    };
    its.broker.reply = async ({ topic }) => {
      if (topic === 'gone') return unknownTopic;
      await new Promise<void>((resolve) => (end = resolve));
      return undefined;
    };
    const deferred = Array.from({ length: 7_000 }, (_, n) => rowOf(`gone ${n}`, 1, { topic: 'gone' }));
    await its.insert(...deferred, rowOf('a', 1));
    its.relay({ sendTimeoutMs: 60_000 }).start();
    await its.time.tickAsync(20_000);
    assert.equal(seen, 1);
    assert.equal(its.broker.sends.filter(({ topic }) => topic === 'orders').length, 1);
  });

  it('steps over no failed event while the database is slow to write its failure down', async () => {
    const { fail } = its.store;
    let isSlow = true;
    its.store.fail = async (...parts) => {
      if (isSlow) await new Promise((resolve) => setTimeout(resolve, 5_000));
      return fail(...parts);
    };
    its.broker.reply = ({ records }) =>
      records.some(({ headers }) => headers.seq === '1') && isSlow ? invalid : undefined;
    await its.insert(rowOf('a', 1), rowOf('a', 2));
    const relay = its.relay();
    relay.start();
    await its.time.tickAsync(4_000);
    await its.insert(rowOf('a', 3));
    relay.wake();
    await its.time.tickAsync(900);
    assert.equal(its.broker.stored.length, 0);
    isSlow = false;
    await its.time.tickAsync(3_000);
    assert.deepEqual(
      its.broker.stored.map(({ headers }) => headers.seq),
      ['1', '2', '3'],
    );
  });

  it('does not tire of a database that fails, sends nothing twice, and goes on when it is back', async () => {
    await its.insert(rowOf('a', 1), rowOf('b', 1));
    let end = (): void => {};
    its.broker.reply = async () => {
      if (its.broker.sends.length === 1) await new Promise<void>((resolve) => (end = resolve));
      return undefined;
    };
    const relay = its.relay({ sendTimeoutMs: 5_000 });
    relay.start();
    await its.time.tickAsync(10);
    its.store.failing = 'the database at db:5432 does not answer';
    end();
    await its.time.tickAsync(4_000);
    await its.insert(rowOf('a', 2)).catch(() => undefined);
    its.store.failing = undefined;
    await its.insert(rowOf('a', 2));
    await its.time.tickAsync(6_000);
    assert.deepEqual(its.broker.stored.map(({ headers }) => `${headers.aggregateId}${headers.seq}`).sort(), [
      'a1',
      'a2',
      'b1',
    ]);
    assert.deepEqual(relay.state().processed, { published: 3, failed: 0 });
    assert.ok(its.said().length > 0 && its.said().length < 6, its.said().join('\n'));
    const again = its.said().filter((line) => /^info outbox: .* again$/.test(line));
    assert.ok(again.includes('info outbox: the table is read again'), its.said().join('\n'));
    const others = its.said().filter((line) => !again.includes(line));
    assert.ok(others.every((line) => line.endsWith('the database at db:5432 does not answer')));
  });

  it('starts while the database is away', async () => {
    its.store.failing = 'away';
    its.relay().start();
    await its.time.tickAsync(60_000);
    its.store.failing = undefined;
    await its.insert(rowOf('a', 1));
    await its.time.tickAsync(10_000);
    assert.equal(its.broker.stored.length, 1);
  });

  it('deletes rows when they are sent where none are kept', async () => {
    await its.insert(rowOf('a', 1), rowOf('b', 1));
    its.relay({ retentionDays: 0 }).start();
    await its.time.tickAsync(100);
    assert.equal(its.broker.stored.length, 2);
    assert.equal(its.store.table.rows.size, 0);
  });

  it('sends key, headers and payload of the row, with the time of sending', async () => {
    await its.time.tickAsync(77_000);
    const row = rowOf('a', 1, { key: 'k', headers: { eventId: 'x', traceparent: 't' }, occurredAt: 5 });
    await its.insert(row);
    its.relay().start();
    await its.time.tickAsync(100);
    assert.deepEqual(its.broker.stored, [
      { key: 'k', value: row.payload, headers: row.headers, timestamp: 77_000 },
    ]);
  });

  it('sends rows of one aggregate with several keys one after the other', async () => {
    its.broker.partitions = 16;
    its.broker.reply = async () => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 50));
      return undefined;
    };
    await its.insert(
      ...Array.from({ length: 60 }, (_, at) => rowOf(`a${at % 3}`, at, { key: `k${at % 7}` })),
    );
    its.relay().start();
    await its.time.tickAsync(20_000);
    for (const aggregate of ['a0', 'a1', 'a2']) {
      const stored = its.broker.stored.filter(({ headers }) => headers.aggregateId === aggregate);
      const order = stored.map(({ headers }) => Number(headers.seq));
      assert.deepEqual(
        order,
        order.toSorted((one, other) => one - other),
      );
      assert.equal(order.length, 20);
    }
  });
});
