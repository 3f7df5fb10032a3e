import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { debezium } from '../../src/adapters/debezium/connector.ts';
import type { SqlStoreOptions } from '../../src/adapters/sql/sql-store.ts';
import { dialects } from '../../src/adapters/sql/statement.ts';
import { type DialectName, quoteTable } from '../../src/outbox/insert-row.ts';
import { type OutboxRow, shardCount, shardOf } from '../../src/outbox/outbox-row.ts';
import type { OutboxStore, StoredRow } from '../../src/outbox/outbox-store.ts';
import { outboxRow } from '../cli/outbox-folder.ts';

/** What the suite needs to know of an adapter. */
export interface OutboxStoreUnderTest {
  readonly dialect: DialectName;
  readonly url: string;
  /** A new store: nothing is shared but what is stored. */
  open(options: SqlStoreOptions): OutboxStore;
  /** One statement, by a reader that is not the adapter. */
  query(statement: string): Promise<readonly Record<string, unknown>[]>;
}

export const newTable = (): string => `outbox_${randomBytes(6).toString('hex')}`;

let sequence = 0;

export function rowOf(rest: Partial<OutboxRow> = {}): OutboxRow {
  sequence++;
  return outboxRow({
    ...{ eventId: `7${String(sequence).padStart(18, '0')}`, eventType: 'ORDER_CREATED', topic: 'orders' },
    ...{ aggregateId: `order-${sequence}`, key: `order-${sequence}`, occurredAt: 1_772_618_400_131 },
    headers: { 'content-type': 'application/json' },
    payload: Buffer.from(`{"number":${sequence}}`),
    ...rest,
  });
}

/** A row in that shard. */
function rowIn(shard: number): OutboxRow {
  for (;;) {
    const row = rowOf();
    if (shardOf(row) === shard) return row;
  }
}

const allShards = Array.from({ length: shardCount }, (_, shard) => shard);
const leaseMs = 60_000;
const everything = 1_000_000;
const none = { upToId: 0, ids: [] };

/** What stands in the row of its own, without what the store adds. */
function given({
  eventId,
  eventType,
  aggregateType,
  aggregateId,
  topic,
  key,
  headers,
  payload,
  occurredAt,
}: OutboxRow) {
  const hex = payload.toString('hex');
  return {
    eventId,
    eventType,
    aggregateType,
    aggregateId,
    topic,
    key,
    headers: { ...headers },
    hex,
    occurredAt,
  };
}

