import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import { createPostgresStore } from '../../src/adapters/postgres/postgres-store.ts';
import { tellOfRows } from '../../src/outbox/outbox.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import type { Relay } from '../../src/outbox/relay/relay.ts';
import { collectLines, createFakeBroker, relayOver, rowOf, until } from '../outbox/relay/relay-under-test.ts';
import type { TestDatabase } from '../support/database.ts';
import { useLogger } from '../support/log.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';

const run = promisify(execFile);
const table = 'svc_outbox_events';
/** Nothing is found by a look at the table. */
const pollIntervalMs = 60_000;
const listening = `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`;

requiring('postgres', 'outbox: rows of another process', function () {
  this.timeout(20_000);
  let server: TestDatabase;
  let url: string;
  const stores: OutboxStore[] = [];
  const relays: Relay[] = [];

  const open = (at = url): OutboxStore => {
    const store = createPostgresStore({ url: at, table, initializeSchema: 'always' });
    stores.push(store);
    return store;
  };

  /** With all shards, and a connection that listens. */
  async function startRelay() {
    const store = open();
    await store.prepare();
    const broker = createFakeBroker(() => performance.now());
    const relay = relayOver({ store, broker }, { pollIntervalMs });
    relays.push(relay);
    relay.start();
    await until(() => relay.holds(0) && relay.holds(63));
    await listens();
    return { relay, broker };
  }

  async function listens(butNot?: unknown): Promise<unknown> {
    for (let tries = 0; tries < 200; tries++) {
      const [found] = await server.query(url, listening);
      if (found !== undefined && found.pid !== butNot) return found.pid;
      await sleep(20);
    }
    return assert.fail('nobody listens');
  }

  beforeEach(async () => {
    server = await startPostgres();
    url = await server.freshDatabase();
  });
  afterEach(async () => {
    await Promise.all(relays.splice(0).map((relay) => relay.stop(2_000)));
    await Promise.all(stores.splice(0).map((store) => store.close(2_000)));
  });

  it('are sent at once, without a look at the table', async () => {
    const { broker } = await startRelay();
    const other = open();
    const told = tellOfRows(undefined, other.notices);
    for (let round = 0; round < 3; round++) {
      await other.insert([rowOf(`a${round}`, round)]);
      const atMs = performance.now();
      for (let shard = 0; shard < 64; shard++) told.tell(shard);
      await until(() => broker.stored.length === round + 1, 3_000);
      assert.ok(performance.now() - atMs < 2_000);
      await sleep(150);
    }
    told.close();
  });

  it('of a shard that the relay does not send leave it alone, and so do rows of its own process', async () => {
    const { relay } = await startRelay();
    const sent: (readonly number[])[] = [];
    const notices = {
      send: async (shards: readonly number[]) => void sent.push(shards),
      listen: async () => {},
    };
    const told = tellOfRows(
      { wake: relay.wake, holds: (shard) => shard !== 9 && relay.holds(shard) },
      notices,
    );
    told.tell(8);
    told.tell(9);
    assert.deepEqual(sent, [[9]]);
    told.close();
  });

  it('are heard of again after the connection was lost', async () => {
    const { broker } = await startRelay();
    const first = await listens();
    await server.query(url, `SELECT pg_terminate_backend(${first})`);
    await listens(first);
    const other = open();
    await other.insert([rowOf('a', 1)]);
    await other.notices?.send(Array.from({ length: 64 }, (_, shard) => shard));
    await until(() => broker.stored.length === 1, 3_000);
  });

  it('says once where no notice comes through, and the connection is given up', async () => {
    const elsewhere = await server.freshDatabase();
    const { lines, logger } = collectLines();
    // What is told in one database is not heard in another: as through a pooler that changes connections.
    useLogger(logger);
    const store = createPostgresStore(
      { url: elsewhere, table, initializeSchema: 'never', timeoutMs: 3_000 },
      { url, proofMs: 100 },
    );
    stores.push(store);
    const stopping = new AbortController();
    const running = store.notices?.listen(() => {}, stopping.signal);
    await until(() => lines.length === 1, 3_000);
    assert.match(lines[0] ?? '', /^info .*PgBouncer.*svc\.outbox\.poll-interval-ms/);
    await sleep(500);
    assert.deepEqual(await server.query(url, listening), []);
    stopping.abort();
    await running;
  });

  it('keep no process alive that listens, or has just told of some', async () => {
    await open().prepare();
    const file = JSON.stringify(
      new URL('../../src/adapters/postgres/postgres-store.ts', import.meta.url).href,
    );
    const script = `
      const { createPostgresStore } = await import(${file});
      const { notices } = createPostgresStore({ url: process.argv[1], table: '${table}', initializeSchema: 'never' });
      let hear;
      const heard = new Promise((resolve) => { hear = resolve; });
      void notices.listen(hear, new AbortController().signal);
      const hold = setInterval(() => {}, 1_000);
      await heard;
      await notices.send([1]);
      void notices.send([2]);
      clearInterval(hold);
      console.log('done');`;
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script, url], {
      timeout: 10_000,
    });
    assert.equal(stdout, 'done\n');
  });

  it('of a worker thread are told to the relay of the main thread, and so is its end', async () => {
    const woken: number[] = [];
    let wakes = 0;
    const told = tellOfRows(
      {
        wake: () => void wakes++,
        holds: (shard) => woken.push(shard) > 0,
      },
      undefined,
    );
    const file = JSON.stringify(new URL('../../src/outbox/outbox.ts', import.meta.url).href);
    const worker = new Worker(
      `import(${file}).then(({ tellOfRows }) => { const told = tellOfRows(); told.tell(17); setTimeout(() => told.close(), 50); });`,
      { eval: true },
    );
    await once(worker, 'exit');
    await until(() => wakes === 2, 2_000);
    assert.deepEqual(woken, [17]);
    told.close();
  });
});
