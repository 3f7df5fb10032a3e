import assert from 'node:assert/strict';
import { SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { ATTR_ERROR_TYPE } from '@opentelemetry/semantic-conventions';
import {
  ATTR_MESSAGING_DESTINATION_NAME,
  ATTR_MESSAGING_MESSAGE_ID,
  ATTR_MESSAGING_OPERATION_NAME,
  ATTR_MESSAGING_OPERATION_TYPE,
  ATTR_MESSAGING_SYSTEM,
  MESSAGING_OPERATION_TYPE_VALUE_SEND,
  MESSAGING_SYSTEM_VALUE_KAFKA,
} from '@opentelemetry/semantic-conventions/incubating';
import { createTraceStarter } from '../../../src/context/context-store.ts';

// svc writes the names itself, as the package would be one more to load: here they are held against it.
describe('the span of an event, by the semantic conventions', () => {
  const exporter = new InMemorySpanExporter();

  before(() => {
    trace.disable();
    trace.setGlobalTracerProvider(
      new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }),
    );
  });
  afterEach(() => exporter.reset());
  after(() => trace.disable());

  const sent = {
    [ATTR_MESSAGING_SYSTEM]: MESSAGING_SYSTEM_VALUE_KAFKA,
    [ATTR_MESSAGING_DESTINATION_NAME]: 'orders',
    [ATTR_MESSAGING_OPERATION_NAME]: 'send',
    [ATTR_MESSAGING_OPERATION_TYPE]: MESSAGING_OPERATION_TYPE_VALUE_SEND,
    [ATTR_MESSAGING_MESSAGE_ID]: '382448737393414144',
  };

  it('is that of a producer: its name, kind and attributes, and none beside them', () => {
    createTraceStarter('kafka')('orders', '382448737393414144', undefined).end('published');
    const [span] = exporter.getFinishedSpans();
    assert.deepEqual(
      [span?.name, span?.kind, span?.status.code, span?.attributes],
      [`${sent[ATTR_MESSAGING_OPERATION_NAME]} orders`, SpanKind.PRODUCER, SpanStatusCode.UNSET, sent],
    );
  });

  it('names the outcome as the type of its error', () => {
    createTraceStarter('kafka')('orders', '382448737393414144', undefined).end('lost');
    const [span] = exporter.getFinishedSpans();
    assert.equal(span?.status.code, SpanStatusCode.ERROR);
    assert.deepEqual(span?.attributes, { ...sent, [ATTR_ERROR_TYPE]: 'lost' });
  });
});
