import assert from 'node:assert/strict';
import sinon from 'sinon';
import type { Config } from '../../src/config/config.ts';
import { watchHealth } from '../../src/manage/health.ts';
import { manageOutbox } from '../../src/outbox/outbox-health.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import type { RelayState } from '../../src/outbox/relay/relay.ts';
import type { Broker } from '../../src/publish/broker.ts';
import { clockOfEach } from '../support/fake-time.ts';

const counted = {
  ...{ total: 9, pending: 2, published: 6, failed: 1, avgProcessingTimeMs: 3, oldestPendingMs: 700 },
};

interface Standstill {
  readonly title: string;
  readonly pending?: number;
  readonly stalled?: { readonly forMs: number; readonly reason?: string };
  readonly failedBlocks?: boolean;
  readonly remark?: string;
  readonly expected: readonly unknown[];
}

const idle = {
  circuitBreakerState: 'CLOSED',
  consecutiveFailures: 0,
  timeSinceLastSuccessMs: null,
  pending: null,
  processed: { published: 0, failed: 0 },
} as const;

describe('health of the outbox', () => {
  const clock = clockOfEach();
  let countPending: sinon.SinonStub<[], Promise<number>>;
  let statistics: sinon.SinonStub<[], Promise<typeof counted>>;
  beforeEach(() => {
    countPending = sinon.stub<[], Promise<number>>().resolves(2);
    statistics = sinon.stub<[], Promise<typeof counted>>().resolves(counted);
  });

  /** `fitness`: what else is wrong, or worth a remark. */
  function outboxOf(
    relay: () => RelayState | undefined = () => undefined,
    fitness: Partial<Parameters<typeof manageOutbox>[4]> = {},
    onFailed: 'skip' | 'block' = 'skip',
  ) {
    const { health, state } = manageOutbox(
      { outbox: { onFailed } } as Config,
      { countPending, statistics } as Partial<OutboxStore> as OutboxStore,
      {} as Broker,
      relay,
      { problem: () => undefined, remark: () => undefined, ...fitness },
    );
    return { ask: health, ...state({ unconfirmed: () => 0, unjoined: () => 0 }) };
  }
  const noRelay = { circuitBreakerState: null, consecutiveFailures: null, timeSinceLastSuccessMs: null };
  const unknown = { totalPending: null, totalFailed: null, oldestPendingMs: null };

  it('is what the table and the relay say; the oldest event grows older between two counts', async () => {
    const state = {
      circuitBreakerState: 'OPEN',
      consecutiveFailures: 5,
      timeSinceLastSuccessMs: 90,
    } as const;
    const relay = () => ({ ...state, pending: 2, processed: { published: 0, failed: 0 } });
    const health = outboxOf(relay);
    const found = { status: 'UP', ...state, totalPending: 2, totalFailed: 1 };
    assert.deepEqual(await health.ask(), { ...found, oldestPendingMs: 700 });
    clock.tick(4_999);
    assert.deepEqual(await health.ask(), { ...found, oldestPendingMs: 5_699 });
    assert.equal(health.failed(), 1);
    sinon.assert.calledOnce(countPending);
    clock.tick(1);
    await health.ask();
    sinon.assert.calledTwice(countPending);
  });

  it('says that the relay stands by, and counts nothing for metrics then: relays at work do', async () => {
    const relay = () => ({
      ...idle,
      standsBy: true as const,
    });
    const health = outboxOf(relay);
    assert.deepEqual([health.oldestPendingMs(), health.failed()], [null, null]);
    sinon.assert.notCalled(countPending);
    const { status, standsBy, totalPending } = await health.ask();
    assert.deepEqual([status, standsBy, totalPending], ['UP', true, 2]);
  });

  it('is DOWN with the reason while the database cannot be reached, and makes the whole DOWN', async () => {
    const message = 'the outbox cannot reach PostgreSQL at db:5432';
    countPending.rejects(new Error(message));
    const outbox = { status: 'DOWN', ...noRelay, ...unknown, error: message };
    assert.equal(outboxOf().failed(), null);
    assert.deepEqual(await outboxOf().ask(), outbox);
    const known = { brokerProducerInitialized: true, topic: 't', dlqTopic: null };
    const broker = { clusterId: 'c', nodeCount: 1 };
    const none = { published: 0, failed: 0, dlq: 0, brokerErrors: 0, sends: 0, sendSeconds: 0 };
    const { health } = watchHealth({
      ...{ probe: async () => broker, known: () => known, outbox: outboxOf().ask },
      ...{ totals: () => none, sample: () => none },
    });
    assert.deepEqual(await health(), {
      status: 'DOWN',
      details: { ...known, ...broker, outbox, error: message, state: 'HEALTHY' },
    });
  });

  it('is DOWN while something else is wrong, whatever the database answers', async () => {
    const problem = (): string => 'events are in another table';
    const { status, error, totalPending } = await outboxOf(undefined, { problem }).ask();
    assert.deepEqual([status, error, totalPending], ['DOWN', problem(), 2]);
  });

  for (const { title, pending, stalled, failedBlocks, remark, expected } of [
    {
      title: 'DOWN with the reason and the time',
      stalled: { forMs: 21_000, reason: 'the shards cannot be claimed: too late' },
      expected: [
        'DOWN',
        'rows wait, but the relay of this process has neither claimed shards nor sent rows since 2026-03-04T10:00:00Z: the shards cannot be claimed: too late',
        undefined,
      ],
    },
    {
      title: 'DOWN where nothing was answered',
      stalled: { forMs: 21_000 },
      expected: [
        'DOWN',
        'rows wait, but the relay of this process has neither claimed shards nor sent rows since 2026-03-04T10:00:00Z: the database has not answered its claim of shards',
        undefined,
      ],
    },
    {
      title: 'UP where no row waits',
      pending: 0,
      stalled: { forMs: 21_000 },
      expected: ['UP', undefined, undefined],
    },
    { title: 'UP where the relay works', expected: ['UP', undefined, undefined] },
    {
      title: 'UP with a warning where a FAILED row may block others',
      failedBlocks: true,
      expected: [
        'UP',
        undefined,
        '1 rows are FAILED, and later rows of their aggregates wait (svc.outbox.on-failed: block). List them: npx --no svc outbox list --status FAILED',
      ],
    },
    {
      title: 'UP where it blocks none',
      pending: 0,
      failedBlocks: true,
      expected: ['UP', undefined, undefined],
    },
    {
      title: 'UP with what matters more',
      failedBlocks: true,
      remark: 'no relay',
      expected: ['UP', undefined, 'no relay'],
    },
  ] as readonly Standstill[])
    it(`rows that wait: ${title}`, async () => {
      clock.setSystemTime(Date.parse('2026-03-04T10:00:21Z'));
      countPending.resolves(pending ?? 2);
      const relay = () => ({
        ...idle,
        ...(stalled && { stalled }),
      });
      const health = outboxOf(relay, { remark: () => remark }, failedBlocks ? 'block' : 'skip');
      const { status, error, warning } = await health.ask();
      assert.deepEqual([status, error, warning], expected);
    });

  it('stays UP where only the statistics of a large table take too long', async () => {
    statistics.rejects(new Error('late'));
    assert.deepEqual(await outboxOf().ask(), { status: 'UP', ...noRelay, ...unknown, totalPending: 2 });
  });

  it('answers after half a second whatever the database does, and asks it once at a time', async () => {
    countPending.returns(new Promise(() => {}));
    const health = outboxOf();
    for (let times = 0; times < 2; times++) {
      let isSettled = false;
      const asked = health.ask().finally(() => {
        isSettled = true;
      });
      await clock.tickAsync(499);
      assert.equal(isSettled, false);
      await clock.tickAsync(1);
      assert.deepEqual(await asked, { status: 'UP', ...noRelay, ...unknown });
    }
    sinon.assert.calledOnce(countPending);
  });

  it('a count that took long rests for ten times as long', async () => {
    countPending.callsFake(() => new Promise((resolve) => setTimeout(resolve, 2_000, 2)));
    const health = outboxOf();
    const asked = health.ask();
    await clock.tickAsync(2_000);
    await asked;
    await clock.tickAsync(19_999);
    await health.ask();
    sinon.assert.calledOnce(countPending);
    await clock.tickAsync(1);
    void health.ask();
    sinon.assert.calledTwice(countPending);
  });
});
