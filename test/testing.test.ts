import assert from 'node:assert/strict';
import { createMemoryBroker } from '../src/adapters/memory/memory-broker.ts';
import { type RunningService, runningService } from '../src/publish/api/publish.ts';
import {
  assertNothingPublished,
  assertNothingStored,
  assertPublished,
  assertRolledBack,
  assertStored,
  clear,
  events,
  outboxEvents,
  records,
  topics,
  waitFor,
  waitForStored,
} from '../src/testing.ts';
import { clockOfEach } from './support/fake-time.ts';

let nextId = 1;
const publish = (eventType: string, payload: unknown, topic = 'orders') => {
  const event = { eventId: String(nextId++), eventType, severity: 'INFO', payload };
  const value = Buffer.from(JSON.stringify(event));
  return createMemoryBroker().send(topic, undefined, [
    { key: 'k', value, headers: { eventType }, timestamp: 1 },
  ]);
};

describe('svc/testing', () => {
  beforeEach(() => {
    clear();
    nextId = 1;
    runningService.current = { brokerClient: 'memory' } as RunningService;
  });
  afterEach(() => {
    runningService.current = undefined;
  });

  it('fails with that sentence where svc is not running, as nothing can be seen there', async () => {
    runningService.current = undefined;
    const expected = {
      code: 'SVC_PUBLISH_NOT_RUNNING',
      message: /^svc is not running.* Start the tests with /,
    };
    for (const ask of [
      () => assertNothingPublished(),
      () => assertNothingPublished('orders'),
      () => assertPublished({}),
      () => events(),
      () => records('orders'),
      () => topics(),
      () => assertNothingStored(),
      () => assertStored({}),
      () => assertRolledBack({}),
      () => outboxEvents(),
    ]) {
      assert.throws(ask, expected, String(ask));
    }
    await assert.rejects(waitFor(), expected);
    await assert.rejects(waitForStored(), expected);
    clear();
  });

  it('fails where events are published elsewhere; those of the outbox are seen all the same', async () => {
    runningService.current = { brokerClient: 'kafkajs' } as RunningService;
    const expected = { code: 'ERR_ASSERTION', message: /client: kafkajs, .* set SVC_BROKER_CLIENT=memory/ };
    for (const ask of [() => assertNothingPublished(), () => assertPublished({}), () => events()])
      assert.throws(ask, expected, String(ask));
    await assert.rejects(waitFor(), expected);
    assertNothingStored();
  });

  it('shows what was seen also where svc has ended since', async () => {
    await publish('A', {});
    runningService.current = undefined;
    assertPublished({ eventType: 'A' });
    assertNothingPublished('payments');
    await assert.rejects(waitFor({ eventType: 'B', timeoutMs: 1 }), /B: 0 of 1 published within 1 ms/);
  });

  it('shows what was published, in order, by topic', async () => {
    await publish('A', { n: 1 });
    await publish('B', { n: 2 }, 'payments');
    await publish('A', { n: 3 });
    assert.deepEqual(topics(), ['orders', 'payments']);
    assert.deepEqual(
      events().map(({ eventType }) => eventType),
      ['A', 'B', 'A'],
    );
    assert.deepEqual(
      events<{ n: number }>('orders').map(({ payload }) => payload.n),
      [1, 3],
    );
    const [first] = records('payments');
    assert.deepEqual(
      [first?.topic, first?.key, first?.headers, first?.timestamp],
      ['payments', 'k', { eventType: 'B' }, 1],
    );
    clear();
    assert.deepEqual([topics(), events()], [[], []]);
  });

  it('finds an event by type, topic and a part of its payload', async () => {
    const when = new Date(0);
    await publish('A', { order: { id: 'o1', lines: [{ sku: 's', count: 2 }] }, when });
    assert.equal(assertPublished({ eventType: 'A' }).eventId, '1');
    assertPublished({});
    assertPublished({ topic: 'orders', payload: { order: { id: 'o1' } } });
    assertPublished({ payload: { when, order: { lines: [{ sku: 's' }] }, missing: undefined } });
    for (const match of [
      { eventType: 'B' },
      { topic: 'payments' },
      { payload: { order: { id: 'o2' } } },
      { payload: { order: { lines: [] } } },
      { payload: { order: { lines: [{ sku: 's' }, {}] } } },
      { payload: { order: null } },
      { payload: { other: 1 } },
      { payload: [] },
    ]) {
      assert.throws(() => assertPublished(match), { code: 'ERR_ASSERTION' }, JSON.stringify(match));
    }
  });

  it('lists what was published instead, and no value of a payload', async () => {
    await publish('ORDER_CREATED', { email: 'ann@example.com', total: 12 });
    await publish('ORDER_PAID', { email: 'bob@example.com' }, 'payments');
    assert.throws(
      () => assertPublished({ eventType: 'ORDER_CREATED', payload: { total: 13, email: 'ann@example.com' } }),
      ({ message }: Error) => {
        assert.equal(
          message,
          'ORDER_CREATED with the expected payload was not published. Published:\n' +
            '  orders: ORDER_CREATED 1 (differs at payload.total)\n  payments: ORDER_PAID 2',
        );
        return true;
      },
    );
  });

  it('shows CloudEvents as envelopes', async () => {
    const headers = {
      ce_specversion: '1.0',
      ce_id: '7',
      ce_source: '/o',
      ce_type: 'A',
      ce_severitytext: 'WARN',
    };
    const value = Buffer.from('{"b":2}');
    const record = { key: 'k', value, headers, timestamp: 1 };
    await createMemoryBroker().send('orders', undefined, [record]);
    const { eventId, severity, publishedAt } = assertPublished({ eventType: 'A', payload: { b: 2 } });
    assert.deepEqual([eventId, severity, publishedAt], ['7', 'WARN', '1970-01-01T00:00:00.001Z']);
  });

  it('asserts that nothing was published', async () => {
    assertNothingPublished();
    await publish('A', {});
    assertNothingPublished('payments');
    assert.throws(() => assertNothingPublished(), /no event was expected\. Published:\n {2}orders: A 1/);
    assert.throws(() => assertNothingPublished('orders'), /no event was expected in topic "orders"/);
  });

  it('says when a record is not JSON', async () => {
    await createMemoryBroker().send('avro', undefined, [
      { key: null, value: Buffer.from([0]), headers: {}, timestamp: 1 },
    ]);
    assert.throws(() => events(), /a record in topic "avro" is not JSON/);
    await assert.rejects(waitFor(), /not JSON/);
  });

  describe('waitFor', () => {
    const clock = clockOfEach();

    it('resolves with what is there already', async () => {
      await publish('A', { n: 1 });
      const [event] = await waitFor<{ n: number }>({ eventType: 'A' });
      assert.equal(event?.payload.n, 1);
      assert.equal(clock.countTimers(), 0);
    });

    it('resolves when the last of them arrives, with so many', async () => {
      const waiting = waitFor({ eventType: 'A', topic: 'orders', count: 2 });
      await publish('A', {});
      await publish('B', {});
      await publish('A', {}, 'payments');
      assert.equal(clock.countTimers(), 1);
      await publish('A', {});
      await publish('A', {});
      assert.deepEqual(
        (await waiting).map(({ eventId }) => eventId),
        ['1', '4'],
      );
      assert.equal(clock.countTimers(), 0);
    });

    it('rejects in time with what did arrive', async () => {
      let settled = false;
      const waiting = assert
        .rejects(waitFor({ eventType: 'A', count: 2, timeoutMs: 100 }), {
          code: 'ERR_ASSERTION',
          message: 'A: 1 of 2 published within 100 ms. Published:\n  orders: A 1\n  orders: B 2',
        })
        .finally(() => {
          settled = true;
        });
      await publish('A', {});
      await publish('B', {});
      await clock.tickAsync(99);
      assert.equal(settled, false);
      await clock.tickAsync(1);
      await waiting;
    });

    it('waits for 5 seconds when nothing else is said', async () => {
      const waiting = assert.rejects(waitFor(), {
        message: 'an event: 0 of 1 published within 5000 ms. Nothing was published.',
      });
      await clock.tickAsync(5000);
      await waiting;
    });
  });
});
