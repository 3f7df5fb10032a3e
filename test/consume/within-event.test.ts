import assert from 'node:assert/strict';
import * as api from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { createTraceStarter, currentStore } from '../../src/context/context-store.ts';
import { handling } from './handling-under-test.ts';
import { envelope } from './on-kafka.ts';

const traceId = 'a'.repeat(32);
const spanId = 'b'.repeat(16);
const consumed = {
  ...{ topic: 'orders', partition: 2, offset: 7n, key: 'k', timestamp: 0 },
  headers: { traceparent: `00-${traceId}-${spanId}-01`, tracestate: 'vendor=1' },
};

/** The trace of an event that is published now. */
const traceOfEvent = () => createTraceStarter('kafka')('orders', '4711', undefined);

/** Handles an event, and tells what its handler returned. */
async function handle<R>(event: object, handler: () => Promise<R>): Promise<R | undefined> {
  let returned: R | undefined;
  const work = async (): Promise<void> => {
    returned = await handler();
  };
  await handling({ consumer: 'billing', handlers: new Map([['*', work]]) }).take(event, consumed);
  return returned;
}

describe('what runs within an event', () => {
  afterEach(() => {
    api.trace.disable();
    api.context.disable();
  });

  it('has its actor, correlation id and tags, and continues its trace without a tracer', async () => {
    const event = envelope('1', {
      metadata: { ...envelope('1').metadata, tags: { tenant: 'acme' } },
    });
    const found = await handle(event, async () => {
      await null;
      return { added: currentStore()?.added, trace: traceOfEvent() };
    });
    assert.ok(found !== undefined);
    const { added, trace } = found;
    assert.deepEqual(added, {
      ...{ userId: 'u-1', sessionId: 's-1', correlationId: 'c-1', tags: { tenant: 'acme' } },
    });
    assert.deepEqual([trace.traceId, trace.parentSpanId, trace.tracestate], [traceId, spanId, 'vendor=1']);
    assert.equal(currentStore(), undefined);
  });

  it('is a consumer span, whose parent is the producer, and whose trace events within carry', async () => {
    const exporter = new InMemorySpanExporter();
    const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
    api.trace.setGlobalTracerProvider(provider);
    api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    const trace = await handle(envelope('1'), async () => traceOfEvent());
    await handle(envelope('2'), async () => {
      throw new TypeError('secret of jane@example.com');
    });
    const [done, failed] = exporter.getFinishedSpans();
    assert.ok(done !== undefined && failed !== undefined);
    assert.deepEqual([done.name, done.kind], ['process orders', api.SpanKind.CONSUMER]);
    const { traceId: found, spanId: own } = done.spanContext();
    assert.deepEqual([found, done.parentSpanContext?.spanId], [traceId, spanId]);
    assert.deepEqual([trace?.traceId, trace?.parentSpanId], [traceId, own]);
    assert.deepEqual(
      [done.attributes['messaging.message.id'], done.attributes['messaging.destination.partition.id']],
      ['1', '2'],
    );
    assert.deepEqual([failed.status, failed.attributes['error.type']], [{ code: 2 }, 'TypeError']);
    assert.doesNotMatch(JSON.stringify([failed.attributes, failed.events, failed.status]), /jane/);
  });
});
