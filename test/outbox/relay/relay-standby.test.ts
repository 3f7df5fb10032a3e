import assert from 'node:assert/strict';
import { createPostgresStore } from '../../../src/adapters/postgres/postgres-store.ts';
import { shardCount } from '../../../src/outbox/outbox-row.ts';
import { startOwnPostgres } from '../../support/postgres.ts';
import { requiring } from '../../support/requires.ts';
import { until as untilSo } from '../../support/until.ts';
import { createTable } from '../memory-outbox-store.ts';
import { onFakeTime } from './fake-time.ts';
import { createFakeBroker, relayOver, rowOf, until } from './relay-under-test.ts';

const standbyMs = 60_000;
const leaseMs = 10_000;
/** The last look may have been just before. */
const replacedMs = leaseMs + 1.2 * standbyMs;

describe('relay: stands by while others have all shards', () => {
  let its: ReturnType<typeof onFakeTime>;
  beforeEach(() => {
    its = onFakeTime({ table: createTable() });
  });
  afterEach(() => its.time.restore());

  const owners = Array.from({ length: shardCount }, (_, index) => `other-${index}`);
  /** They go on, as relays that live do. */
  async function othersClaim(among = owners): Promise<void> {
    for (let round = 0; round < 2; round++) for (const owner of among) await its.store.claim(owner, leaseMs);
  }
  async function pass(ms: number, among = owners): Promise<void> {
    for (let passed = 0; passed < ms; passed += 2_000) {
      await othersClaim(among);
      await its.time.tickAsync(2_000);
    }
  }

  it('looks about once a minute, is alive for nobody, counts nothing, cleans nothing up, and stalls for nobody', async () => {
    await othersClaim();
    const relay = its.relay({ cleanupEnabled: true }, 'late');
    relay.start();
    await its.time.tickAsync(1);
    await its.insert(rowOf('a', 1));
    its.store.calls.clear();
    await pass(600_000);
    const looks = its.store.calls.get('isFull') ?? 0;
    assert.ok(looks >= 8 && looks <= 13, `${looks} looks in ten minutes`);
    for (const name of ['release', 'pending', 'cleanup', 'partition', 'countPending', 'statistics'])
      assert.equal(its.store.calls.get(name), undefined, name);
    assert.equal(its.store.table.owners.has('late'), false);
    const { standsBy, stalled, pending, timeSinceLastSuccessMs } = relay.state();
    assert.deepEqual(
      { standsBy, stalled, pending, timeSinceLastSuccessMs },
      { standsBy: true, stalled: undefined, pending: null, timeSinceLastSuccessMs: null },
    );
    assert.deepEqual(its.said(), [
      'info outbox: 64 relays already send the rows. This relay stands by, and checks every 60 s whether it is needed',
    ]);
    const calls = its.store.calls.get('release');
    assert.equal(await relay.finish(1_000), true);
    assert.equal(its.store.calls.get('release'), calls);
  });

  it('joins when another has left or died, within a lease and the longest time between two looks', async () => {
    await othersClaim();
    const relay = its.relay({}, 'late');
    relay.start();
    await its.time.tickAsync(1);
    assert.equal(relay.state().standsBy, true);
    // The shard of one that has died is nobody's until the others, or this one, take it.
    await pass(replacedMs, owners.slice(1));
    assert.equal(relay.state().standsBy, undefined);
    await pass(2 * leaseMs, owners.slice(1));
    assert.ok([...its.store.table.leases.values()].some(({ owner }) => owner === 'late'));
    assert.equal(its.said().at(-1), 'info outbox: this relay is needed, and starts');
  });

  it('sends the rows of all shards within that time where all others died at once', async () => {
    await othersClaim();
    const relay = its.relay({}, 'late');
    relay.start();
    await its.time.tickAsync(1);
    for (let each = 0; each < 50; each++) await its.insert(rowOf(`a${each}`, 1));
    await its.time.tickAsync(replacedMs + 1_000);
    assert.equal(its.broker.stored.length, 50);
  });

  it('is no relay that others count any more where it was alive and another got the shard', async () => {
    await othersClaim(owners.slice(1));
    const relay = its.relay({}, 'late');
    relay.start();
    await its.time.tickAsync(1);
    assert.equal(its.store.table.owners.has('late'), true);
    await pass(leaseMs);
    assert.equal(relay.state().standsBy, true);
    assert.equal(its.store.table.owners.has('late'), false);
  });

  it('says that it stalls where its looks have failed for two leases longer', async () => {
    await othersClaim();
    const relay = its.relay({}, 'late');
    relay.start();
    await its.time.tickAsync(1);
    its.store.failing = 'away';
    await its.time.tickAsync(standbyMs + 2 * leaseMs - 1_000);
    assert.equal(relay.state().stalled, undefined);
    await its.time.tickAsync(2_000);
    assert.equal(relay.state().stalled?.reason, 'the shards cannot be claimed: away');
  });
});

