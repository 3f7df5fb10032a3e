import type { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { contextStorage, createScope } from '../context/context-store.ts';
import { runWithContext } from '../context/run-with-context.ts';
import { parseTraceparent } from '../context/trace/trace.ts';
import { activeTracer } from '../context/trace/tracer.ts';
import { otelApi } from '../observe/otel-api.ts';
import type { ConsumedEvent, ConsumedRecord } from './consumed-event.ts';
import { nameOf } from './database-fault.ts';

// The API's constants, as numbers: reading them from the module would load it.
const consumerKind: SpanKind.CONSUMER = 4;
const errorStatus: SpanStatusCode.ERROR = 2;

/**
 * Runs what belongs to an event in its trace, with its actor, correlation id and tags in svc's context, so that what is published in
 * there carries them. With a tracer it is a span of kind CONSUMER, whose parent is the producer's.
 */
export async function withinEvent<R>(
  record: ConsumedRecord,
  event: ConsumedEvent,
  consumer: string,
  work: () => Promise<R>,
): Promise<R> {
  const { actor, correlationId, tags } = event.metadata;
  const values = {
    ...{ userId: actor?.userId ?? null, sessionId: actor?.sessionId ?? null },
    ...{ correlationId: correlationId ?? null, tags: tags ?? null },
  };
  const { traceparent, tracestate } = traceHeaders(record);
  const scope = createScope(null, { traceparent, tracestate }, undefined);
  return contextStorage().run({ scope, added: null }, () =>
    runWithContext(values, () => spanned(record, event, consumer, work)),
  );
}

async function spanned<R>(
  record: ConsumedRecord,
  { eventId }: ConsumedEvent,
  consumer: string,
  work: () => Promise<R>,
): Promise<R> {
  const tracer = activeTracer();
  const api = otelApi();
  if (tracer === undefined || api === undefined) return work();
  const { topic, partition, offset } = record;
  const { traceparent, tracestate } = traceHeaders(record);
  const remote = parseTraceparent(traceparent ?? null);
  let parent = api.ROOT_CONTEXT;
  if (remote !== null)
    parent = api.trace.setSpanContext(parent, {
      ...{ traceId: remote.traceId, spanId: remote.spanId, traceFlags: remote.traceFlags, isRemote: true },
      ...(tracestate !== undefined && { traceState: api.createTraceState(tracestate) }),
    });
  const attributes = {
    ...{ 'messaging.system': 'kafka', 'messaging.destination.name': topic },
    ...{ 'messaging.operation.name': 'process', 'messaging.operation.type': 'process' },
    ...{ 'messaging.destination.partition.id': String(partition), 'messaging.kafka.offset': Number(offset) },
    ...{ 'messaging.message.id': eventId, 'messaging.client.id': consumer },
  };
  const span = tracer.startSpan(`process ${topic}`, { kind: consumerKind, attributes }, parent);
  try {
    return await api.context.with(api.trace.setSpan(parent, span), work);
  } catch (error) {
    span.setAttribute('error.type', nameOf(error));
    span.setStatus({ code: errorStatus });
    throw error;
  } finally {
    span.end();
  }
}

/** Those of the record, or of a CloudEvent that another producer has written. */
function traceHeaders({ headers }: ConsumedRecord): TraceHeaders {
  const { traceparent, tracestate, ce_traceparent, ce_tracestate } = headers;
  return traceparent === undefined
    ? { traceparent: ce_traceparent, tracestate: ce_tracestate }
    : { traceparent, tracestate };
}

interface TraceHeaders {
  readonly traceparent: string | undefined;
  readonly tracestate: string | undefined;
}
