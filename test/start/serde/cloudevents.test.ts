import assert from 'node:assert/strict';
import { loadConfig } from '../../../src/config/read/load.ts';
import { hasFormat } from '../../../src/config/schema/schema.ts';
import { createEnvelopes } from '../../../src/envelope/envelope.ts';
import type { ProtectedEnvelope } from '../../../src/protect/protect.ts';
import { openSerde } from '../../../src/start/serde.ts';

/** The attribute `source` of the events of a service. */
function sourceOf(serviceName: string | null, cloudevents: object = {}): string | undefined {
  const { config, problems } = loadConfig({
    env: {},
    code: { svc: { broker: { topic: 't' }, serde: { envelope: 'cloudevents', cloudevents } } },
  });
  assert.deepEqual(problems, []);
  const source = { serviceName, serviceVersion: null, hostname: null };
  const origin = { userId: null, sessionId: null, correlationId: null, clientIp: null, tags: null };
  const trace = { traceId: null, spanId: null, parentSpanId: null };
  const build = createEnvelopes({ source, readOrigin: () => origin });
  const event = { eventType: 'A', severity: 'INFO', payload: {} } as const;
  const envelope = { ...build('1', event, trace, Date.UTC(2026, 10, 25)), sealed: [] };
  const { form } = openSerde(config)
    .serializerOf(source)
    .serialize(envelope as object as ProtectedEnvelope, { topic: 't', trace: { traceparent: '-' } });
  return form.headers.ce_source;
}

describe('the source of CloudEvents', () => {
  it('is the one that is given', () => {
    assert.equal(sourceOf('orders', { source: 'https://example.com/orders' }), 'https://example.com/orders');
  });

  it('is made of the name of the service, and always a URI-reference', () => {
    const names: [name: string | null, source: string][] = [
      ['orders', '/orders'],
      ['@acme/orders', '/@acme/orders'],
      ['Bestellung & Co: ü', '/Bestellung%20%26%20Co%3A%20%C3%BC'],
      ['//evil.example//x', '/evil.example/x'],
      ['/', '/'],
      ['\ud800', '/%EF%BF%BD'],
      [null, '/unknown_service'],
    ];
    for (const [name, source] of names) {
      assert.equal(sourceOf(name), source);
      assert.ok(hasFormat('uri-reference', source), source);
    }
  });
});
