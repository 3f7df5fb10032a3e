import assert from 'node:assert/strict';
import type { BrokerRecord, SendFailure, SendResult } from '../../../src/publish/broker.ts';
import { recover } from '../../../src/publish/recovery/recover.ts';
import type { RecoverySource, StoredEvent } from '../../../src/publish/recovery-source.ts';
import type { UncertainBatches } from '../../../src/publish/sender/sender.ts';
import { useClock } from '../../support/fake-time.ts';

function stored(id: number, rest: Partial<StoredEvent> = {}): StoredEvent {
  return {
    place: `${id}.json`,
    eventId: String(id),
    eventType: 'T',
    topic: 'orders',
    key: `k${id % 2}`,
    headers: { eventId: String(id) },
    value: Buffer.from(`{"id":${id}}`),
    storedAt: 1,
    reason: 'R',
    ...rest,
  };
}

function sourceOf(
  events: StoredEvent[],
): RecoverySource & { readonly left: Set<StoredEvent>; sizes: number[] } {
  const left = new Set(events);
  const sizes: number[] = [];
  return {
    name: 'fake',
    left,
    sizes,
    async open() {},
    count: async () => left.size,
    async *read(size) {
      const all = [...left];
      for (let at = 0; at < all.length; at += size) {
        sizes.push(all.slice(at, at + size).length);
        yield { events: all.slice(at, at + size), unreadable: [] };
      }
    },
    async done(done) {
      for (const event of done) left.delete(event);
    },
    async close() {},
  };
}

interface Sent {
  readonly topic: string;
  readonly partition: number | undefined;
  readonly records: readonly BrokerRecord[];
}

function setUp(
  events: StoredEvent[],
  answer: (sent: Sent) => SendFailure | undefined,
  rest: Partial<Parameters<typeof recover>[0]> = {},
) {
  const source = sourceOf(events);
  const sends: Sent[] = [];
  const sleeps: number[] = [];
  const run = () =>
    recover({
      source,
      send: async (topic, partition, records): Promise<SendResult> => {
        const sent = { topic, partition, records };
        sends.push(sent);
        const failure = answer(sent);
        return failure === undefined ? { ok: true } : { ok: false, failure };
      },
      partitionsFor: async () => 2,
      partitionOf: (key) => Number(key?.slice(1)),
      accept: () => true,
      ratePerSecond: 0,
      dryRun: false,
      isStopped: () => false,
      sleep: async (ms) => void sleeps.push(ms),
      ...rest,
    });
  return { source, sends, sleeps, run };
}

const values = ({ records }: Sent): string[] => records.map(({ value }) => value.toString());
const awayFailure: SendFailure = { kind: 'retriable', cause: 'ECONNREFUSED', message: 'cannot reach Kafka' };

