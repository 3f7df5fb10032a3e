import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createMemoryBroker, sharedMemoryStore } from '../../../src/adapters/memory/memory-broker.ts';
import { createSqliteStore } from '../../../src/adapters/sqlite/sqlite-store.ts';
import type { OutboxStore } from '../../../src/outbox/outbox-store.ts';
import { createReplay } from '../../../src/outbox/replay.ts';
import { temporaryFolder } from '../../support/folders.ts';
import {
  createFakeBroker,
  duplicates,
  invalid,
  inversions,
  relayOver,
  rowOf,
  until,
} from './relay-under-test.ts';

describe('relay: over SQLite', function () {
  this.timeout(30_000);
  let directory: string;
  let stores: OutboxStore[];

  beforeEach(() => {
    directory = temporaryFolder('relay');
    stores = [];
  });
  afterEach(async () => {
    await Promise.all(stores.map((store) => store.close(1_000)));
  });

  async function open(): Promise<OutboxStore> {
    const store = createSqliteStore({
      url: `sqlite:${join(directory, 'app.db')}`,
      table: 'svc_outbox_events',
      initializeSchema: 'embedded',
      timeoutMs: 5_000,
    });
    stores.push(store);
    await store.prepare();
    return store;
  }

  it('sends rows to their topics, and knows what became of them', async () => {
    const store = await open();
    const records = sharedMemoryStore();
    records.clear();
    const broker = createMemoryBroker();
    const rows = Array.from({ length: 300 }, (_, at) => rowOf(`a${at % 7}`, at));
    await store.insert(rows);
    const relay = relayOver({ store, broker });
    relay.start();
    await until(() => relay.state().processed.published === 300);
    const all = records.all();
    assert.deepEqual(
      all.map(({ topic, record }) => [topic, record.key, record.value.toString(), record.headers]),
      rows.map(({ topic, key, payload, headers }) => [topic, key, payload.toString(), { ...headers }]),
    );
    const { avgProcessingTimeMs, ...counts } = await relay.statistics.report();
    assert.deepEqual(counts, { total: 300, pending: 0, published: 300, failed: 0 });
    assert.ok(avgProcessingTimeMs >= 0 && avgProcessingTimeMs < 10_000);
    const { timeSinceLastSuccessMs, ...summary } = await relay.summary();
    assert.deepEqual(summary, {
      ...{ circuitBreakerState: 'CLOSED', consecutiveFailures: 0, totalPending: 0, totalFailed: 0 },
    });
    assert.ok(timeSinceLastSuccessMs !== null && timeSinceLastSuccessMs >= 0);
    const replay = createReplay({
      ...{ store, broker, sendTimeoutMs: 1_000 },
    });
    const { total, success } = await replay.run({ since: '2020-01-01T00:00:00Z', limit: 20 });
    assert.deepEqual([total, success, records.all().length], [20, 20, 320]);
    await relay.stop(2_000);
  });

  it('holds no process', async () => {
    await (await open()).insert([rowOf('a', 1)]);
    const { stdout } = await promisify(execFile)(process.execPath, [
      join(import.meta.dirname, 'fixtures/idle-relay.ts'),
      join(directory, 'app.db'),
    ]);
    assert.equal(stdout, 'sent 1\n');
  });

  it('shares the table between two relays, in order, once each, while rows come', async () => {
    const [first, second] = [await open(), await open()];
    const broker = createFakeBroker(() => performance.now(), 5);
    broker.reply = async () => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 8));
      return undefined;
    };
    const settings = { leaseMs: 900, sendTimeoutMs: 300, batchSize: 20 };
    const relays = [first, second].map((store) => relayOver({ store, broker }, settings));
    relays[0]?.start();
    for (let round = 0; round < 200; round++) {
      await first.insert(
        Array.from({ length: 10 }, (_, at) => rowOf(`a${(round + at) % 30}`, round * 10 + at)),
      );
      relays[round % 2]?.wake();
      await new Promise((resolve) => setTimeout(resolve, 10));
      if (round === 30) relays[1]?.start();
    }
    const published = () => relays.map((relay) => relay.state().processed.published);
    await until(() => published().reduce((sum, count) => sum + count, 0) === 2_000);
    await Promise.all(relays.map((relay) => relay.stop(2_000)));
    assert.ok(
      published().every((count) => count > 0),
      String(published()),
    );
    assert.deepEqual([inversions(broker.stored), duplicates(broker.stored)], [0, 0]);
  });

  it('retries and sets aside by the clock of the database', async () => {
    const store = await open();
    const broker = createFakeBroker(() => performance.now(), 1);
    broker.reply = ({ records }) => (records.some(({ key }) => key === 'bad') ? invalid : undefined);
    await store.insert([rowOf('bad', 1), rowOf('bad', 2, { key: 'good' }), rowOf('other', 1)]);
    const relay = relayOver({ store, broker }, { maxRetries: 1 });
    relay.start();
    await until(() => relay.state().processed.published === 2);
    await until(() => relay.state().processed.failed === 1);
    await relay.stop(1_000);
    const alone = broker.sends.filter(({ records }) => records.length === 1 && records[0]?.key === 'bad');
    const [first = 0, second = 0] = alone.map(({ atMs }) => atMs);
    assert.ok(second - first >= 950 && second - first < 2_500, `${second - first} ms`);
    const [failed] = await store.read({ statuses: ['FAILED'] }, 0, 2);
    assert.equal(failed?.lastError, 'INVALID_RECORD: Failed to send message after 1 retries: no such record');
    assert.equal(await store.retry({}), 1);
  });
});
