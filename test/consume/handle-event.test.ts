import assert from 'node:assert/strict';
import sinon from 'sinon';
import type { ConsumeOptions } from '../../src/consume/consume-once.ts';
import {
  type ConsumedEvent,
  type EventHandler,
  RefusedEvent,
  type Upcasts,
} from '../../src/consume/handle-event.ts';
import { handling } from './handling-under-test.ts';

const dayMs = 86_400_000;

describe('upcast', () => {
  const seen = (upcasts: Upcasts) => {
    const payloads: unknown[] = [];
    const handlers = new Map<string, EventHandler>([['*', ({ payload }) => void payloads.push(payload)]]);
    return { ...handling({ upcasts, handlers }), payloads };
  };

  it('makes payloads of each older version into what handlers know, of its own type alone', async () => {
    const { take, payloads, its } = seen({
      ORDER_PLACED: [
        (payload) => ('total' in payload ? { amount: payload.total } : payload),
        (payload, { headers, event }) =>
          headers['schema-version'] === '3' ? payload : { ...payload, id: event.eventId },
      ],
    });
    await take({ payload: { total: 7 } });
    await take({ payload: { amount: 8 } });
    await take({ payload: { amount: 9 } }, { headers: { 'schema-version': '3' } });
    await take({ eventType: 'OTHER', payload: { total: 1 } });
    await take({ eventType: 'constructor', payload: { total: 2 } });
    assert.deepEqual(payloads, [
      { amount: 7, id: '1' },
      { amount: 8, id: '1' },
      { amount: 9 },
      { total: 1 },
      { total: 2 },
    ]);
    assert.deepEqual(its.buried, []);
  });

  const failing: [title: string, upcast: Upcasts[string][number], name: string][] = [
    ['throws', () => JSON.parse('{secret'), 'SyntaxError'],
    [
      'refuses',
      () => {
        throw new RefusedEvent('secret');
      },
      'RefusedEvent',
    ],
    ['gives nothing', () => undefined, 'TypeError'],
    ['gives a promise', async (payload) => payload, 'TypeError'],
  ];
  for (const [title, upcast, name] of failing)
    it(`one that ${title} is refused, with the event as it stood in its topic`, async () => {
      const { take, payloads, its } = seen({ ORDER_PLACED: [() => ({ changed: true }), upcast] });
      await take({ payload: { total: 7 } });
      assert.deepEqual([payloads, its.inboxIds], [[], []]);
      const [letter, ...more] = its.buried;
      assert.deepEqual(
        [letter?.cause, letter?.message, letter?.attempts, more],
        ['SVC_CONSUME_UPCAST', `SVC_CONSUME_UPCAST: an upcast of ORDER_PLACED failed with ${name}`, 1, []],
      );
      assert.deepEqual((letter?.document as ConsumedEvent | undefined)?.payload, { total: 7 });
      assert.equal((its.errors[0] as Error).name, name, 'onError gets the error itself');
    });
});

describe('an event that is older than what the inbox remembers', () => {
  const run = async (ageMs: number, of: 'record' | 'event', retentionDays?: number): Promise<string[]> => {
    const { its, take } = handling({
      handlers: new Map<string, EventHandler>([['*', () => {}]]),
      ...(retentionDays !== undefined && { retentionDays }),
    });
    const atMs = Date.now() - ageMs;
    for (let times = 0; times < 2; times++)
      if (of === 'record') await take({ publishedAt: new Date().toISOString() }, { timestamp: atMs });
      else await take({ publishedAt: new Date(atMs).toISOString() });
    return its.warnings;
  };

  it('is said once, whether its topic or something else has kept it', async () => {
    for (const kept of ['record', 'event'] as const) {
      const lines = await run(31 * dayMs, kept, 30);
      assert.equal(lines.length, 1);
      assert.match(
        lines[0] ?? '',
        /^topic orders has an event that is 31 days old, but the inbox keeps 30 days\. .*longer retentionDays$/,
      );
      assert.deepEqual(await run(29.9 * dayMs, kept, 30), []);
      assert.deepEqual(await run(900 * dayMs, kept), [], 'a store of the application');
    }
  });

  it('is so after the last millisecond, once for each topic', async () => {
    const clock = sinon.useFakeTimers({ now: 30 * dayMs + 1, toFake: ['Date'] });
    try {
      const handlers = new Map<string, EventHandler>([['*', () => {}]]);
      const { its, take } = handling({ handlers, retentionDays: 30 });
      const event = { publishedAt: 'never' };
      await take(event, { timestamp: 1 });
      assert.deepEqual(its.warnings, []);
      for (const topic of ['orders', 'payments', 'orders']) await take(event, { topic, timestamp: 0 });
      assert.equal(its.warnings.length, 2);
    } finally {
      clock.restore();
    }
  });
});

describe('handlers', () => {
  it('know the payloads that svc catalog has written', () => {
    interface EventPayloads {
      readonly ORDER_PLACED: { readonly orderId: string };
      readonly ORDER_PAID: { readonly amount: number };
    }
    const handlers: ConsumeOptions<{ tx: true }, EventPayloads>['handlers'] = {
      ORDER_PLACED: ({ payload }, { tx }) => [payload.orderId.length, tx],
      // @ts-expect-error it has none
      ORDER_PAID: ({ payload }) => payload.orderId,
      '*': ({ payload }) => payload as unknown,
    };
    // @ts-expect-error nobody publishes it
    const wrong: ConsumeOptions<unknown, EventPayloads>['handlers'] = { ORDER_LOST: () => {} };
    // Where nobody has said which there are.
    const any: ConsumeOptions['handlers'] = { ORDER_LOST: ({ payload }) => payload.what.ever };
    assert.equal([handlers, wrong, any].length, 3);
  });
});
