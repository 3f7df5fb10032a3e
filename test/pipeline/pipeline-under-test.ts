import { createEnvelopes } from '../../src/envelope/envelope.ts';
import { createLedger, createPublishDurations, type Outcome } from '../../src/observe/outcomes.ts';
import { createPipeline } from '../../src/pipeline/pipeline.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import { createPolicies } from '../../src/protect/marks/policy.ts';
import { createProtector } from '../../src/protect/protect.ts';
import { jsonSerializer, type SerializedEvent } from '../../src/serialize/serializer.ts';

/** Whoever waits for an event keeps the process alive. */
const unsettled: ((outcome: Outcome) => void)[] = [];

/** Gives each event that still waits its outcome. */
export function settleAll(): void {
  for (const settle of unsettled.splice(0)) settle('published');
}

/** A pipeline whose publisher keeps the events until a test settles them. */
export function pipelineWith(options: Partial<Parameters<typeof createPipeline>[0]> = {}) {
  const taken: { event: SerializedEvent; settle: (outcome: Outcome) => void }[] = [];
  const refused: [string, string][] = [];
  const ended: Outcome[] = [];
  const broken: [eventId: string, error: unknown][] = [];
  const ledger = createLedger();
  let ids = 100;
  const pipeline = createPipeline({
    ledger,
    durations: createPublishDurations(),
    serializer: jsonSerializer,
    publisher: {
      publish: (event) =>
        new Promise((settle) => {
          unsettled.push(settle);
          taken.push({ event, settle });
        }),
    },
    defaultTopic: 'main',
    asyncMode: false,
    maxWaitMs: 2_000,
    publishWaitMs: 32_000,
    nextId: () => String(ids++),
    buildEnvelope: createEnvelopes({
      source: { serviceName: 'orders', serviceVersion: null, hostname: 'h"1' },
      readOrigin: () => ({
        userId: 'u"1',
        sessionId: null,
        correlationId: 'c',
        clientIp: null,
        tags: { region: 'eu' },
      }),
    }),
    startTrace: () => ({
      traceId: 'a'.repeat(32),
      spanId: 'b'.repeat(16),
      parentSpanId: null,
      traceparent: '00-a-b-01',
      tracestate: undefined,
      end: (outcome) => ended.push(outcome),
    }),
    protect: createProtector({
      policyOf: createPolicies({ general: [] }).policyOf,
      sealer: createSealer({}),
    }),
    usesMarks: true,
    onRefused: (eventType, error) => refused.push([eventType, error.code]),
    onBroken: ({ eventId }, error) => broken.push([eventId, error]),
    ...options,
  });
  return Object.assign(pipeline, { taken, refused, ended, broken, ledger });
}
