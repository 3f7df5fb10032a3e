import assert from 'node:assert/strict';
import sinon from 'sinon';
import type { Broker, BrokerRecord, SendFailure, SendResult } from '../../src/publish/broker.ts';
import { createDirectPublisher, type DirectPublisherOptions } from '../../src/publish/direct.ts';
import type { SerializedEvent } from '../../src/serialize/serializer.ts';

const failure: SendFailure = { kind: 'fatal', cause: 'TOPIC_AUTHORIZATION_FAILED', message: 'not allowed' };

/** A broker whose answers the test gives by hand. */
function handBroker() {
  const sends: { topic: string; records: readonly BrokerRecord[]; answer: (result: SendResult) => void }[] =
    [];
  const broker: Broker = {
    name: 'hand',
    connect: async () => ({ ok: true }),
    send: (topic, _partition, records) => new Promise((answer) => sends.push({ topic, records, answer })),
    partitionsFor: async () => 1,
    describe: async () => ({ clusterId: null, nodeCount: 1 }),
    close: async () => {},
  };
  return { broker, sends };
}

const event = (eventId: string, topic?: string): SerializedEvent => ({
  eventId,
  eventType: 'T',
  topic,
  key: `k-${eventId}`,
  headers: { eventId },
  head: `{"eventId":"${eventId}","publishedAt":"`,
  tail: '"}',
});

function publisherOver(broker: Broker, options: Partial<DirectPublisherOptions> = {}) {
  const failures: [id: string, topic: string, why: SendFailure][] = [];
  const publisher = createDirectPublisher({
    broker,
    topic: 'main',
    clock: { now: () => 1_700_000_000_000, monotonic: () => performance.now() },
    maxInFlight: 2,
    maxEvents: 4,
    isolate: (work) => work(),
    onSuccess: () => {},
    onFailure: (one, topic, why) => failures.push([one.eventId, topic, why]),
    ...options,
  });
  return { publisher, failures };
}

describe('direct publisher', () => {
  afterEach(() => sinon.restore());

  it('sends one record, stamped when it is handed over, to its own topic or the default one', async () => {
    const { broker, sends } = handBroker();
    const { publisher } = publisherOver(broker);
    const outcomes = Promise.all([publisher.publish(event('1')), publisher.publish(event('2', 'other'))]);
    assert.deepEqual(
      sends.map((send) => send.topic),
      ['main', 'other'],
    );
    const record = sends[0]?.records[0];
    assert.equal(record?.value.toString(), '{"eventId":"1","publishedAt":"2023-11-14T22:13:20.000Z"}');
    assert.equal(record?.key, 'k-1');
    assert.equal(record?.timestamp, 1_700_000_000_000);
    for (const send of sends) send.answer({ ok: true });
    assert.deepEqual(await outcomes, ['published', 'published']);
  });

  it('keeps at most maxInFlight sends under way, in order', async () => {
    const { broker, sends } = handBroker();
    const { publisher } = publisherOver(broker);
    const outcomes = ['1', '2', '3'].map((id) => publisher.publish(event(id)));
    assert.equal(sends.length, 2);
    sends[0]?.answer({ ok: true });
    assert.equal(await outcomes[0], 'published');
    assert.equal(sends.length, 3);
    assert.equal(sends[2]?.records[0]?.key, 'k-3');
  });

  it('takes maxEvents events; one more is lost and reported', async () => {
    const { broker } = handBroker();
    const { publisher, failures } = publisherOver(broker);
    for (const id of ['1', '2', '3', '4']) void publisher.publish(event(id));
    assert.equal(failures.length, 0);
    assert.equal(await publisher.publish(event('5')), 'lost');
    assert.equal(failures[0]?.[2].cause, 'BufferFull');
  });

  it('a refused send is lost, with its topic and reason', async () => {
    const { broker, sends } = handBroker();
    const { publisher, failures } = publisherOver(broker);
    const outcome = publisher.publish(event('1'));
    sends[0]?.answer({ ok: false, failure });
    assert.equal(await outcome, 'lost');
    assert.deepEqual(failures, [['1', 'main', failure]]);
  });

  it('an adapter that throws against its promise costs the event, not the process', async () => {
    const { broker } = handBroker();
    const { publisher, failures } = publisherOver({
      ...broker,
      send: () => Promise.reject(new TypeError('john@example.com')),
    });
    assert.equal(await publisher.publish(event('1')), 'lost');
    assert.equal(failures[0]?.[2].cause, 'TypeError');
    assert.ok(!JSON.stringify(failures).includes('john@example.com'));
  });

  it('close waits for what is under way, then takes nothing more', async () => {
    const { broker, sends } = handBroker();
    const { publisher } = publisherOver(broker, { maxInFlight: 1 });
    const outcomes = [publisher.publish(event('1')), publisher.publish(event('2'))];
    const closed = publisher.close(1_000);
    sends[0]?.answer({ ok: true });
    await outcomes[0];
    sends[1]?.answer({ ok: true });
    await closed;
    assert.deepEqual(await Promise.all(outcomes), ['published', 'published']);
    assert.equal(await publisher.publish(event('3')), 'lost');
  });

  it('close gives up at the deadline: what was waiting is lost', async () => {
    const clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { broker } = handBroker();
    const { publisher, failures } = publisherOver(broker, { maxInFlight: 1 });
    void publisher.publish(event('1'));
    const waiting = publisher.publish(event('2'));
    const closed = publisher.close(500);
    await clock.tickAsync(500);
    await closed;
    assert.equal(await waiting, 'lost');
    assert.equal(failures[0]?.[2].cause, 'Shutdown');
  });
});