describe('recover', () => {
  beforeEach(() => void useClock({ now: () => 1_790_000_000_000, monotonic: () => 0 }));

  it('sends the same bytes, key and headers, by partition and in order, with the time of the sending', async () => {
    const { run, sends, source } = setUp([stored(1), stored(2), stored(3)], () => undefined);
    const report = await run();
    assert.deepEqual(
      sends.map((sent) => [sent.topic, sent.partition, values(sent)]),
      [
        ['orders', 1, ['{"id":1}', '{"id":3}']],
        ['orders', 0, ['{"id":2}']],
      ],
    );
    assert.deepEqual(sends[1]?.records[0], {
      key: 'k0',
      value: Buffer.from('{"id":2}'),
      headers: { eventId: '2' },
      timestamp: 1_790_000_000_000,
    });
    assert.deepEqual([report.matched, report.sent, report.failed, source.left.size], [3, 3, 0, 0]);
  });

  it('a dry run sends and marks nothing', async () => {
    const seen: string[] = [];
    const { run, sends, source } = setUp([stored(1), stored(2)], () => undefined, {
      dryRun: true,
      accept: ({ eventId }) => eventId === '2',
      onEvent: ({ eventId }) => seen.push(eventId),
    });
    const report = await run();
    assert.deepEqual([sends, source.left.size, seen, report.matched, report.skipped], [[], 2, ['2'], 1, 1]);
  });

  it('tries again after 1, 2 and 4 s, then stops: nothing is marked, and nothing more is tried', async () => {
    const events = Array.from({ length: 1_200 }, (_, id) => stored(id));
    const { run, sends, sleeps, source } = setUp(events, () => awayFailure);
    const report = await run();
    assert.deepEqual(sleeps, [1_000, 2_000, 4_000]);
    assert.equal(sends.length, 4);
    assert.equal(source.left.size, 1_200);
    assert.equal(report.stoppedBy, awayFailure);
    assert.deepEqual([...report.problems], [['cannot reach Kafka', 500]]);
    assert.equal(report.failed, 500);
  });

  const tooLarge: SendFailure = { kind: 'too_large', cause: 'MESSAGE_TOO_LARGE', message: 'too large' };

  it('what is too large is set aside once where that is asked for, and stays where there is no room', async () => {
    for (const [place, setsAside] of [
      ['aside', true],
      [undefined, true],
      ['aside', false],
    ] as const) {
      const { run, source } = setUp(
        [stored(1), stored(2, { value: Buffer.from('large') })],
        ({ records }) => (records.some(({ value }) => value.toString() === 'large') ? tooLarge : undefined),
        { setsAside },
      );
      const aside: string[] = [];
      source.setAside = async (events) => {
        if (place !== undefined) aside.push(...events.map(({ eventId }) => eventId));
        return place;
      };
      const report = await run();
      const isAside = place !== undefined && setsAside;
      assert.deepEqual([report.sent, report.failed, report.setAside], isAside ? [1, 0, 1] : [1, 1, 0]);
      assert.deepEqual(aside, isAside ? ['2'] : []);
      const reason = isAside ? 'set aside in aside: too large' : 'too large';
      assert.deepEqual([...report.problems], [[reason, 1]]);
    }
  });

  for (const [bytes, isReachable, sent] of [
    [512 * 1024 + 1, true, 1],
    [512 * 1024, true, 0],
    [512 * 1024 + 1, false, 0],
  ] as const) {
    const cluster = isReachable ? 'answers' : 'is away';
    it(`an event of ${bytes} bytes that cuts the connection of a cluster that ${cluster}: ${sent} other is sent`, async () => {
      const { run } = setUp(
        [stored(2, { value: Buffer.alloc(bytes) }), stored(1)],
        ({ records }) => (records.some(({ value }) => value.length === bytes) ? awayFailure : undefined),
        { isReachable: async () => isReachable },
      );
      const report = await run();
      assert.deepEqual([report.sent, report.failed], [sent, 2 - sent]);
      assert.equal(report.stoppedBy === undefined, sent === 1);
    });
  }

  it('a topic that refuses does not keep the others from being sent', async () => {
    const refused: SendFailure = {
      kind: 'fatal',
      cause: 'TOPIC_AUTHORIZATION_FAILED',
      message: 'not allowed',
    };
    const { run, source, sleeps } = setUp([stored(1, { topic: 'closed' }), stored(2)], ({ topic }) =>
      topic === 'closed' ? refused : undefined,
    );
    const report = await run();
    assert.deepEqual(
      [report.sent, report.failed, [...source.left].map(({ eventId }) => eventId)],
      [1, 1, ['1']],
    );
    assert.deepEqual(sleeps, []);
  });

  it('a topic that is gone does not keep the others from being sent', async () => {
    const gone: SendFailure = {
      kind: 'retriable',
      cause: 'UNKNOWN_TOPIC_OR_PARTITION',
      message: 'it does not exist',
    };
    // More than one batch, the topic that is gone first in each.
    const events = Array.from({ length: 1_200 }, (_, id) =>
      stored(id, id % 4 === 0 ? { topic: 'gone' } : {}),
    );
    const { run, sends, source, sleeps } = setUp(
      events,
      ({ topic }) => (topic === 'gone' ? gone : undefined),
      {
        partitionsFor: async (topic) => (topic === 'gone' ? undefined : 2),
      },
    );
    const report = await run();
    assert.deepEqual([report.sent, report.failed, report.stoppedBy], [900, 300, undefined]);
    assert.deepEqual([...report.problems], [['it does not exist', 300]]);
    assert.ok([...source.left].every(({ topic }) => topic === 'gone'));
    assert.deepEqual(sleeps, [1_000, 2_000, 4_000]);
    assert.equal(sends.filter(({ topic }) => topic === 'gone').length, 4);
  });

  it('an event without a topic goes to the one that is named, or stays', async () => {
    const lost = stored(1, { topic: undefined });
    const { run, source } = setUp([lost], () => undefined);
    assert.deepEqual(
      [...(await run()).problems],
      [['their topic is unknown: recover them with --to <topic>', 1]],
    );
    assert.equal(source.left.size, 1);
    const named = setUp([lost], () => undefined, { fallbackTopic: 'there' });
    await named.run();
    assert.equal(named.sends[0]?.topic, 'there');
  });

  it('asks about an unknown topic once a batch, until it is known', async () => {
    const events = Array.from({ length: 1_200 }, (_, id) => stored(id));
    const counts = [undefined, 2, 3];
    const { run, sends } = setUp(events, () => undefined, { partitionsFor: async () => counts.shift() });
    await run();
    assert.deepEqual(counts, [3]);
    assert.equal(sends.length, 500 + 2 + 2);
  });

  it('an unknown topic of a cluster that is away: one event is tried, not each', async () => {
    const events = Array.from({ length: 600 }, (_, id) => stored(id));
    const { run, sends, sleeps, source } = setUp(events, () => awayFailure, {
      partitionsFor: async () => undefined,
    });
    const report = await run();
    assert.deepEqual([sends.length, sleeps.length, report.failed], [4, 3, 500]);
    assert.deepEqual([...report.problems], [['cannot reach Kafka', 500]]);
    assert.equal(source.left.size, 600);
  });

  it('a wrong password is tried once for each topic, not with each event', async () => {
    const refused: SendFailure = { kind: 'fatal', cause: 'SASL_AUTHENTICATION_FAILED', message: 'refused' };
    const events = Array.from({ length: 1_200 }, (_, id) => stored(id, { topic: `t${id % 2}` }));
    let asked = 0;
    const { run, sends, source } = setUp(events, () => refused, {
      partitionsFor: async () => void asked++,
    });
    const report = await run();
    assert.deepEqual([sends.length, asked, report.failed], [2, 2, 1_200]);
    assert.deepEqual([...report.problems], [['refused', 1_200]]);
    assert.equal(source.left.size, 1_200);
  });

  it('keeps to the rate, in batches of a second at most', async () => {
    const events = Array.from({ length: 25 }, (_, id) => stored(id));
    const { run, sleeps, source } = setUp(events, () => undefined, { ratePerSecond: 10 });
    await run();
    assert.deepEqual(
      [source.sizes, sleeps],
      [
        [10, 10, 5],
        [1_000, 1_000, 500],
      ],
    );
  });

  it('has 500 events in a batch, and 512 KB in a send', async () => {
    const events = Array.from({ length: 501 }, (_, id) => stored(id * 2, { value: Buffer.alloc(2_048) }));
    const { run, source, sends } = setUp(events, () => undefined);
    await run();
    assert.deepEqual(source.sizes, [500, 1]);
    assert.deepEqual(
      sends.map(({ records }) => records.length),
      [256, 244, 1],
    );
  });

  it('marks what was acknowledged before something broke', async () => {
    let sends = 0;
    const { run, source } = setUp([stored(1), stored(2)], () => {
      if (++sends === 2) throw new Error('broken adapter');
      return undefined;
    });
    await assert.rejects(run(), /broken adapter/);
    assert.deepEqual(
      [...source.left].map(({ eventId }) => eventId),
      ['2'],
    );
  });

  it('stops after the batch under way', async () => {
    const events = Array.from({ length: 1_200 }, (_, id) => stored(id));
    const { run, source } = setUp(events, () => undefined, { isStopped: () => true });
    const report = await run();
    assert.deepEqual([report.sent, report.isInterrupted], [500, true]);
    assert.equal(source.left.size, 700);
  });

  const noAnswer: SendFailure = { kind: 'unknown_outcome', cause: 'TimeoutException', message: 'no answer' };

  it('sends what may be stored as the same batch: at the next try, and in the next run of this process', async () => {
    const uncertain: UncertainBatches = new Map();
    let events = [stored(1), stored(3)];
    let answers = 0;
    const seen: (readonly BrokerRecord[])[] = [];
    const runs = async () => {
      const { run, sends } = setUp(events, () => (answers++ < 3 ? noAnswer : undefined), {
        ...{ uncertain, retryWaitsMs: [1], keepsOrder: true },
      });
      const report = await run();
      seen.push(...sends.map(({ records }) => records));
      return report.sent;
    };
    assert.equal(await runs(), 0);
    // More of the same partition has come.
    events = [stored(1), stored(3), stored(5), stored(7)];
    assert.equal(await runs(), 4);
    assert.deepEqual(
      seen.map(({ length }) => length),
      [2, 2, 2, 2, 2],
    );
    const [first, ...others] = seen;
    for (const again of others.slice(0, 3)) assert.equal(again[0], first?.[0]);
    assert.equal(others[3]?.[0]?.headers.eventId, '5');
    assert.equal(uncertain.size, 0);
  });

  it('does not halve what may be stored', async () => {
    let answers = 0;
    const { run, sends } = setUp([stored(1), stored(3)], () => (answers++ === 0 ? noAnswer : tooLarge));
    const report = await run();
    assert.deepEqual([sends.length, report.failed], [2, 2]);
  });

  for (const [now, partitions] of [
    [1, [1, 0]],
    [3, [1, 0, 2]],
  ] as const)
    it(`places anew what was placed by another number of partitions, without waiting: 2, then ${now}`, async () => {
      let count: number = 2;
      const { run, sends, sleeps, source } = setUp(
        [stored(1), stored(2)],
        () => {
          if (count !== 2) return undefined;
          count = now;
          return { kind: 'retriable', cause: 'UNKNOWN_PARTITION', message: 'has others now' };
        },
        {
          partitionsFor: async () => count,
          partitionOf: (key, of) => (key === 'k1' ? of - 1 : 0),
        },
      );
      const report = await run();
      assert.deepEqual([report.sent, sleeps, source.left.size], [2, [], 0]);
      assert.deepEqual(
        sends.map(({ partition }) => partition),
        partitions,
      );
    });
});
