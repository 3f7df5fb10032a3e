import assert from 'node:assert/strict';
import sinon from 'sinon';
import { SvcError } from '../../../src/ground/errors.ts';
import type { SendFailure } from '../../../src/publish/broker.ts';
import { createClusterState, defaultBreaker } from '../../../src/publish/main/cluster-state.ts';
import { createDrain } from '../../../src/publish/recovery/recover.ts';
import type { RecoverySource, StoredEvent, Unreadable } from '../../../src/publish/recovery-source.ts';
import { useClock } from '../../support/fake-time.ts';
import { useLogger } from '../../support/log.ts';

const away: SendFailure = { kind: 'retriable', cause: 'ECONNREFUSED', message: 'cannot reach Kafka' };
const refused: SendFailure = { kind: 'fatal', cause: 'TOPIC_AUTHORIZATION_FAILED', message: 'not allowed' };

const event = (id: number): StoredEvent => ({
  place: `${id}.json`,
  eventId: String(id),
  eventType: 'T',
  topic: 'orders',
  key: null,
  headers: {},
  value: Buffer.from('{}'),
  storedAt: 0,
  reason: undefined,
});

function setUp(options: Partial<Parameters<typeof createDrain>[0]> = {}) {
  const clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'], now: 0 });
  useClock({ now: () => clock.now, monotonic: () => clock.now });
  const state = {
    left: new Set<StoredEvent>(),
    inUse: [] as Unreadable[],
    isReachable: true as boolean | 'hangs',
    failure: undefined as SendFailure | undefined,
    busy: false,
    opened: 0,
    closed: 0,
    looks: 0,
    prepared: 0,
    sent: 0,
    lines: [] as string[],
  };
  const source: RecoverySource = {
    name: 'fake',
    async open() {
      if (state.busy) throw new SvcError('SVC_ADAPTERS_BACKUP_BUSY', 'process 7 is at it');
      state.opened++;
    },
    count: async () => state.left.size,
    async *read(size) {
      const all = [...state.left];
      yield { events: [], unreadable: state.inUse };
      for (let at = 0; at < all.length; at += size)
        yield { events: all.slice(at, at + size), unreadable: [] };
    },
    async done(events) {
      for (const one of events) state.left.delete(one);
    },
    async close() {
      state.closed++;
    },
  };
  const say = (message: string): void => void state.lines.push(message);
  useLogger({ debug: () => {}, info: say, warn: say, error: say });
  const drain = createDrain({
    ...{ left: source, mayHaveBacklog: true },
    send: async (_topic, _partition, records) => {
      if (state.failure !== undefined) return { ok: false, failure: state.failure };
      state.sent += records.length;
      return { ok: true };
    },
    partitionsFor: async () => 1,
    partitionOf: () => 0,
    sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    ratePerSecond: 100,
    hasLeft: async () => {
      state.looks++;
      return state.left.size > 0;
    },
    cluster: createClusterState({
      ...defaultBreaker,
      ask() {
        if (state.isReachable === 'hangs') return new Promise(() => {});
        return state.isReachable ? Promise.resolve() : Promise.reject(new Error('away'));
      },
    }),
    prepare: async () => void state.prepared++,
    onDrained: async () => {},
    ...options,
  });
  const add = (count: number): void => {
    for (let id = 0; id < count; id++) state.left.add(event(id));
  };
  return { drain, state, clock, add };
}

