import assert from 'node:assert/strict';
import type { DeadLetterAsk } from '../../src/manage/controls.ts';
import type { TopicRecord, TopicTail } from '../../src/publish/topic-reader.ts';
import { createNewestDeadLetters } from '../../src/start/management.ts';

const headers = { eventType: 'PAID', originalTopic: 'orders', exceptionType: 'TimeoutException' };
const value = Buffer.from('{"customer":"Jane"}');
const record = (partition: number, offset: number, more: Partial<TopicRecord> = {}): TopicRecord => ({
  ...{ partition, offset, key: 'jane@example.com', value, timestamp: offset * 1_000 },
  headers: { ...headers, eventId: `${partition}-${offset}` },
  ...more,
});

describe('the newest dead letters of a topic', () => {
  let closed = 0;
  /** Partitions, each from its oldest record on. */
  const tailOf = (partitions: readonly (readonly TopicRecord[])[], more: Partial<TopicTail> = {}) => {
    const left = partitions.map((records) => [...records]);
    return async (): Promise<TopicTail> => ({
      open: async () => {},
      read: () => assert.fail('it does not follow the topic'),
      async *older(count) {
        for (const records of left) if (records.length > 0) yield records.splice(-count, count);
      },
      partitionsLeft: () => left.flatMap((records, partition) => (records.length > 0 ? [partition] : [])),
      close: async () => void closed++,
      ...more,
    });
  };
  const limits = { answerMs: 20_000, maxRead: 1_000 };
  const look = (
    partitions: readonly (readonly TopicRecord[])[],
    ask: Partial<DeadLetterAsk> = {},
    of = limits,
  ) =>
    createNewestDeadLetters('dead', tailOf(partitions), of).newest({ limit: 200, ...ask }) ?? assert.fail();
  const run = (partition: number, from: number, to: number, more: Partial<TopicRecord> = {}) =>
    Array.from({ length: to - from }, (_, n) => record(partition, from + n, more));

  beforeEach(() => {
    closed = 0;
  });

  it('are what stands in the headers, the newest first, and nothing of the event nor its key', async () => {
    const found = await look([[record(0, 1), record(0, 3)], [record(1, 2)]]);
    assert.deepEqual(
      found.deadLetters.map(({ eventId }) => eventId),
      ['0-3', '1-2', '0-1'],
    );
    assert.deepEqual(found.deadLetters[0], {
      ...{ eventId: '0-3', eventType: 'PAID', failureReason: 'TimeoutException', originalTopic: 'orders' },
      ...{ timestamp: '1970-01-01T00:00:03.000Z', partition: 0, offset: 3 },
    });
    assert.deepEqual([found.read, found.unreadable, found.complete, closed], [3, 0, true, 1]);
    assert.ok(!/jane/i.test(JSON.stringify(found)));
  });

  it('are read for what headers do not say: of a reason that others wrote, the name of the class alone', async () => {
    const of = (message: object, offset: number): TopicRecord =>
      record(0, offset, { headers: {}, value: Buffer.from(JSON.stringify(message)) });
    const event = { eventType: 'PAID', payload: { customer: 'Jane' } };
    const found = await look([
      [
        of({ eventId: '1', originalPayload: JSON.stringify(event), failedAt: 1e20 }, 1),
        of({ eventId: '2', originalEvent: event, failureReason: 'TimeoutException: Jane was late' }, 2),
        of({ eventId: '3', originalEvent: event, failureReason: 'Jane was late' }, 3),
        of({ no: 'dead letter' }, 4),
      ],
    ]);
    assert.deepEqual(
      found.deadLetters.map(({ eventId, eventType, failureReason }) => [eventId, eventType, failureReason]),
      [
        ['3', 'PAID', null],
        ['2', 'PAID', 'TimeoutException'],
        ['1', 'PAID', null],
      ],
    );
    assert.deepEqual([found.read, found.unreadable], [4, 1]);
    assert.ok(!/jane/i.test(JSON.stringify(found)));
  });

  it('are those that are asked for, by type, reason, topic and time', async () => {
    const other = { eventType: 'SENT', originalTopic: 'mails', exceptionType: 'TooLarge' };
    const topic = [[...run(0, 1, 5), record(0, 9, { headers: { ...other, eventId: 'other' } })]];
    const idsOf = async (ask: Partial<DeadLetterAsk>): Promise<string[]> =>
      (await look(topic, ask)).deadLetters.map(({ eventId }) => eventId);
    for (const ask of [
      { types: ['SENT'] },
      { reasons: ['x', 'TooLarge'] },
      { topics: ['mails'] },
      { since: 4_001 },
    ])
      assert.deepEqual(await idsOf(ask), ['other'], JSON.stringify(ask));
    assert.deepEqual(await idsOf({ since: 2_000, until: 4_000 }), ['0-3', '0-2']);
    assert.deepEqual(await idsOf({ types: ['NONE'] }), []);
  });

  it('are so many as were asked for; one more is left out, and said', async () => {
    const all = await look([run(0, 0, 200)]);
    assert.deepEqual([all.deadLetters.length, all.complete], [200, true]);
    const more = await look([run(0, 0, 201)]);
    assert.deepEqual([more.deadLetters.length, more.complete], [200, false]);
    assert.equal(more.deadLetters.at(-1)?.eventId, '0-1');
  });

  it('are looked for further back, until no partition can have a newer one', async () => {
    // What is asked for lies behind 300 others, and the newest of the other partition is older than all of them.
    const rare = { headers: { ...headers, eventType: 'RARE', eventId: 'rare' } };
    const found = await look([[record(0, 1, rare), ...run(0, 2, 302)], []], { types: ['RARE'], limit: 1 });
    assert.deepEqual([found.deadLetters.length, found.read], [1, 301]);
    const shared = await look([run(0, 100, 120), run(1, 0, 110)], { limit: 15 });
    assert.deepEqual(
      shared.deadLetters.map(({ timestamp }) => Date.parse(timestamp) / 1_000),
      Array.from({ length: 15 }, (_, n) => 119 - n)
        .flatMap((second) => (second < 110 ? [second, second] : [second]))
        .slice(0, 15),
    );
    assert.ok(shared.read < 130, 'the older ones stay unread');
  });

  it('end with so many records that were looked at', async () => {
    const found = await look([run(0, 0, 5_000)], { types: ['NONE'] });
    assert.ok(found.read >= limits.maxRead && found.read < 3 * limits.maxRead, String(found.read));
    assert.deepEqual([found.deadLetters, found.complete], [[], false]);
  });

  it('are asked for once at a time', async () => {
    const reader = createNewestDeadLetters('dead', tailOf([run(0, 0, 3)]), limits);
    const first = reader.newest({ limit: 1 });
    assert.equal(reader.newest({ limit: 1 }), undefined);
    await first;
    assert.ok(reader.newest({ limit: 1 }));
  });

  it('are not waited for for long: what was found is said, and where nothing was, that', async () => {
    const never = new Promise<void>(() => {});
    const soon = { ...limits, answerMs: 30 };
    const hangs = createNewestDeadLetters('dead', tailOf([], { open: () => never }), soon);
    await assert.rejects(hangs.newest({ limit: 1 }) ?? assert.fail(), {
      code: 'SVC_ADAPTERS_NOT_REACHABLE',
      message: 'topic "dead" could not be read within 0.03 s',
    });
    assert.equal(hangs.newest({ limit: 1 }), undefined, 'it is still at it');
    const slow = tailOf([], {
      partitionsLeft: () => [0],
      async *older() {
        yield [record(0, 7)];
        await never;
      },
    });
    const found = await createNewestDeadLetters('dead', slow, soon).newest({ limit: 2 });
    assert.deepEqual([found?.deadLetters.length, found?.complete], [1, false]);
  });

  it('are asked for again after a failure, which is told in one line', async () => {
    let tries = 0;
    const reader = createNewestDeadLetters(
      'dead',
      async () => {
        if (tries++ === 0) throw new Error('no way');
        return tailOf([run(0, 0, 1)])();
      },
      limits,
    );
    await assert.rejects(reader.newest({ limit: 1 }) ?? assert.fail(), /no way/);
    assert.equal((await reader.newest({ limit: 1 }))?.read, 1);
  });
});
