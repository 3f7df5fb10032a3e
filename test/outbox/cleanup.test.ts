import assert from 'node:assert/strict';
import type { RelaySettings } from '../../src/outbox/relay/relay.ts';
import { onFakeTime } from './relay/fake-time.ts';
import { rowOf } from './relay/relay-under-test.ts';

const firstCleanupMs = 60_000;
const cleanupIntervalMs = 600_000;

const dayMs = 86_400_000;

describe('outbox cleanup', () => {
  let its: ReturnType<typeof onFakeTime>;
  beforeEach(() => {
    its = onFakeTime();
  });
  afterEach(() => its.time.restore());

  /** A relay that cleans up, while others have all shards. */
  function started(settings: Partial<RelaySettings> = {}) {
    Object.assign(its.store, { isFull: async () => false, claim: async () => [] });
    const relay = its.relay({ cleanupEnabled: true, ...settings });
    relay.start();
    return relay;
  }

  async function ended(status: 'PUBLISHED' | 'FAILED' | 'PENDING', count: number): Promise<void> {
    await its.insert(...Array.from({ length: count }, (_, at) => rowOf(`${status}${at}`, at)));
    for (const row of [...its.store.table.rows.values()].slice(-count)) Object.assign(row, { status });
  }

  const left = (): string[] => [...its.store.table.rows.values()].map(({ status }) => status);

  it('deletes old rows in short batches, PENDING ones never', async () => {
    await ended('PUBLISHED', 2_500);
    await ended('FAILED', 2);
    await ended('PENDING', 3);
    its.time.setSystemTime(7 * dayMs - firstCleanupMs - 1);
    const relay = started();
    await its.time.tickAsync(firstCleanupMs);
    assert.equal(left().length, 2_505, 'a moment before their time');
    await its.time.tickAsync(cleanupIntervalMs - 1);
    assert.equal(left().length, 2_505);
    await its.time.tickAsync(1);
    assert.equal(left().length, 1_505);
    await its.time.tickAsync(200);
    assert.equal(left().length, 505);
    await its.time.tickAsync(200);
    assert.deepEqual(left(), ['FAILED', 'FAILED', 'PENDING', 'PENDING', 'PENDING']);
    its.time.setSystemTime(31 * dayMs);
    await its.time.tickAsync(cleanupIntervalMs);
    assert.deepEqual(left(), ['PENDING', 'PENDING', 'PENDING']);
    await relay.stop(1_000);
    assert.equal(its.time.countTimers(), 0);
  });

  it('keeps FAILED rows for good where their retention is 0, and does nothing where it is off', async () => {
    await ended('FAILED', 1);
    its.time.setSystemTime(1_000 * dayMs);
    const relays = [started({ failedRetentionDays: 0 }), started({ cleanupEnabled: false })];
    await its.time.tickAsync(firstCleanupMs);
    assert.equal(its.store.calls.get('cleanup'), 1);
    assert.deepEqual(left(), ['FAILED']);
    await Promise.all(relays.map((relay) => relay.stop(1_000)));
  });

  it('leaves a day longer to the partitions, which are dropped; what holds them up is said, and rows are deleted', async () => {
    await ended('PUBLISHED', 1);
    its.time.setSystemTime(8 * dayMs - firstCleanupMs);
    const ages: number[] = [];
    let failing: string | undefined;
    const partition = async (ageMs: number): Promise<boolean> => {
      ages.push(ageMs / dayMs);
      if (failing !== undefined) throw new Error(failing);
      return true;
    };
    its.store.partition = partition;
    const relay = started();
    await its.time.tickAsync(firstCleanupMs);
    assert.deepEqual([ages, left()], [[7], ['PUBLISHED']]);
    failing = 'not the owner';
    await its.time.tickAsync(cleanupIntervalMs);
    assert.deepEqual([ages, left()], [[7, 7], []]);
    assert.deepEqual(its.said(), ['warn outbox: not the owner']);
    await relay.stop(1_000);
  });

  it('tries again after a failure of the database', async () => {
    await ended('PUBLISHED', 1);
    its.time.setSystemTime(8 * dayMs);
    its.store.failing = 'away';
    const relay = started();
    await its.time.tickAsync(firstCleanupMs);
    its.store.failing = undefined;
    await its.time.tickAsync(cleanupIntervalMs);
    assert.deepEqual(left(), []);
    assert.deepEqual(its.said(), ['warn outbox: old rows cannot be deleted; svc tries again: away']);
    await relay.stop(1_000);
  });
});