describe('drain without an order', () => {
  afterEach(() => sinon.restore());

  it('sends what an earlier process left, at the start', async () => {
    const { state, clock, add, drain } = setUp();
    add(3);
    await clock.tickAsync(100);
    assert.deepEqual(
      [state.sent, state.left.size, state.prepared, state.closed, drain.count()],
      [3, 0, 1, 1, 3],
    );
    assert.deepEqual(state.lines, ['events of the backup were sent to their topics']);
  });

  it('looks every minute for what others leave behind, where there was nothing at the start, too', async () => {
    for (const mayHaveBacklog of [true, false]) {
      const { state, clock, add } = setUp({ mayHaveBacklog });
      await clock.tickAsync(1);
      add(1);
      await clock.tickAsync(59_998);
      assert.equal(state.sent, 0);
      await clock.tickAsync(100);
      assert.equal(state.sent, 1);
      sinon.restore();
    }
  });

  it('looks at once where somebody may have left something', async () => {
    const { state, clock, add, drain } = setUp();
    await clock.tickAsync(1_000);
    add(1);
    drain.look();
    await clock.tickAsync(1);
    assert.equal(state.sent, 1);
  });

  it('says nothing of a segment that a process is just writing', async () => {
    const { state, clock, add } = setUp();
    state.inUse.push({ place: 'segment', reason: 'a running process still writes to it', isInUse: true });
    add(1);
    await clock.tickAsync(2_100);
    assert.deepEqual([state.sent, state.lines], [1, ['events of the backup were sent to their topics']]);
  });

  it('keeps to its rate', async () => {
    const { state, clock, add } = setUp();
    add(250);
    await clock.tickAsync(100);
    assert.equal(state.sent, 100);
    await clock.tickAsync(1_000);
    assert.equal(state.sent, 200);
  });

  it('an event that is stored while a look is under way is looked for in 2 s', async () => {
    const { drain, state, clock, add } = setUp();
    add(250);
    await clock.tickAsync(500);
    state.left.add(event(1_000));
    drain.stored();
    await clock.tickAsync(1_990);
    assert.deepEqual([state.sent, state.left.size], [250, 1]);
    await clock.tickAsync(510);
    assert.deepEqual([state.sent, state.left.size], [251, 0]);
  });

  it('an event that is stored later is looked for in 2 s', async () => {
    const { state, clock, add, drain } = setUp();
    await clock.tickAsync(5_000);
    add(1);
    drain.stored();
    await clock.tickAsync(1_999);
    assert.equal(state.sent, 0);
    await clock.tickAsync(1);
    assert.equal(state.sent, 1);
  });

  it('while the cluster is away asks it every 750 ms, and touches nothing', async () => {
    const { state, clock, add, drain } = setUp();
    state.isReachable = false;
    add(1);
    for (let at = 0; at < 200; at++) {
      await clock.tickAsync(1_000);
      drain.stored();
    }
    assert.deepEqual([state.looks, state.opened, state.prepared], [1, 0, 0]);
    state.isReachable = true;
    await clock.tickAsync(750);
    assert.equal(state.sent, 1);
  });

  it('takes a cluster that does not answer within a second for one that is away, and asks again', async () => {
    const { state, clock, add } = setUp();
    state.isReachable = 'hangs';
    add(1);
    await clock.tickAsync(3_000);
    state.isReachable = true;
    await clock.tickAsync(1_750);
    assert.equal(state.sent, 1);
  });

  it('a send that fails leaves the events where they are', async () => {
    const { state, clock, add } = setUp();
    state.failure = away;
    add(2);
    await clock.tickAsync(2_100);
    assert.equal(state.left.size, 2);
    state.failure = undefined;
    await clock.tickAsync(10_000);
    assert.equal(state.left.size, 0);
  });

  for (const [what, failure] of [
    ['their topic refuses', refused],
    ['no broker takes, although the cluster answers,', away],
  ] as const)
    it(`events that ${what} are said to stay, and tried less and less often, once a minute at least`, async () => {
      const { state, clock, add, drain } = setUp();
      state.failure = failure;
      add(2);
      const tries: number[] = [];
      for (let at = 0, opened = 0; at < 200_000; at += 250) {
        await clock.tickAsync(250);
        // One that comes meanwhile does not hurry it.
        drain.stored();
        if (state.opened > opened) tries.push(at);
        opened = state.opened;
      }
      const pauses = tries.slice(1).map((at, index) => Math.round((at - (tries[index] as number)) / 1_000));
      assert.deepEqual(pauses.slice(0, 7), [2, 3, 6, 12, 24, 48, 60]);
      assert.ok(state.lines.includes(`events stay in the backup: ${failure.message}`));
    });

  it('leaves the folder to another process that is at it', async () => {
    const { state, clock, add } = setUp();
    state.busy = true;
    add(1);
    await clock.tickAsync(100);
    assert.deepEqual([state.sent, state.lines], [0, []]);
    state.busy = false;
    await clock.tickAsync(60_000);
    assert.equal(state.sent, 1);
  });

  it('close ends after the batch under way', async () => {
    const { state, clock, add, drain } = setUp();
    add(300);
    await clock.tickAsync(100);
    const closed = drain.close();
    await clock.tickAsync(1_000);
    await closed;
    assert.ok(state.left.size >= 100);
    const { sent } = state;
    await clock.tickAsync(100_000);
    assert.equal(state.sent, sent);
  });
});
