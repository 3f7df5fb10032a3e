import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { CloudEvent, Kafka } from 'cloudevents';
import fc from 'fast-check';
import { createDecryptionKeys, decryptFields, readEnvelope } from '../../src/consumer/decrypt-fields.ts';
import { createEnvelopes, type Origin } from '../../src/envelope/envelope.ts';
import type { Severity } from '../../src/ground/event-fields.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import type { ProtectedEnvelope } from '../../src/protect/protect.ts';
import { bytesOf, toRecord } from '../../src/publish/main/queue.ts';
import { createCloudEventsSerializer } from '../../src/serialize/cloudevents.ts';
import type { RecordParts, SerializedEvent } from '../../src/serialize/serializer.ts';
import { readWithJavaScript } from '../support/cloud-event-readers.ts';

const modes = ['binary', 'structured'] as const;
const publishedMs = Date.parse('2026-11-25T09:00:00.007Z');
const nobody: Origin = { userId: null, sessionId: null, correlationId: null, clientIp: null, tags: null };
const trace = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), parentSpanId: null };
const traceparent = `00-${trace.traceId}-${trace.spanId}-01`;

interface Given {
  readonly eventType?: string;
  readonly severity?: Severity;
  readonly serviceName?: string | null;
  readonly origin?: Partial<Origin>;
  readonly payload?: Record<string, unknown>;
  readonly sealed?: readonly string[];
  readonly record?: Partial<RecordParts>;
}

/** An event as the pipeline hands it on. */
function eventOf(mode: (typeof modes)[number], given: Given): SerializedEvent {
  const { eventType = 'ORDER', severity = 'INFO', serviceName = 'orders', payload = {}, sealed = [] } = given;
  const source = { serviceName, serviceVersion: null, hostname: null };
  const build = createEnvelopes({ source, readOrigin: () => ({ ...nobody, ...given.origin }) });
  const occurredMs = Date.parse('2026-11-25T09:00:00.000Z');
  const envelope = { ...build('7', { eventType, severity, payload }, trace, occurredMs), sealed };
  const parts = { topic: 'orders', trace: { traceparent }, ...given.record };
  const serializer = createCloudEventsSerializer({ mode, source: '/orders' });
  const value = serializer.serialize(envelope as object as ProtectedEnvelope, parts);
  const headers = { eventId: '7', eventType, ...value.form.headers, traceparent, ...parts.headers };
  return { eventId: '7', eventType, topic: undefined, key: parts.key ?? '7', headers, value };
}

/** With what no attribute may hold: `U+FFFD` in its place, and nothing where it is empty. */
const attribute = (text: string | null | undefined): string | null =>
  text ? text.replace(/[\p{Cc}\p{Cs}\p{NChar}]/gu, '\ufffd') : null;

for (const mode of modes)
  describe(`CloudEvents in ${mode} mode`, function () {
    this.timeout(60_000);

    it('any envelope is a valid CloudEvent, and comes back whole', () => {
      const text = fc.option(fc.string({ unit: 'binary', maxLength: 20 }));
      const odd = fc.constantFrom('\ud800', '\u0000\u001f', '\u007f\u009f', '\ufdd0', '\u{1fffe}', '😀', '');
      const any = fc.oneof(text, odd);
      const tags = fc.dictionary(fc.oneof(fc.string(), odd), fc.oneof(fc.string({ unit: 'binary' }), odd));
      const origin = fc.record({
        ...{ userId: any, sessionId: any, correlationId: any, clientIp: any, tags: fc.option(tags) },
      });
      const given = fc.record({
        origin,
        payload: fc.dictionary(fc.string(), fc.jsonValue()),
        key: fc.option(fc.oneof(fc.string({ unit: 'binary' }), odd), { nil: undefined }),
        severity: fc.constantFrom<Severity>('INFO', 'WARN', 'ERROR', 'CRITICAL'),
        serviceName: any,
      });
      fc.assert(
        fc.property(given, ({ key, ...rest }) => {
          const event = eventOf(mode, { ...rest, record: { key } });
          const record = toRecord(event, publishedMs);
          const written = Buffer.alloc(record.valueBytes ?? 0);
          record.writeValue?.(written, 0);
          assert.ok(record.value.equals(written));
          const { attributes, data } = readWithJavaScript(record);
          const payload = JSON.parse(JSON.stringify(rest.payload));
          assert.deepEqual(data, payload);
          assert.equal(attributes.subject ?? null, attribute(key));
          const { userId, sessionId, correlationId, clientIp, tags } = rest.origin;
          assert.deepEqual(readEnvelope(record), {
            ...{ eventId: '7', eventType: 'ORDER', severity: rest.severity, payload },
            ...{ occurredAt: '2026-11-25T09:00:00.000Z', publishedAt: '2026-11-25T09:00:00.007Z' },
            metadata: {
              source: { serviceName: attribute(rest.serviceName), serviceVersion: null, hostname: null },
              actor: { userId: attribute(userId), sessionId: attribute(sessionId) },
              trace,
              ...{ correlationId: attribute(correlationId), clientIp: attribute(clientIp) },
              tags: JSON.parse(JSON.stringify(tags ?? {})),
            },
          });
          for (const [name, value] of Object.entries(attributes)) {
            assert.match(name, /^[a-z0-9]{1,20}$/);
            assert.doesNotMatch(String(value), /[\p{Cc}\p{Cs}\p{NChar}]/u);
            assert.notEqual(value, '');
          }
          const { headers, valueBytes } = record;
          const size = Object.entries(headers).reduce(
            (sum, each) => sum + Buffer.byteLength(each.join('')),
            Buffer.byteLength(event.key) + (valueBytes ?? 0),
          );
          assert.ok(size <= bytesOf(event), `${size} of ${bytesOf(event)}`);
        }),
      );
    });

    it('refuses a type and a header that no CloudEvent can have, and says nothing of their values', () => {
      const refusal = (given: Given) => {
        try {
          eventOf(mode, given);
        } catch (error) {
          const { code, message } = error as { code?: string; message: string };
          return `${code}: ${message}`;
        }
        return undefined;
      };
      for (const eventType of ['a\nb', 'a\u0000', '\ud800', '\ufdd0'])
        assert.match(refusal({ eventType }) ?? '', /^SVC_SERIALIZE_CLOUDEVENT: .*its event type holds/);
      for (const name of ['ce_id', 'CE_x', 'ce_'])
        assert.match(
          refusal({ record: { headers: { [name]: 'secret' } } }) ?? '',
          /^SVC_SERIALIZE_CLOUDEVENT: (?!.*secret).*begins with ce_/,
        );
      for (const eventType of [' ', 'ORDER CREATED', 'é😀', '"\\', 'com.example.order/v1'])
        assert.equal(refusal({ eventType, record: { headers: { ce: '1', 'x-ce_id': '2' } } }), undefined);
    });

    it('decryptFields opens it as the SDK gives it, and as readEnvelope does', async () => {
      const keys = [{ id: 'k1', key: randomBytes(32).toString('base64') }];
      const cipherText = createSealer({ keys, format: 'v1' }).encrypt('a@b.example', {
        ...{ keyId: undefined, eventType: 'ORDER', path: 'email' },
      });
      const { key, headers, value } = toRecord(
        eventOf(mode, { payload: { email: cipherText }, sealed: [cipherText] }),
        publishedMs,
      );
      const opened = createDecryptionKeys({ keys });
      const event = Kafka.toEvent({ key, headers, value: value.toString() } as never) as CloudEvent;
      assert.deepEqual((await decryptFields(event, opened)).data, { email: 'a@b.example' });
      const envelope = readEnvelope<{ payload: unknown }>({ headers, value });
      assert.deepEqual((await decryptFields(envelope, opened)).payload, { email: 'a@b.example' });
      const other = new CloudEvent({ source: '/orders', type: 'OTHER', data: { email: cipherText } });
      await assert.rejects(decryptFields(other, opened), { code: 'SVC_PROTECT_DECRYPT_FAILED' });
    });
  });