requiring('own-postgres', 'relay: more of them than shards, over PostgreSQL', function () {
  this.timeout(120_000);

  it('leaves those beyond them without a row and without a connection, and the rest send', async () => {
    const server = await startOwnPostgres();
    await server.query(server.url, 'ALTER SYSTEM SET max_connections = 300');
    await server.restart();
    const url = await server.freshDatabase();
    const lateUrl = new URL(url);
    await server.query(url, `CREATE ROLE late SUPERUSER LOGIN PASSWORD 'late'`);
    Object.assign(lateUrl, { username: 'late', password: 'late' });
    const open = (of: string, count: number) =>
      Array.from({ length: count }, () => {
        const store = createPostgresStore({
          url: of,
          table: 'svc_outbox_events',
          initializeSchema: 'always',
        });
        const broker = createFakeBroker(() => performance.now());
        return { store, broker, relay: relayOver({ store, broker }, { leaseMs: 6_000 }) };
      });
    const [atWork, late] = [open(url, shardCount), open(lateUrl.href, 16)];
    const [{ store: writer }] = atWork as [(typeof atWork)[0]];
    const ask = async (sql: string): Promise<number> => Number((await server.query(url, sql))[0]?.count);
    const owning = (): Promise<number> =>
      ask('SELECT count(DISTINCT owner) AS count FROM svc_outbox_events_shard WHERE lease_until > now()');
    const connected = (): Promise<number> =>
      ask(`SELECT count(*) AS count FROM pg_stat_activity WHERE usename = 'late'`);
    const standing = (): number => late.filter(({ relay }) => relay.state().standsBy).length;
    await writer.prepare();
    for (const { relay } of atWork) relay.start();
    await untilSo(async () => (await owning()) === shardCount, { limitMs: 60_000 });
    for (const { relay } of late) relay.start();
    await until(() => standing() === late.length, 20_000);
    // What their state was asked for before the first look keeps one for 12 s.
    await untilSo(async () => (await connected()) === 0, { limitMs: 15_000 });
    assert.equal(await ask('SELECT count(*) AS count FROM svc_outbox_events_relay'), shardCount);
    const sent = (): number => atWork.reduce((sum, { broker }) => sum + broker.stored.length, 0);
    await writer.insert(Array.from({ length: 200 }, (_, at) => rowOf(`a${at}`, 1)));
    await until(() => sent() === 200, 20_000);
    // Others at work take its shard when they renew, and nobody waits for one that stands by.
    await atWork[1]?.relay.stop(2_000);
    await writer.insert(Array.from({ length: 200 }, (_, at) => rowOf(`a${at}`, 2)));
    await until(() => sent() === 400, 20_000);
    await untilSo(async () => standing() < late.length, { limitMs: replacedMs });
    await untilSo(async () => (await owning()) === shardCount, { limitMs: 30_000 });
    await Promise.all([...atWork, ...late].map(({ relay }) => relay.stop(5_000)));
    await Promise.all([...atWork, ...late].map(({ store }) => store.close(1_000)));
    await server.stop();
  });
});
