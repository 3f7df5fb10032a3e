import assert from 'node:assert/strict';
import sinon from 'sinon';
import type { Call, CapturePlan } from '../../src/capture/call.ts';
import { SvcError } from '../../src/ground/errors.ts';
import { isOwnWork } from '../../src/ground/lifecycle.ts';
import { outcomes as allOutcomes, type Outcome } from '../../src/observe/outcomes.ts';
import { checkEvent } from '../../src/outbox/api/outbox-event.ts';
import type { createOutboxJoin } from '../../src/outbox/join.ts';
import type { OutboxRow } from '../../src/outbox/outbox-row.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import { createPolicies } from '../../src/protect/marks/policy.ts';
import { createProtector } from '../../src/protect/protect.ts';
import type { SerializedEvent } from '../../src/serialize/serializer.ts';
import { Scope } from '../../src/transaction/transaction.ts';
import { clockOfEach, useClock } from '../support/fake-time.ts';
import { pipelineWith, settleAll } from './pipeline-under-test.ts';

const secret = 'john@example.com';

function callOf(plan: Partial<CapturePlan> = {}, call: Partial<Call> = {}): Call {
  const whole: CapturePlan = {
    id: 'orders#create',
    origin: 'configuration',
    eventType: 'ORDER_CREATED',
    severity: 'WARN',
    phase: 'AFTER_RETURNING',
    failOnError: false,
    afterCommit: false,
    payload: ({ result }) => result,
    ...plan,
  };
  return {
    plan: whole,
    self: null,
    args: [],
    result: { orderId: 7 },
    error: undefined,
    canWait: true,
    ...call,
  };
}

const throwing = () => {
  throw new Error(secret);
};

function parsed({ value }: SerializedEvent, publishedAt = '') {
  const bytes = Buffer.alloc(value.length + publishedAt.length);
  value.write(bytes, 0, publishedAt);
  return JSON.parse(bytes.toString());
}

