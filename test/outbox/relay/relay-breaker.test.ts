import assert from 'node:assert/strict';
import type { SendFailure } from '../../../src/publish/broker.ts';
import { away, forbidden } from '../../publish/fake-cluster.ts';
import { onFakeTime } from './fake-time.ts';
import { rowOf } from './relay-under-test.ts';

describe('relay: circuit breaker', () => {
  let its: ReturnType<typeof onFakeTime>;
  beforeEach(() => {
    its = onFakeTime({ partitions: 1 });
  });
  afterEach(() => its.time.restore());

  async function opened(count = 30) {
    let failure: SendFailure | undefined = away;
    its.broker.reply = () => failure;
    await its.insert(...Array.from({ length: count }, (_, at) => rowOf(`a${at}`, at)));
    const relay = its.relay();
    relay.start();
    // 1 s, 2 s, 4 s and 8 s between the tries.
    await its.time.tickAsync(14_990);
    assert.deepEqual(
      [relay.state().circuitBreakerState, relay.state().consecutiveFailures, its.broker.sends.length],
      ['CLOSED', 4, 4],
    );
    await its.time.tickAsync(20);
    assert.deepEqual(
      [relay.state().circuitBreakerState, relay.state().consecutiveFailures, its.broker.sends.length],
      ['OPEN', 5, 5],
    );
    return { relay, setFailure: (next: SendFailure | undefined) => (failure = next) };
  }

  it('opens at the fifth failure, looks at nothing for 60 seconds, and lets one small batch test the cluster', async () => {
    const { relay, setFailure } = await opened();
    const looks = its.store.calls.get('pending');
    setFailure(undefined);
    relay.wake();
    await its.time.tickAsync(59_980);
    assert.equal(its.store.calls.get('pending'), looks);
    assert.equal(relay.state().circuitBreakerState, 'OPEN');
    let end = (): void => {};
    its.broker.reply = async () => {
      if (its.broker.sends.length === 6) await new Promise<void>((resolve) => (end = resolve));
      return undefined;
    };
    await its.time.tickAsync(20);
    assert.equal(relay.state().circuitBreakerState, 'HALF-OPEN');
    await its.time.tickAsync(1_000);
    assert.deepEqual([its.broker.sends.length, its.broker.sends.at(-1)?.records.length], [6, 10]);
    end();
    await its.time.tickAsync(10);
    assert.deepEqual(
      [relay.state().circuitBreakerState, relay.state().consecutiveFailures, its.broker.stored.length],
      ['CLOSED', 0, 30],
    );
    assert.deepEqual(
      its.said().filter((line) => line.includes('Circuit')),
      [
        'info outbox: Circuit breaker is OPEN: rows wait in their table for 60 s (cannot reach Kafka)',
        'info outbox: Circuit breaker is HALF-OPEN: one batch tests the cluster',
        'info outbox: Circuit breaker is CLOSED: rows are sent again',
      ],
    );
    assert.ok((await its.store.read({}, 0, 99)).every(({ retryCount }) => retryCount === 0));
  });

  it('is OPEN for another 60 seconds when the test fails', async () => {
    const { relay, setFailure } = await opened();
    await its.time.tickAsync(60_000);
    assert.deepEqual([relay.state().circuitBreakerState, its.broker.sends.length], ['OPEN', 6]);
    await its.time.tickAsync(59_900);
    assert.deepEqual([relay.state().circuitBreakerState, its.broker.sends.length], ['OPEN', 6]);
    setFailure(undefined);
    await its.time.tickAsync(200);
    assert.equal(relay.state().circuitBreakerState, 'CLOSED');
  });

  it('is closed by a reset, and rows are sent at once', async () => {
    const { relay, setFailure } = await opened();
    setFailure(undefined);
    relay.resetBreaker();
    assert.deepEqual([relay.state().circuitBreakerState, relay.state().consecutiveFailures], ['CLOSED', 0]);
    await its.time.tickAsync(1_000);
    assert.equal(its.broker.stored.length, 30);
    assert.equal(its.said().at(-1), 'info outbox: Circuit breaker is CLOSED by a reset: rows are sent again');
  });

  it('counts from zero after a reset while the cluster is away still', async () => {
    const { relay } = await opened();
    relay.resetBreaker();
    await its.time.tickAsync(7_900);
    assert.equal(relay.state().circuitBreakerState, 'CLOSED');
    await its.time.tickAsync(30_000);
    assert.deepEqual([relay.state().circuitBreakerState, relay.state().consecutiveFailures], ['OPEN', 5]);
  });

  it('takes the refusal of one topic for an answer, and goes on with the others', async () => {
    const { relay } = await opened();
    its.broker.reply = ({ records }) => (records.length < 11 ? forbidden : undefined);
    await its.time.tickAsync(60_000);
    assert.equal(relay.state().circuitBreakerState, 'CLOSED');
  });

  it('stays HALF-OPEN while there is no row to test with', async () => {
    const { relay, setFailure } = await opened(1);
    await its.store.discard({});
    await its.time.tickAsync(70_000);
    assert.equal(relay.state().circuitBreakerState, 'HALF-OPEN');
    setFailure(undefined);
    await its.insert(rowOf('a', 1));
    relay.wake();
    await its.time.tickAsync(50);
    assert.equal(relay.state().circuitBreakerState, 'CLOSED');
  });

  it('counts consecutive failures only', async () => {
    let sends = 0;
    its.broker.reply = () => (++sends % 5 === 0 ? undefined : away);
    const relay = its.relay();
    relay.start();
    for (let second = 0; second < 60; second++) {
      await its.insert(rowOf(`a${second}`, second));
      await its.time.tickAsync(1_000);
      assert.equal(relay.state().circuitBreakerState, 'CLOSED');
    }
    assert.ok(sends > 10);
  });

  /** Eight sends, to which no answer comes. */
  async function unanswered() {
    its.broker.partitions = 8;
    its.broker.reply = () => new Promise(() => {});
    await its.insert(...Array.from({ length: 60 }, (_, at) => rowOf(`a${at}`, at)));
    const relay = its.relay();
    relay.start();
    await its.time.tickAsync(500);
    assert.equal(its.broker.sends.length, 8);
    return relay;
  }

  it('does not open for answers that nobody heard, as the process stood still', async () => {
    const relay = await unanswered();
    its.time.jump(25_000);
    await its.time.tickAsync(100);
    assert.deepEqual([relay.state().circuitBreakerState, relay.state().consecutiveFailures], ['CLOSED', 0]);
  });

  it('opens for answers that do not come to a process that runs', async () => {
    const relay = await unanswered();
    await its.time.tickAsync(2_000);
    assert.equal(relay.state().circuitBreakerState, 'OPEN');
  });

  it('never opens where it is switched off', async () => {
    its.broker.reply = () => away;
    await its.insert(rowOf('a', 1));
    const relay = its.relay({ circuitBreaker: false });
    relay.start();
    await its.time.tickAsync(120_000);
    assert.equal(relay.state().circuitBreakerState, 'CLOSED');
    assert.ok(relay.state().consecutiveFailures > 10);
  });

  it('opens for what no retry helps against, such as a refused user', async () => {
    its.broker.reply = () => ({ kind: 'fatal', cause: 'SASL_AUTHENTICATION_FAILED', message: 'refused' });
    await its.insert(rowOf('a', 1));
    const relay = its.relay();
    relay.start();
    await its.time.tickAsync(16_000);
    assert.equal(relay.state().circuitBreakerState, 'OPEN');
    assert.equal((await its.store.read({}, 0, 1))[0]?.retryCount, 0);
  });

  it('tests the cluster with other rows than those that have just failed, where there are some', async () => {
    its.broker.partitions = 1;
    const { relay } = await opened(1);
    its.broker.reply = ({ records }) =>
      records.some(({ headers }) => headers.aggregateId === 'a0') ? away : undefined;
    await its.insert(rowOf('a0', 1), rowOf('b', 2));
    await its.time.tickAsync(60_000);
    assert.equal(relay.state().circuitBreakerState, 'CLOSED');
    assert.deepEqual(
      its.broker.stored.map(({ headers }) => headers.aggregateId),
      ['b'],
    );
    await relay.stop(1_000);
  });

  it('tests it with those that have failed, where the others wait for a reason of their own', async () => {
    its.broker.reply = ({ topic }) => (topic === 'secret' ? forbidden : away);
    const relay = its.relay({}, 'one');
    relay.start();
    await its.insert(rowOf('s', 1, { topic: 'secret' }));
    await its.time.tickAsync(70_000);
    await its.insert(rowOf('a', 1));
    await its.time.tickAsync(20_000);
    assert.equal(relay.state().circuitBreakerState, 'OPEN');
    its.broker.reply = ({ topic }) => (topic === 'secret' ? forbidden : undefined);
    await its.time.tickAsync(61_000);
    assert.equal(relay.state().circuitBreakerState, 'CLOSED');
    assert.equal(its.broker.stored.length, 1);
    await relay.stop(1_000);
  });

  it('learns nothing of the cluster from rows that are no records', async () => {
    const { relay } = await opened();
    its.broker.reply = () => away;
    const bad = Array.from({ length: 10 }, (_, at) => ({ ...rowOf(`c${at}`, 1), fault: 'its topic' }));
    await its.store.discard({});
    await its.insert(...bad, rowOf('d', 1));
    await its.time.tickAsync(59_990);
    assert.equal(relay.state().circuitBreakerState, 'OPEN');
    await its.time.tickAsync(1_000);
    assert.equal((await its.store.statistics()).failed, 10);
    assert.equal(relay.state().circuitBreakerState, 'OPEN');
    assert.equal(relay.state().consecutiveFailures, 6);
    await relay.stop(1_000);
  });
});
