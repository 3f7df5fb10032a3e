import assert from 'node:assert/strict';
import sinon from 'sinon';
import type { KeyHealth } from '../../src/ground/management.ts';
import { watchHealth } from '../../src/manage/health.ts';
import { clockOfEach } from '../support/fake-time.ts';

const known = { brokerProducerInitialized: true, topic: 'orders.v1', dlqTopic: 'orders.dlq.v1' };
const state = { clusterId: 'MkU3OEVBNTcwNTJENDM2Qk', nodeCount: 3 };
const nothing = { published: 0, failed: 0, dlq: 0, brokerErrors: 0, sends: 0, sendSeconds: 0 };
/** By the thresholds of monitoring, where nothing was counted. */
const healthy = { state: 'HEALTHY' };

type ClusterState = typeof state;
type Options = Parameters<typeof watchHealth>[0];

describe('health', () => {
  const clock = clockOfEach();

  const watch = (probe: () => Promise<ClusterState>, more: Partial<Options> = {}) =>
    watchHealth({
      ...{ probe, known: () => known, totals: () => nothing, sample: () => nothing },
      ...more,
    });
  const cache = (...given: Parameters<typeof watch>) => watch(...given).health;
  const failing = (message: string) => sinon.stub<[], Promise<ClusterState>>().rejects(new Error(message));

  it('is UP with what the broker said', async () => {
    const health = cache(async () => state);
    assert.deepEqual(await health(), { status: 'UP', details: { ...known, ...state, ...healthy } });
  });

  it('is DOWN with the error, and without numbers made up', async () => {
    const health = cache(failing('connect ECONNREFUSED 127.0.0.1:9092'));
    const error = 'connect ECONNREFUSED 127.0.0.1:9092';
    assert.deepEqual(await health(), {
      status: 'DOWN',
      details: { ...known, clusterId: null, nodeCount: null, error, ...healthy },
    });
  });

  it('is DOWN when the probe throws at once, or rejects with no error', async () => {
    const thrown = await cache(() => {
      throw new Error('no client');
    })();
    assert.equal(thrown.details.error, 'no client');
    const bare = await cache(() => Promise.reject(undefined))();
    assert.equal(bare.details.error, 'The broker cannot be reached.');
  });

  it('is DOWN while a key of marked fields cannot be had, and shows each key, asking the broker no more often', async () => {
    const probe = sinon.stub<[], Promise<ClusterState>>().resolves(state);
    const customer = { provider: 'aws-kms', keyId: 'customer' };
    const orders = { provider: 'aws-kms', keyId: 'orders', status: 'UP' as const };
    let keys: KeyHealth[] = [{ ...customer, status: 'DOWN', error: 'access\ndenied' }, orders];
    const health = cache(probe, { keys: () => keys });
    assert.deepEqual(await health(), {
      status: 'DOWN',
      details: {
        ...{ ...known, ...state, ...healthy },
        keys: [{ ...customer, status: 'DOWN', error: 'access denied' }, orders],
        error: 'Marked fields cannot be protected with the key "customer" (aws-kms): access denied',
      },
    });
    keys = [{ ...customer, status: 'UP', error: 'cannot be replaced at the moment' }, orders];
    const { status, details } = await health();
    assert.deepEqual([status, details.keys, details.error], ['UP', keys, undefined]);
    keys = [];
    assert.equal('keys' in (await health()).details, false);
    assert.equal(probe.callCount, 1);
  });

  it('tells of a broker that is away before it tells of a key', async () => {
    const keys = () => [{ provider: 'p', keyId: 'k', status: 'DOWN', error: 'e' }] as const;
    const { details } = await cache(failing('no broker'), { keys })();
    assert.deepEqual([details.error, details.keys?.length], ['no broker', 1]);
  });

  it('asks the broker once in five seconds', async () => {
    const probe = sinon.stub<[], Promise<ClusterState>>().resolves(state);
    const health = cache(probe);
    await health();
    clock.tick(4_999);
    await health();
    assert.equal(probe.callCount, 1);
    clock.tick(1);
    await health();
    assert.equal(probe.callCount, 2);
  });

  it('notices that the broker went and came back', async () => {
    const probe = sinon.stub<[], Promise<ClusterState>>();
    probe.onCall(0).resolves(state);
    probe.onCall(1).rejects(new Error('gone'));
    probe.onCall(2).resolves(state);
    const health = cache(probe);
    const statuses: string[] = [];
    for (let index = 0; index < 3; index++) {
      statuses.push((await health()).status);
      clock.tick(5_000);
    }
    assert.deepEqual(statuses, ['UP', 'DOWN', 'UP']);
  });

  it('gives everybody who asks at the same time the result of one probe', async () => {
    const probe = sinon.stub<[], Promise<ClusterState>>().resolves(state);
    const health = cache(probe);
    const all = await Promise.all([health(), health(), health()]);
    assert.equal(probe.callCount, 1);
    assert.deepEqual(
      all.map(({ status }) => status),
      ['UP', 'UP', 'UP'],
    );
  });

  it('is DOWN when the broker does not answer within three seconds, and tells so', async () => {
    const told: [string, number][] = [];
    const health = cache(() => new Promise(() => {}), { onAway: (...away) => told.push(away) });
    await clock.tickAsync(70);
    const first = health();
    await clock.tickAsync(500);
    assert.equal((await first).details.error, 'The broker has not answered yet (500 ms).');
    await clock.tickAsync(2_499);
    assert.deepEqual(told, []);
    await clock.tickAsync(1);
    assert.equal((await health()).details.error, 'The broker did not answer within 3000 ms.');
    assert.deepEqual(told, [['The broker did not answer within 3000 ms.', 70]]);
  });

  it('answers after half a second with what was known before, and its age', async () => {
    const probe = sinon.stub<[], Promise<ClusterState>>();
    probe.onCall(0).resolves(state);
    probe.onCall(1).returns(new Promise(() => {}));
    const health = cache(probe);
    assert.equal('ageMs' in (await health()).details, false);
    await clock.tickAsync(5_000);
    let settled = false;
    const answer = health();
    void answer.then(() => (settled = true));
    await clock.tickAsync(499);
    assert.equal(settled, false);
    await clock.tickAsync(1);
    assert.deepEqual(await answer, {
      status: 'UP',
      details: { ...known, ...state, ageMs: 5_500, ...healthy },
    });
  });

  it('starts no second probe beside one that hangs, gives it up after 30 seconds, and then recovers', async () => {
    const probe = sinon.stub<[], Promise<ClusterState>>();
    probe.onCall(0).returns(new Promise(() => {}));
    probe.onCall(1).resolves(state);
    const health = cache(probe);
    const first = health();
    await clock.tickAsync(3_000);
    assert.equal((await first).status, 'DOWN');
    await clock.tickAsync(26_999);
    assert.equal((await health()).status, 'DOWN');
    assert.equal(probe.callCount, 1);
    await clock.tickAsync(1);
    assert.equal((await health()).status, 'UP');
    assert.equal(probe.callCount, 2);
  });

  it('uses a late answer when it comes', async () => {
    let answer = (_: ClusterState): void => {};
    const health = cache(() => new Promise((resolve) => (answer = resolve)));
    const first = health();
    await clock.tickAsync(3_000);
    assert.equal((await first).status, 'DOWN');
    answer(state);
    await clock.tickAsync(0);
    assert.equal((await health()).status, 'UP');
  });

  it('is DOWN for another reason although the broker answers', async () => {
    let alert: string | undefined;
    const health = cache(async () => state, { alert: () => alert });
    assert.equal((await health()).status, 'UP');
    alert = '2 events were lost';
    const { status, details } = await health();
    assert.deepEqual([status, details.error, details.nodeCount], ['DOWN', '2 events were lost', 3]);
  });

  it('keeps the error on one line of at most 300 characters', async () => {
    const { details } = await cache(failing(`a\r\n\tb${'x'.repeat(400)}`))();
    assert.equal(details.error, `a b${'x'.repeat(297)}`);
  });

  it('leaves no timer behind that keeps the process alive', async () => {
    const { health, close } = watch(async () => state);
    await health();
    close();
    assert.equal(clock.countTimers(), 0);
  });
});
