import assert from 'node:assert/strict';
import type { FailedEvent } from '../../../src/publish/tier.ts';
import {
  fromDlqRecord,
  headOfDlqRecord,
  toDlqRecord,
  toSmallerDlqRecord,
} from '../../../src/publish/tiers/dlq-message.ts';
import { failedEvent } from '../failed-event.ts';

const nowMs = 1_780_000_001_000;

function roundTrip(failed: FailedEvent, format: 'operations' | 'recovery') {
  const event = fromDlqRecord(toDlqRecord(failed, format, nowMs), 'dlq-0@1');
  assert.ok(typeof event !== 'string', String(event));
  return event;
}

describe('dead letter', () => {
  it('operations: the event as a text, with class name and time of the failure', () => {
    const failed = failedEvent('1');
    const record = toDlqRecord(failed, 'operations', nowMs);
    assert.deepEqual(JSON.parse(record.value.toString()), {
      eventId: '1',
      originalTopic: 'orders',
      originalPayload: failed.record.value.toString(),
      exceptionType: 'ECONNREFUSED',
      exceptionMessage: 'cannot reach Kafka',
      failedAt: nowMs,
    });
    assert.equal(record.key, 'key-1');
    assert.deepEqual(record.headers, {
      ...failed.record.headers,
      originalTopic: 'orders',
      exceptionType: 'ECONNREFUSED',
    });
    assert.equal(record.timestamp, nowMs);
  });

  it('smaller: the event as it is, with what a letter says of it in headers; recovery gives the same back', () => {
    const failed = failedEvent('1', {
      failure: { kind: 'fatal', cause: 'RefusedEvent', message: 'its handler refused it' },
    });
    const record = toSmallerDlqRecord(failed, 'value', nowMs, { partition: 3, offset: 42n });
    assert.equal(record.value, failed.record.value);
    assert.deepEqual(record.headers, {
      ...failed.record.headers,
      originalTopic: 'orders',
      exceptionType: 'RefusedEvent',
      exceptionMessage: 'its handler refused it',
      deadLetterForm: 'value',
      deadLetterEventId: '1',
      originalPartition: '3',
      originalOffset: '42',
    });
    const event = fromDlqRecord(record, 'p');
    assert.ok(typeof event !== 'string', String(event));
    assert.deepEqual(
      [event.eventId, event.topic, event.key, event.headers, event.value, event.reason],
      ['1', 'orders', failed.record.key, failed.record.headers, failed.record.value, 'RefusedEvent'],
    );
  });

  it('smallest: no payload, no long key, no headers of the event, and the place where it is', () => {
    const { value, headers: own, timestamp } = failedEvent('1').record;
    const headers = { ...own, eventType: 'ORDER', big: 'x'.repeat(1e6) };
    const withKey = (key: string) => failedEvent('1', { record: { key, value, headers, timestamp } });
    const failed = withKey('k'.repeat(1_025));
    const letter = toSmallerDlqRecord(failed, 'place', nowMs, { partition: 3, offset: 42n });
    assert.equal(letter.key, null);
    assert.ok(letter.value.length + JSON.stringify(letter.headers).length < 1_000);
    assert.equal(
      fromDlqRecord(letter, 'p'),
      'it holds no event, because the event was too large: it is in orders, partition 3, offset 42',
    );
    const head = headOfDlqRecord(letter);
    assert.ok(typeof head !== 'string');
    assert.deepEqual([head.eventId, head.eventType, head.topic], ['1', 'ORDER', 'orders']);
    const key = 'k'.repeat(1_024);
    assert.equal(toSmallerDlqRecord(withKey(key), 'place', nowMs).key, key);
  });

  it('recovery: the event as an object, with the number of retries', () => {
    const failed = failedEvent('1');
    const message = JSON.parse(toDlqRecord(failed, 'recovery', nowMs).value.toString());
    assert.deepEqual(message, {
      eventId: '1',
      originalTopic: 'orders',
      failureReason: 'ECONNREFUSED: cannot reach Kafka',
      failureTimestamp: '2026-05-28T20:26:41.000Z',
      retryCount: 3,
      originalEvent: JSON.parse(failed.record.value.toString()),
    });
    assert.equal(
      JSON.parse(toDlqRecord(failedEvent('1', { attempts: 0 }), 'recovery', 0).value.toString()).retryCount,
      0,
    );
  });

  for (const format of ['operations', 'recovery'] as const) {
    it(`${format}: gives the same bytes, key, headers and topic back`, () => {
      for (const message of ['plain', 'with ,"originalEvent": in it', '"quoted\\"']) {
        const failed = failedEvent('1', {
          failure: { kind: 'fatal', cause: 'Some,"originalEvent":', message },
        });
        const event = roundTrip(failed, format);
        assert.ok(event.value.equals(failed.record.value), event.value.toString());
        assert.deepEqual(
          [event.topic, event.key, event.headers, event.eventId, event.eventType, event.storedAt],
          ['orders', 'key-1', failed.record.headers, '1', 'ORDER_CREATED', nowMs],
        );
      }
    });

    it(`${format}: bytes that are no text travel in shape A, and content-type is given back`, () => {
      const { record } = failedEvent('1');
      const value = Buffer.from([0, 1, 255, 254]);
      const headers = { ...record.headers, 'content-type': 'application/avro' };
      const dead = toDlqRecord(failedEvent('1', { record: { ...record, value, headers } }), format, nowMs);
      assert.equal(dead.headers['content-type'], 'application/json');
      const event = fromDlqRecord(dead, 'p');
      assert.ok(typeof event !== 'string');
      assert.ok(event.value.equals(value));
      assert.deepEqual(event.headers, headers);
    });
  }

  it('shape B of another writer, with fields in another order, is read as well', () => {
    const originalEvent = { eventType: 'T', payload: { a: 1 } };
    const value = Buffer.from(
      JSON.stringify({ originalEvent, eventId: '9', originalTopic: 't', retryCount: 3 }),
    );
    const event = fromDlqRecord({ key: null, value, headers: {}, timestamp: 5 }, 'p');
    assert.ok(typeof event !== 'string');
    assert.deepEqual(JSON.parse(event.value.toString()), originalEvent);
    assert.deepEqual([event.eventType, event.topic, event.key, event.storedAt], ['T', 't', null, 5]);
  });

  it('what is no dead letter is said to be none', () => {
    const read = (text: string) =>
      fromDlqRecord({ key: null, value: Buffer.from(text), headers: {}, timestamp: 0 }, 'p');
    assert.equal(read('x'), 'it is not a JSON object');
    assert.equal(read('[]'), 'it is not a JSON object');
    assert.equal(read('{"eventId":"1"}'), 'it has neither originalPayload nor originalEvent');
    assert.equal(read('{"originalPayload":"x"}'), 'it has no eventId');
  });
});