/** The promises of the port in `src/outbox/outbox-store.ts`, each as a test. Call it inside a `describe`. */
export function testOutboxStore(get: () => OutboxStoreUnderTest): void {
  const opened: OutboxStore[] = [];
  let table: string;
  let store: OutboxStore;

  const open = (rest: Partial<SqlStoreOptions> = {}): OutboxStore => {
    const made = get().open({ url: get().url, table, initializeSchema: 'always', ...rest });
    opened.push(made);
    return made;
  };
  const query = (statement: string) => get().query(statement);
  const named = (suffix = ''): string => quoteTable(get().dialect, table, suffix);
  const dialect = () => dialects[get().dialect];
  const ago = (ms: number): string => dialect().nowMinusMs.replace('?', String(ms));
  const all = (): Promise<readonly StoredRow[]> => store.read({}, 0, everything);
  const idsOf = (rows: readonly StoredRow[]): number[] => rows.map(({ id }) => id);
  const counts = async () => {
    const { total, pending, published, failed } = await store.statistics();
    return { total, pending, published, failed };
  };
  /** Its lease has run out. */
  const expire = async (owner: string): Promise<void> => {
    await query(`UPDATE ${named('_shard')} SET lease_until = ${ago(1)} WHERE owner = '${owner}'`);
    await query(`UPDATE ${named('_relay')} SET alive_until = ${ago(1)} WHERE owner = '${owner}'`);
  };
  const stored = async (count: number, rest: Partial<OutboxRow> = {}): Promise<readonly StoredRow[]> => {
    await store.insert(Array.from({ length: count }, () => rowOf(rest)));
    return (await all()).slice(-count);
  };

  beforeEach(async () => {
    table = newTable();
    store = open();
    await store.prepare();
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((one) => one.close(1_000)));
  });

  it('tells which views write: those whose query calls a function, with all views that read them', async () => {
    const { dialect } = get();
    const [view, fn] = [`v_${newTable()}`, `f_${newTable()}`];
    const call = dialect === 'sqlite' ? 'abs(1)' : `${fn}()`;
    const texts = [
      `CREATE VIEW ${view}_direct AS SELECT ${call} AS a`,
      `CREATE VIEW ${view}_again AS SELECT a FROM ${view}_direct`,
      `CREATE VIEW ${view}_third AS SELECT max(a) AS a FROM ${view}_again`,
      `CREATE VIEW ${view}_pure AS SELECT count(*) AS a, lower('A') AS b FROM ${named()}`,
    ];
    const functions = {
      postgres: [`CREATE FUNCTION ${fn}() RETURNS int LANGUAGE sql AS 'SELECT 1'`],
      mysql: [`CREATE FUNCTION ${fn}() RETURNS INT DETERMINISTIC RETURN 1`],
      sqlite: [],
    };
    const policies = [
      `CREATE TABLE ${view}_rows (a int)`,
      `CREATE POLICY readers ON ${view}_rows FOR SELECT USING (${fn}() = a)`,
      `CREATE TABLE ${view}_others (a int)`,
      `CREATE POLICY writers ON ${view}_others FOR INSERT WITH CHECK (${fn}() = a)`,
      `CREATE MATERIALIZED VIEW ${view}_kept AS SELECT ${call} AS a`,
    ];
    for (const text of [...functions[dialect], ...texts, ...(dialect === 'postgres' ? policies : [])])
      await query(text);
    const { writingViews } = await store.traits();
    const found = writingViews.flatMap((name) => name.split(`${view}_`).slice(1)).sort();
    const expected = {
      postgres: ['again', 'direct', 'rows', 'third'],
      mysql: ['again', 'direct', 'third'],
      sqlite: [],
    };
    assert.deepEqual(found, expected[dialect]);
    for (const name of ['third', 'again', 'direct', 'pure']) await query(`DROP VIEW ${view}_${name}`);
  });

  describe('rows', () => {
    it('are stored with every value, and read again by ascending id', async () => {
      const rows = [
        rowOf({ occurredAt: 0 }),
        rowOf({ key: '', headers: {} }),
        rowOf({ occurredAt: 4_102_444_800_999 }),
      ];
      await store.insert(rows);
      const found = await all();
      assert.deepEqual(found.map(given), rows.map(given));
      for (const { status, retryCount, lastError, waitMs } of found)
        assert.deepEqual(
          { status, retryCount, lastError, waitMs },
          { status: 'PENDING', retryCount: 0, lastError: null, waitMs: 0 },
        );
      assert.deepEqual(
        idsOf(found),
        idsOf(found).sort((a, b) => a - b),
      );
    });

    it('keep any bytes of the payload, one megabyte of them, and none', async () => {
      const every = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
      const rows = [every, randomBytes(1024 * 1024), Buffer.alloc(0), Buffer.from('\0\\x00\'"')].map(
        (payload) => rowOf({ payload }),
      );
      await store.insert(rows);
      assert.deepEqual((await all()).map(given), rows.map(given));
    });

    it('keep any Unicode in headers, NUL included, and whatever looks like SQL in every text', async () => {
      const text = `Grüße, 世界 🎉 \u2028 \\n \\' "quoted" '; DROP TABLE ${table}; -- $1 ? :a @b %s \``;
      const rows = [
        rowOf({ headers: { a: `${text}\u0000`, [text]: 'ÜBER', traceparent: '00-1-2-01' } }),
        rowOf({
          eventId: text,
          eventType: text,
          aggregateType: text,
          aggregateId: text,
          topic: text,
          key: text,
        }),
      ];
      await store.insert(rows);
      assert.deepEqual((await all()).map(given), rows.map(given));
      const filter = { eventType: text, aggregateType: text, aggregateId: text, topic: text };
      assert.equal((await store.read(filter, 0, 10)).length, 1);
    });

    it('are stored all or none', async () => {
      const broken = rowOf({ payload: null as unknown as Buffer });
      await assert.rejects(store.insert([rowOf(), broken, rowOf()]), { code: 'SVC_OUTBOX_STATEMENT' });
      assert.deepEqual(await all(), []);
      await store.insert([]);
      assert.equal(await store.countPending(), 0);
    });

    it('have the shard of their aggregate, and the time of the database', async () => {
      const rows = Array.from({ length: 20 }, () => rowOf());
      await store.insert(rows);
      const found = await query(
        `SELECT shard, ${dialect().msOf('created_at')} AS created, ${dialect().msOf(dialect().now)} AS clock FROM ${named()} ORDER BY id`,
      );
      assert.deepEqual(
        found.map(({ shard }) => Number(shard)),
        rows.map(shardOf),
      );
      for (const { created, clock } of found) assert.ok(Math.abs(Number(created) - Number(clock)) < 10_000);
    });
  });

  describe('senders', () => {
    it('are the relays that are alive, and how long the oldest row waits', async () => {
      const nobody = { erases: false, isRouted: false, relays: 0, oldestMs: null };
      const { log, ...found } = await store.senders();
      assert.deepEqual(found, nobody);
      assert.equal(log === 'none' || get().dialect !== 'sqlite', true);
      await store.claim('one', 60_000);
      await store.claim('two', 60_000);
      await expire('two');
      await stored(2);
      await query(`UPDATE ${named()} SET created_at = ${ago(90_000)} WHERE id = 1`);
      const { relays, oldestMs } = await store.senders();
      assert.equal(relays, 1);
      assert.ok((oldestMs ?? 0) >= 90_000 && (oldestMs ?? 0) < 100_000, `${oldestMs}`);
    });

    it('may be Debezium, once its column is there, and in PostgreSQL its trigger', async () => {
      const kind = get().dialect;
      if (kind === 'sqlite') return;
      const sql = (erases: boolean) =>
        debezium.sql({ ...{ dialect: kind, table, headers: [], erases }, publication: `of_${table}` });
      const run = async (text: string): Promise<void> => {
        for (const statement of kind === 'postgres' ? [text] : text.split(/;\n+/).filter(Boolean))
          await query(statement);
      };
      await run(sql(true));
      const { isRouted, erases } = await store.senders();
      assert.deepEqual([isRouted, erases], [true, kind === 'postgres']);
      if (kind === 'mysql') return;
      await run(sql(false));
      assert.equal((await store.senders()).erases, false);
    });
  });

  describe('shards', () => {
    it('all belong to the only owner there is, again and again', async () => {
      assert.deepEqual(await store.claim('one', leaseMs), allShards);
      assert.deepEqual(await store.claim('one', leaseMs), allShards);
    });

    it('come with the time of the database', async () => {
      const times: number[] = [];
      await store.claim('one', leaseMs, { onTime: (nowMs) => times.push(nowMs) });
      assert.equal(times.length, 1);
      // Test servers run on this machine.
      assert.ok(Math.abs((times[0] ?? 0) - Date.now()) < 5_000, String(times));
    });

    for (const count of [2, 3, 5]) {
      it(`are shared by ${count} owners: ${Math.ceil(shardCount / count)} at most for each, and none twice`, async () => {
        const owners = Array.from({ length: count }, (_, index) => `owner-${index}`);
        const stores = owners.map(() => open());
        let held: (readonly number[])[] = [];
        for (let round = 0; round < 3; round++) {
          held = [];
          for (const [index, owner] of owners.entries())
            held.push((await stores[index]?.claim(owner, leaseMs)) ?? []);
        }
        for (const shards of held)
          assert.ok(shards.length <= Math.ceil(shardCount / count), `${shards.length} held`);
        assert.deepEqual(
          held.flat().sort((a, b) => a - b),
          allShards,
        );
      });
    }

    it('are never held by two, whoever claims at the same time', async () => {
      const owners = Array.from({ length: 8 }, (_, index) => `owner-${index}`);
      const stores = owners.map(() => open());
      for (let round = 0; round < 3; round++)
        await Promise.all(owners.map((owner, index) => stores[index]?.claim(owner, leaseMs)));
      const held = await Promise.all(owners.map((owner, index) => stores[index]?.claim(owner, leaseMs)));
      assert.deepEqual(
        held.flatMap((shards) => shards ?? []).sort((a, b) => a - b),
        allShards,
      );
      for (const shards of held) assert.equal(shards?.length, 8);
    });

    it('stay with their owner until its lease ends', async () => {
      await store.claim('one', leaseMs);
      assert.deepEqual(await open().claim('two', leaseMs), []);
      assert.equal((await store.claim('one', leaseMs)).length, 32);
      assert.equal((await store.claim('two', leaseMs)).length, 32);
    });

    it('that their owner keeps are not given back, and count towards its share', async () => {
      await store.claim('one', leaseMs);
      await open().claim('two', leaseMs);
      const last = allShards.slice(-3);
      const held = await store.claim('one', leaseMs, { keeps: [...last, 1_000] });
      assert.equal(held.length, 32);
      assert.deepEqual(held.slice(-3), last);
      assert.equal((await store.claim('two', leaseMs)).length, 32);
      await store.release('two');
      assert.deepEqual(await store.claim('one', leaseMs), allShards);
      await store.claim('two', leaseMs);
      assert.deepEqual(await store.claim('one', leaseMs, { keeps: allShards }), allShards);
      assert.deepEqual(await store.claim('two', leaseMs, { keeps: allShards }), []);
    });

    it('are taken over when the lease has run out, and its owner is alive no longer', async () => {
      await store.claim('one', leaseMs);
      await expire('one');
      assert.deepEqual(await open().claim('two', leaseMs), allShards);
      assert.deepEqual(await store.claim('one', leaseMs), []);
    });

    it('whose lease has run out stay with their owner for a claim that leaves them, unless it is gone', async () => {
      await store.claim('one', leaseMs);
      await expire('one');
      assert.deepEqual(await open().claim('two', leaseMs, { leavesExpired: true }), []);
      assert.deepEqual(await store.claim('one', leaseMs, { leavesExpired: true }), allShards.slice(0, 32));
      assert.equal((await store.claim('two', leaseMs, { leavesExpired: true })).length, 32);
      await expire('one');
      const isGone = (owner: string): boolean => owner === 'one';
      assert.deepEqual(await store.claim('two', leaseMs, { leavesExpired: true, isGone }), allShards);
    });

    it('of an owner that is known to be gone are taken at once, all of them, and of nobody else', async () => {
      await store.claim('gone', 60_000);
      const asked: string[] = [];
      const isGone = (owner: string): boolean => {
        asked.push(owner);
        return owner === 'gone';
      };
      assert.deepEqual(await store.claim('one', 60_000), []);
      assert.equal((await store.claim('one', 60_000, { isGone })).length, shardCount);
      assert.deepEqual(await store.claim('two', 60_000, { isGone }), []);
      assert.deepEqual(asked, ['gone', 'one']);
      assert.equal((await store.claim('one', 60_000, { isGone })).length, shardCount / 2);
    });

    it('are full for whoever comes when as many others are alive and hold each of them, until one leaves or its time is over', async () => {
      const owners = Array.from({ length: shardCount }, (_, index) => `owner-${index}`);
      assert.equal(await store.isFull('late'), false);
      for (const owner of owners) await store.claim(owner, 60_000);
      // What the first ones had too much of is the last ones' now.
      for (const owner of owners) await store.claim(owner, 60_000);
      for (const owner of owners) assert.equal((await store.claim(owner, 60_000)).length, 1, owner);
      assert.equal(await store.isFull('late'), true);
      assert.equal(await store.isFull('owner-5'), false);
      await store.release('owner-5');
      assert.equal(await store.isFull('late'), false);
      await store.claim('owner-5', 60_000);
      assert.equal(await store.isFull('late'), true);
      await expire('owner-6');
      assert.equal(await store.isFull('late'), false);
      assert.deepEqual((await store.holders()).length, shardCount - 1);
    });

    it('tell who holds them, how many, and for how long', async () => {
      assert.deepEqual(await store.holders(), []);
      await store.claim('one', 60_000);
      await store.claim('two', 30_000);
      await store.claim('one', 60_000);
      await store.claim('two', 30_000);
      const found = await store.holders();
      assert.deepEqual(
        found.map(({ owner, shards, leaseMs }) => [owner, shards, Math.ceil(leaseMs / 10_000)]),
        [
          ['one', 32, 6],
          ['two', 32, 3],
        ],
      );
      await expire('two');
      assert.deepEqual(
        (await store.holders()).map(({ owner }) => owner),
        ['one'],
      );
    });

    it('have a lease as long as asked for, by the database', async () => {
      await store.claim('one', 5_000);
      const [found] = await query(
        `SELECT MIN(${dialect().msOf('lease_until')} - ${dialect().msOf(dialect().now)}) AS left_ms FROM ${named('_shard')}`,
      );
      const leftMs = Number(found?.left_ms);
      assert.ok(leftMs > 2_000 && leftMs <= 5_000, `${leftMs} ms`);
    });

    it('are given back, all of them, and their owner is gone', async () => {
      await store.claim('one', leaseMs);
      await store.claim('two', leaseMs);
      await store.release('one');
      await store.release('one');
      await store.release('nobody');
      assert.deepEqual(await store.claim('two', leaseMs), allShards);
    });
  });

  describe('pending', () => {
    it('gives rows of these shards only, after that id, by ascending id, as many as asked for', async () => {
      await store.insert(allShards.flatMap((shard) => [rowIn(shard), rowIn(shard)]));
      const rows = await all();
      const chosen = rows.filter((row) => [3, 17, 63].includes(shardOf(row)));
      assert.equal(chosen.length, 6);
      assert.deepEqual(idsOf(await store.pending([63, 3, 17], none, 100)), idsOf(chosen));
      assert.deepEqual(idsOf(await store.pending([63, 3, 17], none, 4)), idsOf(chosen.slice(0, 4)));
      assert.deepEqual(
        idsOf(await store.pending([63, 3, 17], { upToId: chosen[3]?.id ?? 0, ids: [] }, 4)),
        idsOf(chosen.slice(4)),
      );
      assert.deepEqual(await store.pending([], none, 100), []);
      assert.equal((await store.pending(allShards, none, everything)).length, 128);
    });

    it('leaves out those that are named, however many, and gives what lies between them', async () => {
      const rows = await stored(1_200);
      const [, between] = rows;
      const ids = idsOf(rows).filter((id) => id !== between?.id);
      assert.deepEqual(idsOf(await store.pending(allShards, { upToId: 0, ids }, 10)), [between?.id]);
      const named = { upToId: 0, ids: idsOf(rows) };
      assert.deepEqual(await store.pending(allShards, named, 10), []);
    });

    it('gives those that wait for their next try as well, and says for how long', async () => {
      const [row] = await stored(1);
      const id = row?.id ?? 0;
      await store.claim('one', leaseMs);
      await store.fail('one', [{ id, retryCount: 1, lastError: 'too large', retryInMs: 30_000 }]);
      const [waiting] = await store.pending(allShards, none, 10);
      assert.deepEqual(
        [waiting?.status, waiting?.retryCount, waiting?.lastError],
        ['PENDING', 1, 'too large'],
      );
      assert.ok((waiting?.waitMs ?? 0) > 20_000 && (waiting?.waitMs ?? 0) <= 30_000, `${waiting?.waitMs}`);
      await store.fail('one', [{ id, retryCount: 2, lastError: 'too large', retryInMs: 0 }]);
      assert.ok(((await store.pending(allShards, none, 10))[0]?.waitMs ?? 1) <= 0);
    });

    it('leaves out what is PUBLISHED and FAILED', async () => {
      const rows = await stored(3);
      const [one, two, three] = idsOf(rows) as [number, number, number];
      await store.claim('one', leaseMs);
      await store.ack('one', [one], true);
      await store.fail('one', [{ id: two, retryCount: 3, lastError: 'refused', retryInMs: null }]);
      assert.deepEqual(idsOf(await store.pending(allShards, none, 10)), [three]);
      assert.equal(await store.countPending(), 1);
    });
  });

  describe('ack', () => {
    it('marks rows as PUBLISHED, and says which', async () => {
      const ids = idsOf(await stored(5));
      await store.claim('one', leaseMs);
      assert.deepEqual([...(await store.ack('one', ids.slice(0, 3), true))].sort(), ids.slice(0, 3));
      assert.deepEqual(
        (await all()).map(({ status }) => status),
        ['PUBLISHED', 'PUBLISHED', 'PUBLISHED', 'PENDING', 'PENDING'],
      );
      assert.deepEqual(await store.ack('one', ids.slice(0, 3), true), ids.slice(0, 3), 'a second time');
      assert.deepEqual(await store.ack('one', [], true), []);
      assert.deepEqual(await store.ack('one', [everything], true), [everything], 'a row that is gone');
    });

    it('deletes them where they are not kept', async () => {
      const ids = idsOf(await stored(4));
      await store.claim('one', leaseMs);
      assert.deepEqual([...(await store.ack('one', ids.slice(0, 3), false))].sort(), ids.slice(0, 3));
      assert.deepEqual(idsOf(await all()), ids.slice(3));
    });

    for (const keep of [true, false]) {
      it(`does nothing for shards of nobody or of another owner (keep: ${keep})`, async () => {
        const ids = idsOf(await stored(3));
        assert.deepEqual(await store.ack('one', ids, keep), []);
        await store.claim('two', leaseMs);
        assert.deepEqual(await store.ack('one', ids, keep), []);
        await expire('two');
        await store.claim('one', leaseMs);
        assert.deepEqual(await store.ack('two', ids, keep), []);
        assert.equal(await store.countPending(), 3);
      });

      it(`is done when the lease has run out, and no other owner has taken the shard (keep: ${keep})`, async () => {
        const ids = idsOf(await stored(3));
        await store.claim('one', leaseMs);
        await expire('one');
        assert.deepEqual(await store.ack('one', ids, keep), ids);
        assert.equal(await store.countPending(), 0);
      });
    }

    it('is done for the rows of shards that are held, and for no others', async () => {
      await store.insert([...allShards, ...allShards].map(rowIn));
      const rows = await all();
      await store.claim('one', leaseMs);
      await store.claim('two', leaseMs);
      const held = await store.claim('one', leaseMs);
      const mine = rows.filter((row) => held.includes(shardOf(row)));
      assert.equal(mine.length, 64);
      assert.deepEqual(
        [...(await store.ack('one', idsOf(rows), true))].sort((a, b) => a - b),
        idsOf(mine),
      );
      assert.equal(await store.countPending(), 64);
    });

    it('takes two thousand at once', async () => {
      const ids = idsOf(await stored(2_000));
      await store.claim('one', leaseMs);
      assert.equal((await store.ack('one', ids, true)).length, 2_000);
    }).timeout(30_000);
  });

  describe('fail', () => {
    it('writes down tries, cause and next try of each, and FAILED where there is none', async () => {
      const [one, two, three] = idsOf(await stored(3)) as [number, number, number];
      await store.claim('one', leaseMs);
      await store.fail('one', [
        { id: one, retryCount: 1, lastError: `it's "one"`, retryInMs: 60_000 },
        { id: two, retryCount: 3, lastError: 'two', retryInMs: null },
      ]);
      assert.deepEqual(
        (await all()).map(({ id, status, retryCount, lastError }) => ({ id, status, retryCount, lastError })),
        [
          { id: one, status: 'PENDING', retryCount: 1, lastError: `it's "one"` },
          { id: two, status: 'FAILED', retryCount: 3, lastError: 'two' },
          { id: three, status: 'PENDING', retryCount: 0, lastError: null },
        ],
      );
      await store.fail('one', []);
    });

    it('keeps the cause to one line of a thousand characters', async () => {
      const [id] = idsOf(await stored(1)) as [number];
      await store.claim('one', leaseMs);
      await store.fail('one', [
        { id, retryCount: 1, lastError: `a\u0000\r\nb${'x'.repeat(5_000)}`, retryInMs: null },
      ]);
      const [row] = await all();
      assert.match(row?.lastError ?? '', /^a bx{997}$/);
    });

    it('tells the aggregates of FAILED rows in these shards, whatever others look like them', async () => {
      // To some collations they are one.
      const failed = rowOf({ aggregateId: 'a' });
      await store.insert([failed, rowOf({ aggregateId: 'a ' }), rowOf({ aggregateId: 'A' }), rowOf()]);
      const [one, two, three] = idsOf(await all()) as [number, number, number];
      await store.claim('one', leaseMs);
      const failure = { retryCount: 1, lastError: 'x', retryInMs: null };
      await store.fail('one', [
        { id: one, ...failure },
        { id: two, ...failure },
        { id: three, ...failure, retryInMs: 60_000 },
      ]);
      const found = await store.failedAggregates(allShards);
      assert.deepEqual(
        found.map(({ aggregateType, aggregateId }) => `${aggregateType} ${aggregateId}`).sort(),
        ['Order a', 'Order a '],
      );
      const [own] = await store.failedAggregates([shardOf(failed)]);
      assert.equal(own?.aggregateId, 'a');
      assert.deepEqual(await store.failedAggregates([]), []);
    });

    it('does nothing in shards of others, nor to a row that is no longer PENDING', async () => {
      const [one, two] = idsOf(await stored(2)) as [number, number];
      const failure = { retryCount: 1, lastError: 'late', retryInMs: null };
      await store.fail('one', [{ id: one, ...failure }]);
      await store.claim('one', leaseMs);
      await store.ack('one', [one], true);
      await store.fail('one', [{ id: one, ...failure }]);
      await expire('one');
      await store.claim('two', leaseMs);
      await store.fail('one', [{ id: two, ...failure }]);
      assert.deepEqual(await counts(), { total: 2, pending: 1, published: 1, failed: 0 });
    });
  });

  describe('statistics', () => {
    it('of no rows tell no times', async () => {
      assert.deepEqual(await store.statistics(), {
        ...{ total: 0, pending: 0, published: 0, failed: 0 },
        ...{ oldestPendingMs: null, avgProcessingTimeMs: null },
      });
    });

    it('count each status, and tell the age of the oldest and the mean time to the sending', async () => {
      const ids = idsOf(await stored(4));
      await store.claim('one', leaseMs);
      await store.ack('one', ids.slice(0, 2), true);
      await store.fail('one', [{ id: ids[2] ?? 0, retryCount: 1, lastError: 'x', retryInMs: null }]);
      await query(
        `UPDATE ${named()} SET created_at = ${ago(90_000)}, published_at = ${ago(89_000)} WHERE id = ${ids[0]}`,
      );
      await query(
        `UPDATE ${named()} SET created_at = ${ago(90_000)}, published_at = ${ago(87_000)} WHERE id = ${ids[1]}`,
      );
      await query(`UPDATE ${named()} SET created_at = ${ago(50_000)} WHERE id = ${ids[3]}`);
      const { oldestPendingMs, avgProcessingTimeMs, ...rest } = await store.statistics();
      assert.deepEqual(rest, { total: 4, pending: 1, published: 2, failed: 1 });
      assert.ok((oldestPendingMs ?? 0) >= 50_000 && (oldestPendingMs ?? 0) < 60_000, `${oldestPendingMs}`);
      assert.ok(Math.abs((avgProcessingTimeMs ?? 0) - 2_000) < 20, `${avgProcessingTimeMs}`);
    });
  });

  describe('filters', () => {
    it('choose by each value, by all together, and by the time of the storing', async () => {
      await store.insert([
        rowOf({ eventType: 'A', topic: 't1', aggregateType: 'X', aggregateId: '1' }),
        rowOf({ eventType: 'A', topic: 't2', aggregateType: 'X', aggregateId: '2' }),
        rowOf({ eventType: 'B', topic: 't1', aggregateType: 'Y', aggregateId: '1' }),
        rowOf({ eventType: 'a', topic: 't1 ', aggregateType: 'Ý', aggregateId: '1 ' }),
      ]);
      const ids = idsOf(await all());
      const places = async (filter: Parameters<OutboxStore['read']>[0]) =>
        idsOf(await store.read(filter, 0, 100)).map((id) => ids.indexOf(id));
      assert.deepEqual(await places({}), [0, 1, 2, 3]);
      assert.deepEqual(await places({ eventType: 'A' }), [0, 1]);
      assert.deepEqual(await places({ topic: 't1' }), [0, 2]);
      assert.deepEqual(await places({ aggregateType: 'Y' }), [2]);
      assert.deepEqual(await places({ aggregateId: '1' }), [0, 2]);
      assert.deepEqual(await places({ eventType: 'A', topic: 't1' }), [0]);
      assert.deepEqual(await places({ ids: [ids[3] ?? 0, ids[1] ?? 0] }), [1, 3]);
      assert.deepEqual(await places({ ids: [] }), [], 'no ids are not all of them');
      assert.deepEqual(await places({ statuses: [] }), []);
      assert.deepEqual(await places({ statuses: ['PENDING', 'FAILED'] }), [0, 1, 2, 3]);
      const old = dialect().timeOfMs.replace('?', '1700000000000');
      await query(`UPDATE ${named()} SET created_at = ${old} WHERE id = ${ids[0]}`);
      assert.deepEqual(await places({ since: 1_700_000_000_001 }), [1, 2, 3]);
      assert.deepEqual(await places({ since: 1_700_000_000_000 }), [0, 1, 2, 3]);
      assert.deepEqual(await places({ before: 1_700_000_000_001 }), [0]);
      assert.deepEqual(await places({ before: 1_700_000_000_000 }), []);
      assert.deepEqual(idsOf(await store.read({}, ids[1] ?? 0, 1)), ids.slice(2, 3), 'after an id, so many');
    });
  });

  describe('retry, discard, cleanup', () => {
    const failed = async (count: number): Promise<number[]> => {
      const ids = idsOf(await stored(count));
      await store.claim('one', leaseMs);
      await store.fail(
        'one',
        ids.map((id) => ({ id, retryCount: 3, lastError: 'refused', retryInMs: null })),
      );
      return ids;
    };

    it('makes FAILED rows PENDING again with all their tries, and only those', async () => {
      const ids = await failed(3);
      await stored(1);
      assert.equal(await store.retry({ ids: ids.slice(0, 1) }), 1);
      const [row] = await all();
      assert.deepEqual([row?.status, row?.retryCount, row?.waitMs], ['PENDING', 0, 0]);
      assert.equal(await store.retry({ statuses: ['PENDING'] }), 0);
      assert.equal(await store.retry({}), 2);
      assert.equal(await store.retry({}), 0);
      assert.deepEqual(await counts(), { total: 4, pending: 4, published: 0, failed: 0 });
    });

    it('discards what is chosen, all of it where nothing is', async () => {
      const ids = await failed(3);
      await stored(2);
      assert.equal(await store.discard({ ids: [] }), 0);
      assert.equal(await store.discard({ statuses: ['FAILED'], ids: ids.slice(1) }), 2);
      assert.equal(await store.discard({}), 3);
      assert.equal(await store.discard({}), 0);
    });

    it('discards more than fit into one transaction', async () => {
      for (const length of [1_000, 1_000, 1_000, 1_000, 1_001])
        await store.insert(Array.from({ length }, () => rowOf({ topic: 'many' })));
      await stored(1);
      assert.equal(await store.discard({ topic: 'many' }), 5_001);
      assert.equal(await store.countPending(), 1);
    }).timeout(60_000);

    it('cleans up what has had its status for longer than an age, the oldest first and so many at most', async () => {
      const ids = idsOf(await stored(6));
      const failedIds = await failed(2);
      await store.ack('one', ids.slice(0, 5), true);
      for (const [index, id] of ids.slice(0, 5).entries())
        await query(`UPDATE ${named()} SET published_at = ${ago(index * 10_000)} WHERE id = ${id}`);
      await query(`UPDATE ${named()} SET failed_at = ${ago(60_000)} WHERE id = ${failedIds[0]}`);
      assert.equal(await store.cleanup('PUBLISHED', 100_000, 10), 0);
      assert.equal(await store.cleanup('PUBLISHED', 15_000, 2), 2);
      assert.deepEqual(idsOf(await store.read({ statuses: ['PUBLISHED'] }, 0, 10)), ids.slice(0, 3));
      assert.equal(await store.cleanup('PUBLISHED', 15_000, 2), 1);
      assert.equal(await store.cleanup('FAILED', 30_000, 10), 1);
      assert.deepEqual(await counts(), { total: 4, pending: 1, published: 2, failed: 1 });
    });

    it('cleans up each row once, whoever is at it', async () => {
      const ids = idsOf(await stored(200));
      await store.claim('one', leaseMs);
      await store.ack('one', ids, true);
      await query(`UPDATE ${named()} SET published_at = ${ago(60_000)}`);
      const stores = Array.from({ length: 8 }, () => open());
      const counted = await Promise.all(stores.map((one) => one.cleanup('PUBLISHED', 1_000, 20)));
      const sum = counted.reduce((total, count) => total + count, 0);
      assert.ok(sum >= 20);
      assert.equal((await counts()).total, 200 - sum);
    });
  });

  describe('several stores', () => {
    it('work at once and do each row once', async () => {
      const stores = ['one', 'two', 'three'].map((owner) => ({ owner, mine: open() }));
      for (let round = 0; round < 3; round++)
        for (const { owner, mine } of stores) await mine.claim(owner, leaseMs);
      await store.insert(Array.from({ length: 300 }, () => rowOf()));
      const done = await Promise.all(
        stores.map(async ({ owner, mine }) => {
          const shards = await mine.claim(owner, leaseMs);
          const sent: number[] = [];
          for (let floor = 0; ; ) {
            const rows = await mine.pending(shards, { upToId: floor, ids: [] }, 20);
            if (rows.length === 0) return sent;
            floor = rows.at(-1)?.id ?? floor;
            sent.push(...(await mine.ack(owner, idsOf(rows), true)));
          }
        }),
      );
      assert.equal(new Set(done.flat()).size, 300);
      assert.equal(done.flat().length, 300);
      assert.deepEqual(await counts(), { total: 300, pending: 0, published: 300, failed: 0 });
    });

    it('leaves no transaction open between two calls', async () => {
      await store.claim('one', leaseMs);
      await store.insert([rowOf(), rowOf()]);
      await store.statistics();
      await query(`UPDATE ${named('_shard')} SET owner = 'somebody'`);
      await query(`DELETE FROM ${named()}`);
      assert.equal(await store.countPending(), 0);
    });

    it('answers no call after its end', async () => {
      await store.close(1_000);
      await assert.rejects(store.countPending(), { code: 'SVC_OUTBOX_UNREACHABLE' });
      await store.close(1_000);
    });
  });
}
