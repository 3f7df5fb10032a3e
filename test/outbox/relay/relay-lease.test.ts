import assert from 'node:assert/strict';
import { isOwnWork } from '../../../src/ground/lifecycle.ts';
import { isolate } from '../../../src/observe/otel-api.ts';
import type { OutboxStore } from '../../../src/outbox/outbox-store.ts';
import { createTable, createMemoryOutboxStore as memoryStore } from '../memory-outbox-store.ts';
import { onFakeTime } from './fake-time.ts';
import { duplicates, invalid, relayOver, rowOf } from './relay-under-test.ts';

describe('relay: leases and the end', () => {
  let its: ReturnType<typeof onFakeTime>;
  beforeEach(() => {
    its = onFakeTime({ table: createTable() });
  });
  afterEach(() => its.time.restore());

  const names = () => its.broker.stored.map(({ headers }) => `${headers.aggregateId}${headers.seq}`);

  it('leases for 10 s, and for longer sends so that one always fits in between two renewals', async () => {
    const claimed: number[] = [];
    const { claim } = its.store;
    its.store.claim = (owner, leaseMs, options) => {
      claimed.push(leaseMs);
      return claim(owner, leaseMs, options);
    };
    for (const sendTimeoutMs of [1, 10_000]) {
      const relay = its.relay({ sendTimeoutMs });
      relay.start();
      await its.time.tickAsync(1);
      const stopped = relay.stop(1_000);
      await its.time.tickAsync(1_000);
      await stopped;
    }
    assert.deepEqual(claimed, [10_000, 18_000]);
  });

  it('says that it stands still when claims have failed, or were not answered, for two leases, and until the next one', async () => {
    const { claim } = its.store;
    const relay = its.relay({ leaseMs: 10_000 });
    relay.start();
    // The last claim that is answered.
    await its.time.tickAsync(1);
    const claimedAtMs = its.time.now;
    its.store.claim = async () => {
      throw new Error('locked');
    };
    const from = relay.state();
    await its.time.tickAsync(19_900);
    assert.equal(relay.state().stalled, undefined);
    await its.time.tickAsync(100);
    const forMs = relay.state().stalled?.forMs ?? 0;
    assert.ok(forMs >= 20_000 && forMs <= its.time.now - claimedAtMs + 1, `${forMs}`);
    assert.deepEqual(relay.state(), {
      ...{ ...from, pending: 0 },
      stalled: { forMs, reason: 'the shards cannot be claimed: locked' },
    });
    its.store.claim = claim;
    await its.time.tickAsync(4_000);
    assert.equal(relay.state().stalled, undefined);
    its.store.claim = () => new Promise(() => {});
    await its.time.tickAsync(24_000);
    assert.deepEqual(Object.keys(relay.state().stalled ?? {}), ['forMs']);
    void relay.stop(0);
    assert.equal(relay.state().stalled, undefined);
    await its.time.tickAsync(10_000);
  });

  it('sends again after a crash between send and acknowledgement: twice, never not at all', async () => {
    await its.insert(rowOf('a', 1), rowOf('a', 2));
    // The first process dies with the answer of the broker in hand.
    its.store.ack = () => new Promise(() => {});
    its.store.claim = crashed(its.store.claim);
    relayOver({ store: its.store, broker: its.broker }).start();
    await its.time.tickAsync(1_000);
    assert.deepEqual(names(), ['a1', 'a2']);
    const next = onSameTable();
    next.relay.start();
    await its.time.tickAsync(8_000);
    assert.deepEqual(names(), ['a1', 'a2']);
    await its.time.tickAsync(8_000);
    assert.deepEqual(names(), ['a1', 'a2', 'a1', 'a2']);
    assert.equal(duplicates(its.broker.stored), 2);
    assert.ok([...its.store.table.rows.values()].every(({ status }) => status === 'PUBLISHED'));
  });

  it('acknowledges nothing and sends no more on a lease that was lost in the middle', async () => {
    let end = (): void => {};
    its.broker.reply = async () => {
      if (its.broker.sends.length === 1) await new Promise<void>((resolve) => (end = resolve));
      return undefined;
    };
    await its.insert(rowOf('a', 1));
    const relay = its.relay({ sendTimeoutMs: 4_000 });
    relay.start();
    await its.time.tickAsync(100);
    await its.insert(rowOf('a', 2));
    relay.wake();
    // Somebody else holds all of it now, and the database is out of reach for this one.
    const { claim } = its.store;
    its.store.claim = () => new Promise(() => {});
    for (const lease of its.store.table.leases.values()) lease.owner = 'another';
    end();
    await its.time.tickAsync(20_000);
    assert.ok([...its.store.table.rows.values()].every(({ status }) => status === 'PENDING'));
    assert.deepEqual(relay.state().processed, { published: 0, failed: 0 });
    const sent = names().length;
    assert.ok(sent <= 2);
    await its.time.tickAsync(20_000);
    assert.equal(names().length, sent);
    its.store.claim = claim;
  });

  it('sends nothing on a lease that ends before the send may', async () => {
    await its.insert(rowOf('a', 1));
    const relay = its.relay({ sendTimeoutMs: 4_000 });
    its.store.claim = crashed(its.store.claim);
    relay.start();
    // 10 s of lease, less 1 s of margin and 4 s for a send.
    await its.time.tickAsync(4_900);
    await its.insert(rowOf('b', 1));
    relay.wake();
    await its.time.tickAsync(50);
    assert.deepEqual(names(), ['a1', 'b1']);
    await its.time.tickAsync(100);
    await its.insert(rowOf('c', 1));
    relay.wake();
    await its.time.tickAsync(20_000);
    assert.deepEqual(names(), ['a1', 'b1']);
  });

  it('renews its lease although one partition hangs, and holds up the others only for a moment', async () => {
    its.broker.reply = async ({ partition }) => {
      if (partition === 0) await new Promise(() => {});
      await new Promise((resolve) => setTimeout(resolve, 10));
      return undefined;
    };
    const relay = its.relay({ sendTimeoutMs: 20_000, leaseMs: 33_000 });
    relay.start();
    await its.insert(...Array.from({ length: 20 }, (_, at) => rowOf(`a${at}`, at)));
    await its.time.tickAsync(100);
    for (let step = 0; step < 150; step++) {
      const before = its.broker.stored.length;
      await its.insert(rowOf('a1', 100 + step));
      relay.wake();
      await its.time.tickAsync(100);
      assert.equal(its.broker.stored.length, before + 1, `at ${its.time.now}`);
    }
    assert.equal(its.store.calls.get('claim'), 2);
  });

  it('does everything as work of svc, whose calls are not captured', async () => {
    const seen = new Set<boolean>();
    const look = (): void => void seen.add(isOwnWork());
    its.store.delay = async () => look();
    its.broker.reply = async () => {
      look();
      await new Promise((resolve) => setTimeout(resolve, 50));
      look();
      return its.broker.sends.length === 2 ? invalid : undefined;
    };
    await isolate(() => its.insert(rowOf('a', 1)));
    const relay = relayOver(its, { cleanupEnabled: true });
    relay.start();
    assert.equal(relay.state().pending, null);
    await its.time.tickAsync(1_000);
    await isolate(() => its.insert(rowOf('a', 2), rowOf('b', 1)));
    relay.wake();
    await its.time.tickAsync(700_000);
    const stopped = relay.stop(1_000);
    await its.time.tickAsync(1_000);
    await stopped;
    assert.deepEqual([...seen], [true]);
    assert.equal(its.broker.stored.length, 3);
  });

  it('finishes what it has read at the end, acknowledges it and gives its shards back', async () => {
    its.broker.reply = async () => {
      await new Promise((resolve) => setTimeout(resolve, 300));
      return undefined;
    };
    await its.insert(...Array.from({ length: 50 }, (_, at) => rowOf(`a${at}`, at)));
    const relay = its.relay();
    relay.start();
    await its.time.tickAsync(100);
    const stopped = relay.stop(5_000);
    await its.insert(rowOf('new', 1));
    await its.time.tickAsync(1_000);
    await stopped;
    assert.equal(its.broker.stored.length, 50);
    assert.equal(relay.state().processed.published, 50);
    assert.equal(its.store.table.leases.size, 0);
    assert.equal(its.store.statusOf([...its.store.table.rows.values()].at(-1)?.eventId as string), 'PENDING');
    await its.time.tickAsync(60_000);
    assert.equal(its.broker.stored.length, 50);
    assert.equal(its.time.countTimers(), 0);
  });

  it('keeps the deadline when a send hangs, acknowledges the rest, and leaves the lease to end by itself', async () => {
    its.broker.reply = async ({ partition }) => {
      if (partition === 0) await new Promise(() => {});
      return undefined;
    };
    await its.insert(...Array.from({ length: 50 }, (_, at) => rowOf(`a${at}`, at)));
    const relay = its.relay({ sendTimeoutMs: 30_000 });
    relay.start();
    await its.time.tickAsync(500);
    const startedMs = its.time.now;
    let endedMs = 0;
    void relay.stop(2_000).then(() => (endedMs = its.time.now));
    await its.time.tickAsync(5_000);
    assert.ok(endedMs - startedMs <= 2_000 && endedMs > 0, `${endedMs - startedMs} ms`);
    assert.equal(relay.state().processed.published, its.broker.stored.length);
    assert.ok(its.store.table.leases.size > 0);
    assert.ok(its.said().some((line) => line.includes('sent again')));
  });

  it('can be stopped before it was started, while the database is away, and twice', async () => {
    const idle = its.relay();
    await idle.stop(100);
    its.store.failing = 'away';
    const relay = its.relay();
    relay.start();
    await its.time.tickAsync(100);
    const stopped = Promise.all([relay.stop(1_000), relay.stop(1_000)]);
    await its.time.tickAsync(2_000);
    await stopped;
    assert.equal(its.time.countTimers(), 0);
  });

  function onSameTable() {
    const other = onFakeTimeStore();
    return { relay: relayOver({ store: other, broker: its.broker }) };
  }

  function onFakeTimeStore() {
    return memoryStore(() => its.time.now, its.store.table);
  }
});

/** The first claim alone is answered. */
function crashed(claim: OutboxStore['claim']): OutboxStore['claim'] {
  let isDead = false;
  return (...parts) => {
    if (isDead) return Promise.reject(new Error('the process is dead'));
    isDead = true;
    return claim(...parts);
  };
}