describe('readEnvelope', () => {
  const data = { a: 1 };
  const foreign = new CloudEvent({
    id: '1',
    source: '/bank',
    type: 'PAID',
    time: '2026-11-25T09:00:00+01:00',
    data,
  });
  const expected = {
    ...{ eventId: '1', eventType: 'PAID', severity: 'INFO', payload: data },
    ...{ occurredAt: '2026-11-25T08:00:00.000Z', publishedAt: '2026-11-25T09:00:00.007Z' },
    metadata: {
      source: { serviceName: null, serviceVersion: null, hostname: null },
      actor: { userId: null, sessionId: null },
      trace: { traceId: null, spanId: null, parentSpanId: null },
      ...{ correlationId: null, clientIp: null, tags: {} },
    },
  };

  it('reads what the SDK writes, in the types of each client', () => {
    const binary = Kafka.binary(foreign);
    const structured = Kafka.structured(foreign);
    const bytes = (text: unknown) => Buffer.from(String(text));
    const written = Object.entries(binary.headers).filter(([, text]) => text !== undefined);
    const records = [
      { value: JSON.stringify(binary.value), headers: binary.headers },
      { value: Buffer.from(String(structured.value)), headers: structured.headers },
      // kafkajs, @platformatic/kafka.
      {
        value: Buffer.from(JSON.stringify(data)),
        headers: Object.fromEntries(written.map(([name, text]) => [name, [bytes(text), bytes('other')]])),
      },
      {
        value: Buffer.from(JSON.stringify(data)),
        headers: new Map(written.map(([name, text]) => [bytes(name), bytes(text)])),
      },
    ];
    for (const record of records)
      for (const timestamp of [publishedMs, BigInt(publishedMs), String(publishedMs)])
        assert.deepEqual(readEnvelope({ ...record, timestamp }), expected);
    assert.deepEqual(readEnvelope({ value: '{"eventId":"1"}' }), { eventId: '1' });
  });

  it('takes a dead letter for no CloudEvent, whatever event it is of', () => {
    const headers = { ...Kafka.binary(foreign).headers, originalTopic: 'orders' };
    assert.deepEqual(readEnvelope({ value: '{"originalPayload":"{}"}', headers }), { originalPayload: '{}' });
  });

  it('says what it cannot read, and nothing of it', () => {
    const type = { 'content-type': 'Application/CloudEvents+json' };
    const wrong: [value: string | null, headers: object | undefined, says: RegExp][] = [
      ['secret', undefined, /not the JSON of an object/],
      [null, undefined, /not the JSON of an object/],
      ['[{"secret":1}]', { 'content-type': 'application/cloudevents-batch+json' }, /is a batch/],
      ['{"id":"secret"}', type, /lacks id, type, source or specversion/],
      [
        JSON.stringify({ ...foreign, data: undefined, data_base64: 'c2VjcmV0' }),
        type,
        /data of its CloudEvent is not JSON/,
      ],
    ];
    for (const [value, headers, message] of wrong)
      assert.throws(
        () => readEnvelope({ value, headers }),
        (error: { code?: string; message: string }) =>
          error.code === 'SVC_CONSUMER_NOT_AN_ENVELOPE' &&
          message.test(error.message) &&
          !error.message.includes('secret'),
      );
  });
});