describe('pipeline', () => {
  beforeEach(() => void useClock({ now: () => 0, monotonic: () => 0 }));

  afterEach(settleAll);

  it('refuses a call whose condition failed, in the ledger and with failOnError for its caller', () => {
    const refusal = new SvcError('SVC_CAPTURE_EXPRESSION', 'when failed');
    const { onCall, ledger, refused, taken } = pipelineWith();
    assert.equal(onCall(callOf({}, { refusal })), undefined);
    assert.throws(() => onCall(callOf({ failOnError: true }, { refusal })), refusal);
    assert.equal(ledger.snapshot().refused, 2);
    assert.deepEqual(refused[0], ['ORDER_CREATED', 'SVC_CAPTURE_EXPRESSION']);
    assert.equal(taken.length, 0);
  });

  it('refuses a call of a target with an outbox where the process has none, and sends nothing directly', () => {
    const { onCall, ledger, taken } = pipelineWith();
    const outbox = { aggregateType: 'Order', aggregateId: () => '7', result: undefined };
    const call = callOf({ outbox, failOnError: true });
    assert.throws(() => onCall(call), { code: 'SVC_PIPELINE_NO_OUTBOX' });
    assert.equal(taken.length, 0);
    assert.equal(ledger.snapshot().refused, 1);
  });

  it('makes the envelope that the specification shows, serialized once', () => {
    const { onCall, taken } = pipelineWith();
    void onCall(callOf());
    const { event } = taken[0] ?? assert.fail('nothing was published');
    assert.deepEqual(parsed(event, '1970-01-01T00:00:00.001Z'), {
      eventId: '100',
      eventType: 'ORDER_CREATED',
      occurredAt: '1970-01-01T00:00:00.000Z',
      publishedAt: '1970-01-01T00:00:00.001Z',
      severity: 'WARN',
      metadata: {
        source: { serviceName: 'orders', serviceVersion: null, hostname: 'h"1' },
        actor: { userId: 'u"1', sessionId: null },
        trace: { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), parentSpanId: null },
        correlationId: 'c',
        clientIp: null,
        tags: { region: 'eu' },
      },
      payload: { orderId: 7 },
    });
    assert.deepEqual(event.headers, {
      eventId: '100',
      eventType: 'ORDER_CREATED',
      'content-type': 'application/json',
      traceparent: '00-a-b-01',
    });
  });

  for (const [what, result, payload] of [
    ['a number', 7, { value: 7 }],
    ['text', 'x', { value: 'x' }],
    ['a list', [1, 2], { value: [1, 2] }],
    ['nothing', undefined, { value: null }],
    ['null', null, { value: null }],
    ['a Date', new Date(0), { value: '1970-01-01T00:00:00.000Z' }],
    ['a Map', new Map([['a', 1]]), { a: 1 }],
    ['toJSON to text', { toJSON: () => 'x' }, { value: 'x' }],
  ] as const) {
    it(`a payload that is ${what}`, () => {
      const { onCall, taken } = pipelineWith();
      void onCall(callOf({}, { result }));
      const { event } = taken[0] ?? assert.fail('nothing was published');
      assert.deepEqual(parsed(event).payload, payload);
    });
  }

  it('the key is the declared one, else the event id; the topic that of the target', () => {
    const { onCall, taken } = pipelineWith();
    void onCall(callOf());
    void onCall(callOf({ key: () => 'k', topic: 'other' }));
    assert.deepEqual(
      taken.map(({ event }) => [event.topic, event.key]),
      [
        [undefined, '100'],
        ['other', 'k'],
      ],
    );
  });

  it('sync mode: who can wait resolves with the outcome; who cannot goes on', async () => {
    const { onCall, taken } = pipelineWith();
    let waited = false;
    const done = onCall(callOf())?.then(() => (waited = true));
    assert.equal(onCall(callOf({}, { canWait: false })), undefined);
    await Promise.resolve();
    assert.equal(waited, false);
    taken[0]?.settle('published');
    await done;
    assert.equal(waited, true);
  });

  it('async mode: nobody waits', () => {
    const { onCall } = pipelineWith({ asyncMode: true });
    assert.equal(onCall(callOf()), undefined);
  });

  for (const [what, plan, code] of [
    ['a payload expression that throws', { payload: throwing }, 'SVC_PIPELINE_UNEXPECTED'],
    ['a key expression that throws', { key: throwing }, 'SVC_PIPELINE_UNEXPECTED'],
    [
      'a payload that cannot be protected',
      { payload: () => new Error(secret) },
      'SVC_PROTECT_UNSUPPORTED_TYPE',
    ],
  ] as const) {
    it(`${what}: refused and counted; the caller sees it only with failOnError, and never the value`, () => {
      const { onCall, refused, taken, ledger } = pipelineWith();
      assert.equal(onCall(callOf(plan)), undefined);
      assert.deepEqual(refused, [['ORDER_CREATED', code]]);
      assert.equal(taken.length, 0);
      assert.throws(
        () => onCall(callOf({ ...plan, failOnError: true })),
        (error) => error instanceof SvcError && error.code === code && !error.message.includes(secret),
      );
      const { calls, refused: counted, inFlight } = ledger.snapshot();
      assert.deepEqual({ calls, counted, inFlight }, { calls: 2, counted: 2, inFlight: 0 });
    });
  }

  it('failOnError: a lost event rejects the wait', async () => {
    const { onCall, taken } = pipelineWith();
    const done = onCall(callOf({ failOnError: true }));
    taken[0]?.settle('lost');
    await assert.rejects(done ?? Promise.resolve(), { code: 'SVC_PUBLISH_LOST' });
    const other = onCall(callOf());
    taken[1]?.settle('lost');
    await other;
  });

  it('the counters add up to the calls, and each trace ends once', async () => {
    const { onCall, taken, ledger, ended, idle } = pipelineWith();
    const outcomes: Outcome[] = ['published', 'dlq', 'backup', 'lost'];
    for (const _ of outcomes) void onCall(callOf());
    onCall(callOf({ payload: throwing }));
    assert.equal(ledger.snapshot().inFlight, 4);
    for (const [index, outcome] of outcomes.entries()) taken[index]?.settle(outcome);
    await idle();
    const { brokerErrors, retries, dlqFailures, relayed, gaveUp, ...counts } = ledger.snapshot();
    assert.deepEqual([retries, dlqFailures, relayed, gaveUp, brokerErrors.fatal], [0, 0, 0, 0, 0]);
    assert.deepEqual(counts, {
      ...Object.fromEntries(allOutcomes.map((outcome) => [outcome, 0])),
      ...{ calls: 5, inFlight: 0, published: 1, dlq: 1, backup: 1, refused: 1, lost: 1 },
    });
    assert.deepEqual(ended.sort(), ['backup', 'dlq', 'lost', 'published']);
  });

  it('what runs inside (expressions, getters, toJSON) counts as own work, so it is not captured', () => {
    const seen: boolean[] = [];
    const { onCall } = pipelineWith();
    void onCall(callOf({ payload: () => ({ toJSON: () => seen.push(isOwnWork()) }) }));
    assert.deepEqual(seen, [true]);
    assert.equal(isOwnWork(), false);
  });

  it('adds the headers of a target and of publish() to those of svc; what is no header is refused', async () => {
    const { onCall, producer, taken, refused } = pipelineWith();
    void onCall(callOf({ headers: () => ({ tenant: 'acme' }) }));
    void producer.publish({}, { headers: { tenant: 7, nobody: null } });
    const own = (index: number) => {
      const {
        eventId,
        eventType,
        traceparent,
        'content-type': type,
        ...rest
      } = taken[index]?.event.headers ?? {};
      assert.ok(eventId && eventType && traceparent && type);
      return rest;
    };
    assert.deepEqual([own(0), own(1)], [{ tenant: 'acme' }, { tenant: '7' }]);
    await assert.rejects(producer.publish({}, { headers: { eventId: '1' } }), {
      code: 'SVC_PUBLISH_HEADERS',
    });
    assert.deepEqual(refused, [['Event', 'SVC_PUBLISH_HEADERS']]);
    assert.equal(taken.length, 2);
  });

  it('refuses an event whose header shows a protected value', () => {
    const policies = createPolicies({
      general: [{ path: 'email', type: 'EMAIL', strategy: 'MASK', level: 'NORMAL' }],
    });
    const protect = createProtector({ policyOf: policies.policyOf, sealer: createSealer({}) });
    const { onCall, taken, refused } = pipelineWith({ protect });
    void onCall(callOf({ headers: () => ({ by: secret }) }, { result: { email: secret } }));
    assert.deepEqual(refused, [['ORDER_CREATED', 'SVC_PROTECT_HEADER_IN_CLEAR']]);
    assert.equal(taken.length, 0);
  });

  it('publish() from application code: outcome and id; refused and lost reject', async () => {
    class OrderShipped {
      orderId = 7;
    }
    const { producer, taken } = pipelineWith({ asyncMode: true });
    const published = producer.publish(new OrderShipped(), { severity: 'ERROR', topic: 'other', key: 'k' });
    const { event } = taken[0] ?? assert.fail('nothing was published');
    assert.deepEqual([event.eventType, event.topic, event.key], ['OrderShipped', 'other', 'k']);
    assert.equal(parsed(event).severity, 'ERROR');
    taken[0]?.settle('published');
    assert.deepEqual(await published, { eventId: '100', outcome: 'published' });

    const lost = producer.publish({ a: 1 });
    assert.equal(taken[1]?.event.eventType, 'Event');
    taken[1]?.settle('lost');
    await assert.rejects(lost, { code: 'SVC_PUBLISH_LOST' });
    await assert.rejects(producer.publish({ error: new Error(secret) }), {
      code: 'SVC_PROTECT_UNSUPPORTED_TYPE',
    });
  });

  it('publish() with a mistake in its options sends nothing, and it is counted as refused', async () => {
    const { producer, taken, refused, ledger, broken } = pipelineWith();
    const options = { severity: 'LOUD', eventType: 5 } as never;
    await assert.rejects(producer.publish({ a: 1 }, options), { code: 'SVC_PUBLISH_OPTIONS' });
    await assert.rejects(producer.publish({ a: 1 }, { topic: 'bad topic', eventType: 'PAID' }), {
      code: 'SVC_PUBLISH_OPTIONS',
    });
    assert.deepEqual(refused, [
      ['Event', 'SVC_PUBLISH_OPTIONS'],
      ['PAID', 'SVC_PUBLISH_OPTIONS'],
    ]);
    assert.deepEqual([taken, broken, ledger.snapshot().refused], [[], [], 2]);
    void producer.publish({ a: 1 }, { key: 7 });
    assert.equal(taken[0]?.event.key, '7');
  });

  describe('whoever waits', () => {
    const fake = clockOfEach();

    it('for a captured call goes on after max-wait-ms, and the event to its counted outcome', async () => {
      const { onCall, taken, ledger } = pipelineWith();
      let isOver = false;
      const waited = onCall(callOf())?.then(() => (isOver = true));
      await fake.tickAsync(1_999);
      assert.equal(isOver, false);
      await fake.tickAsync(1);
      await waited;
      assert.equal(ledger.snapshot().inFlight, 1);
      taken[0]?.settle('backup');
      await fake.tickAsync(0);
      assert.deepEqual([ledger.snapshot().backup, ledger.snapshot().inFlight], [1, 0]);
    });

    it('with failOnError hears that the event may still arrive', async () => {
      const { onCall, taken, ledger } = pipelineWith();
      const failed = assert.rejects(onCall(callOf({ failOnError: true })) ?? assert.fail(), {
        name: 'TimeoutException',
        code: 'SVC_PUBLISH_TIMEOUT',
        message: 'the event has no outcome yet; it is still in flight and may arrive',
      });
      await fake.tickAsync(2_000);
      await failed;
      taken[0]?.settle('published');
      await fake.tickAsync(0);
      assert.equal(ledger.snapshot().published, 1);
    });

    it('for publish() waits as long as the event may take, or timeoutMs', async () => {
      const { producer, ledger } = pipelineWith();
      const ends: string[] = [];
      const publish = (name: string, options?: { timeoutMs: number }) =>
        void producer.publish({ a: 1 }, options).catch(({ code }) => ends.push(`${name} ${code}`));
      publish('given', { timeoutMs: 150 });
      publish('default');
      await fake.tickAsync(149);
      assert.deepEqual(ends, []);
      await fake.tickAsync(1);
      assert.deepEqual(ends, ['given SVC_PUBLISH_TIMEOUT']);
      await fake.tickAsync(31_849);
      assert.equal(ends.length, 1);
      await fake.tickAsync(1);
      assert.deepEqual(ends.slice(1), ['default SVC_PUBLISH_TIMEOUT']);
      assert.equal(ledger.snapshot().inFlight, 2);
    });
  });

  it('publish() with timeoutMs leaves no timer behind when the outcome is there', async () => {
    const fake = sinon.useFakeTimers();
    try {
      const { producer, taken } = pipelineWith();
      const published = producer.publish({ a: 1 }, { timeoutMs: 60_000 });
      taken[0]?.settle('published');
      assert.equal((await published).outcome, 'published');
      assert.equal(fake.countTimers(), 0);
    } finally {
      fake.restore();
    }
  });

  it('publish() without eventType takes the name of the class, and nothing that the payload says', async () => {
    const { producer, taken } = pipelineWith();
    const throwing = () => {
      throw new Error(secret);
    };
    const Hidden = Object.defineProperty(class {}, 'name', { get: throwing });
    for (const payload of [
      { constructor: { name: secret } },
      Object.defineProperty({ a: 1 }, 'constructor', { get: throwing }),
      Object.create(null),
      new Hidden(),
    ])
      void producer.publish(payload);
    const proxy = new Proxy({ a: 1 }, { getPrototypeOf: throwing });
    await assert.rejects(producer.publish(proxy), { code: 'SVC_PROTECT_READ_ERROR' });
    void producer.publish(new (class OrderShipped {})());
    void producer.publish(new Proxy(new (class OrderPaid {})(), {}));
    void producer.publish('text');
    assert.deepEqual(
      taken.map(({ event }) => event.eventType),
      ['Event', 'Event', 'Event', 'Event', 'OrderShipped', 'OrderPaid', 'Event'],
    );
  });

  it('a declared key and headers are compared with what the event protects, an event id is not', () => {
    const { policyOf } = createPolicies({ general: [] });
    const seen: (readonly string[] | undefined)[] = [];
    const inner = createProtector({ policyOf, sealer: createSealer({}) });
    const protect: typeof inner = (envelope, clearTexts) => {
      seen.push(clearTexts?.map(({ of, text }) => `${of} ${text}`));
      return inner(envelope, clearTexts);
    };
    const { onCall, producer } = pipelineWith({ asyncMode: true, protect });
    onCall(callOf({ key: () => 'k' }));
    onCall(callOf());
    void producer.publish({ id: 1 }, { key: 'l', headers: { tenant: 'acme' } });
    assert.deepEqual(seen, [['key k'], undefined, ['header acme', 'key l']]);
  });

  it('a payload of which nothing is left when it is serialized is refused, and hangs nothing', async () => {
    const { policyOf } = createPolicies({ general: [] });
    const inner = createProtector({ policyOf, sealer: createSealer({}) });
    const protect: typeof inner = (envelope, clearTexts) =>
      Object.assign(inner(envelope, clearTexts), { payload: { toJSON: () => undefined } });
    const { onCall, taken, refused, idle } = pipelineWith({ asyncMode: true, protect });
    assert.equal(onCall(callOf()), undefined);
    assert.deepEqual(refused, [['ORDER_CREATED', 'SVC_PROTECT_READ_ERROR']]);
    assert.equal(taken.length, 0);
    await idle();
  });

  for (const [how, publish] of [
    ['throws', () => assert.fail()],
    ['rejects', async () => assert.fail()],
  ] as const) {
    it(`a publisher that ${how} against its promise loses its event and nothing else, and it is counted`, async () => {
      const { onCall, ended, broken, ledger, idle } = pipelineWith({
        asyncMode: true,
        publisher: { publish },
      });
      assert.equal(onCall(callOf()), undefined);
      await idle();
      assert.deepEqual(ended, ['lost']);
      assert.deepEqual(
        broken.map(([eventId, error]) => [eventId, (error as Error).name]),
        [['100', 'AssertionError']],
      );
      const { lost, inFlight } = ledger.snapshot();
      assert.deepEqual([lost, inFlight], [1, 0]);
    });
  }

  describe('events of outbox.save()', () => {
    const event = { eventType: 'SAVED', aggregateType: 'Order', aggregateId: 7, payload: { id: 7 } };
    const scope = new Scope(undefined);

    /** A transaction that takes rows as `written` says, and commits. */
    function savingWith(
      written: Promise<void> | undefined,
      options: Parameters<typeof pipelineWith>[0] = {},
    ) {
      const rows: OutboxRow[] = [];
      const failed: unknown[] = [];
      const outbox: ReturnType<typeof createOutboxJoin> = {
        store(row, given) {
          assert.equal(given, scope);
          rows.push(row);
          return { written, outcome: Promise.resolve('outbox') };
        },
        refuse: (reason) => failed.push(reason),
        storesAlone: false,
        pending: () => 0,
      };
      return { ...pipelineWith({ outbox, ...options }), rows, failed };
    }

    it('are rows as those of captured calls are, and are counted', async () => {
      const written = Promise.resolve();
      const { save, rows, ledger, ended } = savingWith(written);
      assert.equal(
        save(checkEvent({ ...event, topic: 'saved', headers: { tenant: 'acme' } }), scope),
        written,
      );
      const [row] = rows;
      assert.ok(row);
      assert.deepEqual(
        [row.eventType, row.aggregateType, row.aggregateId, row.key, row.topic, row.headers.tenant],
        ['SAVED', 'Order', '7', '7', 'saved', 'acme'],
      );
      assert.deepEqual(JSON.parse(String(row.payload)).payload, { id: 7 });
      await written;
      assert.deepEqual(ended, ['outbox']);
      const { calls, outbox, inFlight } = ledger.snapshot();
      assert.deepEqual([calls, outbox, inFlight], [1, 1, 0]);
    });

    it('that are wrong, or whose rules are, are refused, and so is the COMMIT', () => {
      const declareRules = throwing;
      for (const [given, options, code] of [
        [{ ...event, topic: secret }, {}, 'SVC_OUTBOX_EVENT'],
        [{ ...event, headers: { a: {} } }, {}, 'SVC_PUBLISH_HEADERS'],
        [event, { declareRules }, 'SVC_PIPELINE_UNEXPECTED'],
      ] as const) {
        const { save, rows, failed, refused, ledger } = savingWith(undefined, options);
        assert.throws(() => save(checkEvent(given), scope), { code });
        assert.deepEqual(rows, []);
        assert.deepEqual(
          failed.map((reason) => (reason as SvcError).code),
          [code],
        );
        assert.deepEqual(refused, [['SAVED', code]]);
        assert.equal(ledger.snapshot().refused, 1);
      }
    });
  });
});
