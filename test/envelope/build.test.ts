import assert from 'node:assert/strict';
import type { Context } from '@opentelemetry/api';
import { createTraceStarter } from '../../src/context/context-store.ts';
import { createOriginReader } from '../../src/context/origin.ts';
import { readSource } from '../../src/context/source.ts';
import { createEnvelopes } from '../../src/envelope/envelope.ts';

const source = { serviceName: 'or"ders', serviceVersion: null, hostname: 'höst' };
const event = { eventType: 'ORDER "CREATED"\n', severity: 'WARN' } as const;
const trace = { traceId: null, spanId: null, parentSpanId: null };
const origin = { userId: 'u', sessionId: null, correlationId: null, clientIp: null, tags: null };

/** The constant parts of events from this source. */
function templateOf(from: typeof source, given: { eventType: string; severity: 'INFO' | 'WARN' }) {
  const build = createEnvelopes({ source: from, readOrigin: () => origin });
  return build('1', { ...given, payload: {} }, trace, 0).template;
}

describe('the template of an envelope', () => {
  it('holds the parts of the JSON text that never change', () => {
    const template = templateOf(source, event);
    const rest = 'null,"sessionId":null}}}';
    const text = `{"eventId":"1"${template.afterEventId}2026${template.afterPublishedAt.replace(/^/, '","publishedAt":"2026')}${rest}`;
    assert.deepEqual(JSON.parse(text), {
      eventId: '1',
      eventType: 'ORDER "CREATED"\n',
      occurredAt: '2026',
      publishedAt: '2026',
      severity: 'WARN',
      metadata: { source, actor: { userId: null, sessionId: null } },
    });
  });

  it('looks as its contract says', () => {
    const plain = templateOf({ ...source, serviceName: 's' }, { eventType: 'A', severity: 'INFO' });
    assert.equal(plain.afterEventId, ',"eventType":"A","occurredAt":"');
    assert.equal(
      plain.afterPublishedAt,
      '","severity":"INFO","metadata":{"source":{"serviceName":"s","serviceVersion":null,"hostname":"höst"},"actor":{"userId":',
    );
  });

  it('takes nothing but the three fields of the source', () => {
    const withSecret = { ...source, secret: 'x' } as typeof source;
    const more = templateOf(withSecret, { eventType: 'A', severity: 'INFO' });
    assert.ok(!more.afterPublishedAt.includes('secret'));
  });
});

describe('createEnvelopes', () => {
  const build = createEnvelopes({ source, readOrigin: () => origin });

  it('puts an event together', () => {
    const payload = { a: 1 };
    const envelope = build('7', { ...event, payload }, trace, Date.UTC(2026, 2, 4));
    assert.deepEqual(envelope, {
      eventId: '7',
      template: templateOf(source, event),
      occurredAt: '2026-03-04T00:00:00.000Z',
      trace,
      origin,
      payload,
    });
    assert.equal(envelope.payload, payload);
  });

  it('reads the origin in the context of the call', () => {
    const seen: unknown[] = [];
    const readOrigin = (context?: string) => {
      seen.push(context);
      return origin;
    };
    createEnvelopes<string>({ source, readOrigin })(
      '1',
      { ...event, payload: {}, context: 'then' },
      trace,
      0,
    );
    assert.deepEqual(seen, ['then']);
  });

  it('takes what the context modules give (types)', () => {
    const real = createEnvelopes<Context>({ source: readSource(), readOrigin: createOriginReader() });
    const published = createTraceStarter('kafka')('orders', '1', undefined);
    const envelope = real('1', { ...event, payload: {} }, published, 0);
    assert.match(envelope.trace.traceId ?? '', /^[0-9a-f]{32}$/);
    assert.equal(envelope.origin.userId, null);
  });
});
