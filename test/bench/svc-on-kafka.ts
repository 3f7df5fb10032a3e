import { createKafkajsBroker } from '../../src/adapters/kafkajs/kafkajs-broker.ts';
import { makeRule } from '../../src/capture/make-rule.ts';
import type { CaptureSlot } from '../../src/capture/slot.ts';
import { wrapFunction } from '../../src/capture/wrap.ts';
import { systemClock } from '../../src/clock.ts';
import { createTraceStarter } from '../../src/context/event-trace.ts';
import { createOriginReader } from '../../src/context/origin.ts';
import { createEnvelopeBuilder } from '../../src/envelope/build.ts';
import { createSnowflake } from '../../src/envelope/snowflake.ts';
import { createTemplate } from '../../src/envelope/template.ts';
import { startOwnWork } from '../../src/lifecycle.ts';
import { createPublishDurations } from '../../src/observe/durations.ts';
import { createLedger } from '../../src/observe/outcomes.ts';
import { withoutSpans } from '../../src/observe/spans.ts';
import { createPipeline } from '../../src/pipeline.ts';
import { createSealer } from '../../src/protect/create-sealer.ts';
import { createPolicies } from '../../src/protect/policies.ts';
import { createProtector } from '../../src/protect/protect.ts';
import { defaultBreaker } from '../../src/publish/breaker.ts';
import { createQueue } from '../../src/publish/queue.ts';
import { createRetryPolicy } from '../../src/publish/retry.ts';
import { jsonSerializer } from '../../src/serialize/json.ts';
import { payload } from './payload.ts';

const logger = { debug() {}, info() {}, warn() {}, error() {} };

export interface SvcOnKafka {
  /** A captured function: its call is an event. */
  readonly createOrder: () => Promise<unknown>;
  readonly outstanding: () => number;
  /** Sends so far. */
  readonly sends: () => number;
  close(): Promise<void>;
}

/** What `start.ts` builds, with its defaults; an event that is not published ends the measurement. */
export function svcOnKafka(brokers: readonly string[], topic: string, asyncMode: boolean): SvcOnKafka {
  const ledger = createLedger();
  const source = { serviceName: 'orders', serviceVersion: '1.4.0', hostname: 'host-1' };
  const template = createTemplate({ eventType: 'ORDER_CREATED', severity: 'INFO', source });
  const snowflake = createSnowflake({ workerId: 1, clock: systemClock });
  const broker = createKafkajsBroker({
    brokers,
    clientId: 'svc',
    requestTimeoutMs: 30_000,
    connectionTimeoutMs: 3_000,
    logger,
  });
  let sends = 0;
  const queue = createQueue({
    broker: {
      partitionsFor: broker.partitionsFor,
      send: (name, partition, records) => {
        sends++;
        return broker.send(name, partition, records);
      },
    },
    topic,
    batch: { maxEvents: 500, maxBytes: 900_000, lingerMs: asyncMode ? 5 : 0 },
    buffer: { maxEvents: 10_000, maxBytes: 33_554_432 },
    maxInFlight: 8,
    deliveryTimeoutMs: 30_000,
    retry: createRetryPolicy({
      ...{ enabled: true, maxAttempts: 3, initialIntervalMs: 1_000 },
      ...{ multiplier: 2, maxIntervalMs: 10_000, jitter: false },
    }),
    breaker: defaultBreaker,
    clock: systemClock,
    logger,
    isolate: (work) => startOwnWork(() => withoutSpans(work)),
    next: ({ failure }) => {
      throw new Error(failure.message);
    },
    onSendFailed: ledger.brokerFailed,
    onRetried: ledger.retried,
  });
  const { onCall } = createPipeline({
    clock: systemClock,
    ledger,
    durations: createPublishDurations(),
    serializer: jsonSerializer,
    publisher: queue,
    defaultTopic: topic,
    asyncMode,
    protect: createProtector({ policyOf: createPolicies([]).policyOf, sealer: createSealer({}) }),
    templateOf: () => template,
    nextId: () => snowflake.next(),
    buildEnvelope: createEnvelopeBuilder({ readOrigin: createOriginReader() }),
    startTrace: createTraceStarter('kafka'),
    onRefused: (_, error) => {
      throw error;
    },
  });
  const rule = makeRule('bench#createOrder', 'configuration', { eventType: 'ORDER_CREATED' }, '', []);
  const slot: CaptureSlot = { rule, onCall, calls: 0 };
  return {
    createOrder: wrapFunction(async () => payload, slot),
    outstanding: () => queue.state().events,
    sends: () => sends,
    async close() {
      await queue.close(10_000);
      await broker.close(1_000);
    },
  };
}
