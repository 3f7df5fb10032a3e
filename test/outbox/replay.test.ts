import assert from 'node:assert/strict';
import { createReplay, type ReplayRequest } from '../../src/outbox/replay.ts';
import { away, forbidden } from '../publish/fake-cluster.ts';
import { onFakeTime } from './relay/fake-time.ts';
import { rowOf } from './relay/relay-under-test.ts';

const at = (ms: number): string => new Date(ms).toISOString();

describe('outbox replay', () => {
  let its: ReturnType<typeof onFakeTime>;
  beforeEach(() => {
    its = onFakeTime();
  });
  afterEach(() => its.time.restore());

  const replay = () => createReplay({ ...its, sendTimeoutMs: 1_000 });
  const table = () => JSON.stringify([...its.store.table.rows.values()]);

  async function rows(count: number, topic = 'orders'): Promise<string[]> {
    const made = Array.from({ length: count }, (_, seq) => rowOf(`a${seq % 5}`, seq, { topic }));
    await its.insert(...made);
    return made.map(({ eventId }) => eventId);
  }

  it('sends what was stored since then again, to its topic, whatever its status, and changes no row', async () => {
    await rows(3);
    await its.time.tickAsync(60_000);
    const ids = await rows(4, 'other');
    const statuses = ['PENDING', 'PUBLISHED', 'FAILED', 'PUBLISHED'];
    for (const [number, row] of [...its.store.table.rows.values()].slice(-4).entries())
      Object.assign(row, { status: statuses[number] });
    const before = table();
    const result = await replay().run({ since: at(60_000) });
    assert.deepEqual(result, {
      ...{ since: at(60_000), limit: 1_000, total: 4, success: 4, failed: 0, failedEventIds: [] },
    });
    assert.deepEqual(its.broker.stored.map(({ headers }) => headers.eventId).sort(), ids.sort());
    assert.ok(its.broker.sends.every(({ topic }) => topic === 'other'));
    assert.deepEqual(its.broker.stored[0]?.headers, {
      ...{
        eventId: its.broker.stored[0]?.headers.eventId,
        aggregateId: 'a0',
        seq: '0',
        'svc-replay': 'true',
      },
    });
    assert.equal(its.broker.stored[0]?.timestamp, 60_000);
    assert.equal(table(), before);
  });

  it('counts a row that is no record as failed, and sends the others', async () => {
    const bad = { ...rowOf('a1', 0), fault: 'its header "a" must be a string' };
    await its.insert(rowOf('a0', 0), bad, rowOf('a2', 0));
    const { success, failed, failedEventIds } = await replay().run({ since: at(0) });
    assert.deepEqual([success, failed, failedEventIds], [2, 1, [bad.eventId]]);
    assert.equal(its.broker.stored.length, 2);
  });

  it('keeps the order of each aggregate, over pages', async () => {
    await rows(1_700);
    const result = await replay().run({ since: at(0), limit: 1_600 });
    assert.deepEqual([result.limit, result.total, result.success], [1_600, 1_600, 1_600]);
    for (let aggregate = 0; aggregate < 5; aggregate++) {
      const own = its.broker.stored.filter(({ headers }) => headers.aggregateId === `a${aggregate}`);
      assert.deepEqual(
        own.map(({ headers }) => Number(headers.seq)),
        Array.from({ length: 320 }, (_, number) => number * 5 + aggregate),
      );
    }
  });

  it('reads fewer rows at once where those that are large do not come in time', async () => {
    const ids = [...(await rows(200)), ...(await rows(200))];
    const { read } = its.store;
    its.store.read = async (filter, afterId, limit) => {
      const found = await read(filter, afterId, limit);
      if (found.filter(({ id }) => id > 200).length > 10) throw new Error('late');
      return found;
    };
    const result = await replay().run({ since: at(0), limit: 1_600 });
    assert.deepEqual([result.total, result.success], [ids.length, ids.length]);
    its.store.read = () => Promise.reject(new Error('away'));
    await assert.rejects(replay().run({ since: at(0) }), /away/);
  });

  it('takes 1,000 rows by default, and those that a filter names', async () => {
    await rows(1_200);
    assert.equal((await replay().run({ since: at(0), dryRun: true })).total, 1_000);
    const some = await replay().run({ since: at(0), filter: { aggregateId: 'a1' }, limit: 7 });
    assert.deepEqual([some.total, some.success, its.broker.stored.length], [7, 7, 7]);
  });

  it('sends nothing in a dry run', async () => {
    await rows(3);
    const result = await replay().run({ since: at(0), dryRun: true });
    assert.deepEqual([result.total, result.success, result.failed, its.broker.sends.length], [3, 0, 0, 0]);
  });

  it('names the events that were not taken', async () => {
    const refused = await rows(2, 'secret');
    await rows(3);
    its.broker.reply = ({ topic }) => (topic === 'secret' ? forbidden : undefined);
    const result = await replay().run({ since: at(0) });
    assert.deepEqual(result, {
      ...{ since: at(0), limit: 1_000, total: 5, success: 3, failed: 2, failedEventIds: refused },
    });
  });

  it('says where it was stopped, and goes on there: each event once', async () => {
    const ids = await rows(900);
    const first = replay();
    its.broker.reply = () => void first.stop();
    const stopped = await first.run({ since: at(0) });
    its.broker.reply = () => undefined;
    assert.deepEqual(stopped, {
      ...{ since: at(0), limit: 1_000, total: 50, success: 50, failed: 0, failedEventIds: [], after: 50 },
    });
    const rest = await replay().run({ since: at(0), after: 50 });
    assert.deepEqual([rest.total, rest.success, rest.after], [850, 850, undefined]);
    assert.deepEqual(its.broker.stored.map(({ headers }) => headers.eventId).sort(), ids.sort());
  });

  it('that is stopped while the last of them are under way has sent all', async () => {
    await rows(50);
    const made = replay();
    its.broker.reply = () => void made.stop();
    const { success, failed, after } = await made.run({ since: at(0) });
    assert.deepEqual([success, failed, after], [50, 0, undefined]);
  });

  it('goes on where the cluster was away from', async () => {
    const ids = await rows(900);
    its.broker.reply = () => (its.broker.stored.length >= 350 ? away : undefined);
    const running = replay().run({ since: at(0) });
    await its.time.tickAsync(60_000);
    const { success, after } = await running;
    its.broker.reply = () => undefined;
    assert.equal((await replay().run({ since: at(0), after: after ?? -1 })).success, 900 - success);
    assert.deepEqual(its.broker.stored.map(({ headers }) => headers.eventId).sort(), ids.sort());
  });

  it('counts all that were found when the cluster is away', async () => {
    const ids = await rows(900);
    its.broker.reply = () => away;
    const running = replay().run({ since: at(0) });
    await its.time.tickAsync(60_000);
    const result = await running;
    assert.deepEqual([result.total, result.success, result.failed], [900, 0, 900]);
    assert.deepEqual([result.failedEventIds, result.after], [ids, 0]);
    assert.equal(its.broker.sends.length, 4, 'one batch and its three retries');
  });

  it('refuses a second one meanwhile, and a time or limit that none can have', async () => {
    await rows(1);
    const made = replay();
    let end = (): void => {};
    its.broker.reply = () => new Promise((resolve) => (end = () => resolve(undefined)));
    const running = made.run({ since: at(0) });
    await its.time.tickAsync(1);
    await assert.rejects(made.run({ since: at(0) }), { code: 'SVC_OUTBOX_REPLAY_BUSY' });
    end();
    assert.equal((await running).success, 1);
    const wrong: ReplayRequest[] = [
      { since: 'yesterday' },
      { since: '' },
      { since: at(0), limit: 0 },
      { since: at(0), limit: 1.5 },
      { since: at(0), after: -1 },
    ];
    for (const request of wrong)
      await assert.rejects(made.run(request), { code: 'SVC_OUTBOX_REPLAY_OPTIONS' }, JSON.stringify(request));
    its.store.failing = 'away';
    await assert.rejects(made.run({ since: at(0) }), { message: 'away' });
    its.store.failing = undefined;
    its.broker.reply = () => undefined;
    assert.equal((await made.run({ since: at(0), limit: 1 })).success, 1);
  });
});
