import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import pino from 'pino';
import type { Logger } from '../../../src/observe/logger.ts';
import { clockOfEach } from '../../support/fake-time.ts';
import { useLogger } from '../../support/log.ts';
import { away, event, fakeCluster, forbidden, queueOver } from '../fake-cluster.ts';

interface Line {
  readonly msg: string;
  readonly request?: string;
  readonly eventId?: string;
}

/** The application's logger: a mixin puts the request into each line. */
function requestLogger(requests: AsyncLocalStorage<string>) {
  const lines: Line[] = [];
  const log = pino(
    { level: 'debug', mixin: () => ({ request: requests.getStore() }) },
    { write: (line: string) => void lines.push(JSON.parse(line)) },
  );
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (message: string, fields: object = {}) =>
      log[level](fields, message);
  const logger: Logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  return { logger, lines };
}

describe("context of the caller in the queue's hooks", () => {
  const clock = clockOfEach();

  it('is that of the event in its outcome, its next tier and its log lines, although events share a send', async () => {
    const requests = new AsyncLocalStorage<string>();
    const { logger, lines } = requestLogger(requests);
    const { broker, reply } = fakeCluster();
    let sent = 0;
    reply.current = () => [away, forbidden, undefined][sent++];
    const seen: string[] = [];
    const { queue } = queueOver(broker, {
      onPublished: () => seen.push(`published ${requests.getStore()}`),
      next: async ({ event: one }) => {
        seen.push(`next ${one.eventId} ${requests.getStore()}`);
        await new Promise((resolve) => setTimeout(resolve, 1));
        logger.error('dead letter', { eventId: one.eventId });
        return 'dlq';
      },
    });
    useLogger(logger);
    const publish = (id: string) =>
      requests.run(`request ${id}`, () =>
        queue.publish(event(id)).then((outcome) => seen.push(`${outcome} ${requests.getStore()}`)),
      );
    void publish('1');
    void publish('2');
    await clock.tickAsync(1_010);
    void publish('3');
    await clock.tickAsync(10);
    assert.deepEqual(seen, [
      'next 1 request 1',
      'next 2 request 2',
      'dlq request 1',
      'dlq request 2',
      'published request 3',
      'published request 3',
    ]);
    assert.deepEqual(
      lines.map(({ msg, request, eventId }) => [msg.slice(0, 11), eventId, request]),
      [
        ['send failed', '1', 'request 1'],
        ['dead letter', '1', 'request 1'],
        ['dead letter', '2', 'request 2'],
        // Of all events of the topic.
        ['topic "main', undefined, undefined],
      ],
    );
  });

  it('is that of the event where there is no room for it', async () => {
    const requests = new AsyncLocalStorage<string>();
    const { logger, lines } = requestLogger(requests);
    const { broker } = fakeCluster();
    let inTier: string | undefined;
    const { queue } = queueOver(broker, {
      buffer: { maxEvents: 1, maxBytes: 10_000 },
      next: async () => {
        inTier = requests.getStore();
        return 'backup';
      },
    });
    useLogger(logger);
    requests.run('request 1', () => void queue.publish(event('1')));
    requests.run('request 2', () => void queue.publish(event('2')));
    assert.equal(inTier, 'request 2');
    assert.equal(lines[0]?.request, 'request 2');
  });

  it("is nobody's in the client: a connection that is opened for one call serves all", async () => {
    const requests = new AsyncLocalStorage<string>();
    const { broker } = fakeCluster();
    const seen: (string | undefined)[] = [];
    const { queue } = queueOver(
      {
        ...broker,
        partitionsFor: async () => {
          seen.push(requests.getStore());
          return 1;
        },
        send: async (topic, partition, records) => {
          seen.push(requests.getStore());
          void broker.send(topic, partition, records);
          await new Promise((resolve) => setTimeout(resolve, 1));
          return { ok: true };
        },
      },
      { batch: { maxEvents: 2, maxBytes: 900_000, lingerMs: 5 } },
    );
    for (const id of ['1', '2', '3', '4', '5']) requests.run(id, () => void queue.publish(event(id)));
    await clock.tickAsync(3);
    requests.run('6', () => void queue.publish(event('6')));
    await clock.tickAsync(20);
    assert.ok(seen.length >= 4);
    assert.deepEqual(new Set(seen), new Set([undefined]));
  });
});
