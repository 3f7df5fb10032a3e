import assert from 'node:assert/strict';
import { createEnvelopes } from '../../src/envelope/envelope.ts';
import type { Severity } from '../../src/ground/event-fields.ts';

describe('envelope templates', () => {
  const templates = () => {
    const source = { serviceName: 'orders', serviceVersion: null, hostname: 'host-1' };
    const origin = { userId: null, sessionId: null, correlationId: null, clientIp: null, tags: null };
    const trace = { traceId: null, spanId: null, parentSpanId: null };
    const build = createEnvelopes({ source, readOrigin: () => origin });
    return (eventType: string, severity: Severity) =>
      build('1', { eventType, severity, payload: {} }, trace, 0).template;
  };

  it('are made once for each event type and severity', () => {
    const templateOf = templates();
    const info = templateOf('ORDER_CREATED', 'INFO');
    const error = templateOf('ORDER_CREATED', 'ERROR');
    assert.equal(templateOf('ORDER_CREATED', 'INFO'), info);
    assert.equal(templateOf('ORDER_CREATED', 'ERROR'), error);
    assert.match(info.afterPublishedAt, /"severity":"INFO"/);
    assert.match(error.afterPublishedAt, /"severity":"ERROR"/);
  });

  it('are kept for 1,000 of them, over all severities; the others are right as well', () => {
    const templateOf = templates();
    for (let id = 1; id < 1_000; id++) templateOf(`T${id}`, 'INFO');
    const last = templateOf('T1', 'WARN');
    assert.equal(templateOf('T1', 'WARN'), last);
    const beyond = templateOf('T2', 'WARN');
    assert.notEqual(templateOf('T2', 'WARN'), beyond);
    assert.deepEqual(templateOf('T2', 'WARN'), beyond);
    assert.match(beyond.afterEventId, /"eventType":"T2"/);
  });
});
