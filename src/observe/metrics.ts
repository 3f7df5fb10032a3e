import type * as OpenTelemetry from '@opentelemetry/api';
import { clock } from '../ground/clock.ts';
import { version } from '../ground/version.ts';
import { logger } from './logger.ts';
import { listenToMeters } from './otel-api.ts';
import {
  allConsumed,
  type ConsumedRow,
  consumedOutcomes,
  durationBoundsSeconds,
  type EventTypeCounts,
  type Ledger,
  type Outcome,
  outcomes,
  outcomeTable,
  type PublishDurations,
  type RecentDlqEvent,
  sendFailureKinds,
  type TargetState,
  targetStates,
} from './outcomes.ts';

const runningStates = Object.keys(targetStates).filter((state) => state !== 'found');

/** One captured function, as the capture report shows it. */
export interface CaptureTarget {
  /** As configured, such as `./src/orders.ts#createOrder`. */
  readonly target: string;
  readonly state: TargetState;
  /** Completed calls, `failed` and `skipped` included. */
  readonly calls: number;
  readonly failed: number;
  readonly skipped: number;
  /** Why it failed or is unloaded; for people. */
  readonly reason?: string | undefined;
  readonly notes?: readonly string[];
}

/** Events in memory that the broker has not acknowledged. */
export interface BufferState {
  readonly events: number;
  readonly bytes: number;
  /** Events that found the buffer full. */
  readonly overflows: number;
}

/** The local backup as this process knows it: changes of other processes are counted periodically. */
export interface BackupState {
  readonly files: number;
  readonly events: number;
  readonly bytes: number;
  /** Events that no topic accepts, in `too-large/`: an operator must handle them. */
  readonly tooLarge: number;
  /** Events that this process sent from the backup to their topics. */
  readonly drained: number;
  /** Age of the oldest event that new events queue behind, in milliseconds; 0 if new events do not queue. */
  readonly oldestMs: number;
  /** Why the folder cannot be used; one line. `null`: it can. Missing: no local backup is configured. */
  readonly problem?: string | null;
}

interface WorkerState {
  readonly workerId: number;
  /** Such as `kafka` or `host`. */
  readonly source: string;
}

/** The outbox as this process knows it. `null`: unknown, or not configured. */
export interface OutboxState {
  /** PENDING rows. */
  pending(): number | null;
  /** Age of the oldest of them, in milliseconds. */
  oldestPendingMs(): number | null;
  /** FAILED rows: they are not sent until an operator acts. */
  failed(): number | null;
  /** When the relay of this process last sent a row to its topic, as Unix time in milliseconds. */
  lastRelayedMs(): number | null;
  /** Events of transactions whose COMMIT was not answered, or not seen. */
  unconfirmed(): number;
  /** Events that were stored without a transaction of their call. */
  unjoined(): number;
  /** As {@link MetricSources.circuit}; `null` if no relay runs in this process. */
  circuit(): number | null;
}

export interface MetricSources {
  readonly ledger: Ledger;
  readonly durations: PublishDurations;
  /** 0 closed, 1 open, 2 half-open. */
  circuit(): number;
  buffer(): BufferState;
  backup(): BackupState;
  /** `undefined` if ids have no worker id. */
  worker(): WorkerState | undefined;
  captureTargets(): readonly CaptureTarget[];
  /** The throttle time of the last quota response of a broker, in milliseconds; 0 when it is over. Missing: unknown. */
  throttledMs?(): number;
  /** When the broker last acknowledged an event of a call; `null`: never. */
  lastPublishedMs(): number | null;
  /** Dead letters that are not recovered yet, as last counted; `null`: unknown. May trigger a new count in the background. */
  dlqWaiting(): number | null;
  /** Newest first, {@link maxRecentDlqEvents} at most. */
  recentDlqEvents(): readonly RecentDlqEvent[];
  /** Missing without an outbox. */
  readonly outbox?: OutboxState | undefined;
}

type Attributes = Readonly<Record<string, string>>;
type Observe = (value: number, attributes: Attributes) => void;

interface Named {
  readonly name: string;
  /** Second name in the specification. Exported as well, unless both have one name in Prometheus. */
  readonly alias?: string;
  /** Name in the Prometheus text format, without `_bucket`, `_sum` and `_count`. */
  readonly prometheusName: string;
  readonly prometheusAlias?: string;
  /** UCUM. */
  readonly unit: string;
  readonly description: string;
  /** Attribute keys, which are the labels in Prometheus. */
  readonly attributeKeys: readonly string[];
}

/** Read from the sources at each collection. */
export interface ObservedInstrument extends Named {
  readonly kind: 'counter' | 'upDownCounter' | 'gauge';
  read(sources: MetricSources, observe: Observe): void;
}

/** Recorded per event, in seconds. */
interface DurationInstrument extends Named {
  readonly kind: 'histogram';
}

/** OpenTelemetry names of an instrument. An alias with the same Prometheus name is left out: it would be scraped twice. */
function exportedNames(instrument: ObservedInstrument): readonly string[] {
  return instrument.alias !== undefined && instrument.prometheusAlias !== undefined
    ? [instrument.name, instrument.alias]
    : [instrument.name];
}

/** They have no series without `consumeOnce` in the process. */
const consumedInstruments: readonly ObservedInstrument[] = [
  {
    ...{ name: 'svc.consumer.events', prometheusName: 'svc_consumer_events_total', kind: 'counter' },
    unit: '{event}',
    description: 'Events that consumeOnce() received, by result.',
    attributeKeys: ['consumer', 'eventType', 'outcome'],
    read(_, observe) {
      for (const row of allRows())
        for (const outcome of consumedOutcomes) observe(row[outcome], { ...row.attributes, outcome });
    },
  },
  rowCounter('retries', '{retry}', 'Tries after the first one of an event.', (row) => row.retries),
  rowCounter(
    'handler.seconds',
    's',
    'Time in handlers, with their transactions. Its rate is the number of handlers at work.',
    (row) => row.seconds,
  ),
  {
    ...{ name: 'svc.consumer.waiting', prometheusName: 'svc_consumer_waiting', kind: 'gauge' },
    unit: '{partition}',
    description: 'Partitions that wait for another try, or for a handler that exceeds its time limit.',
    attributeKeys: ['consumer'],
    read(_, observe) {
      for (const [consumer, { waiting }] of allConsumed()) observe(waiting, { consumer });
    },
  },
];

function rowCounter(
  what: string,
  unit: string,
  description: string,
  count: (row: ConsumedRow) => number,
): ObservedInstrument {
  const name = `svc.consumer.${what}`;
  return {
    ...{ name, prometheusName: `${name.replaceAll('.', '_')}_total`, kind: 'counter', unit, description },
    attributeKeys: ['consumer', 'eventType'],
    read(_, observe) {
      for (const row of allRows()) observe(count(row), row.attributes);
    },
  };
}

function* allRows(): Iterable<ConsumedRow> {
  for (const [, events] of allConsumed()) yield* events.all();
}

export const publishDuration: DurationInstrument = {
  name: 'svc.events.publish.duration',
  prometheusName: 'svc_events_publish_duration_seconds',
  kind: 'histogram',
  unit: 's',
  description: 'Time from the receipt of an event by the publisher to its outcome.',
  attributeKeys: ['eventType'],
};

const failures = outcomes.filter((each) => outcomeTable[each].failure !== null);

type OfEventType = Readonly<Record<string, string>>;

/** The labels of a row and its outcome: always the same object, as the key of their cached text. */
const withOutcome = { published: adding('published'), failed: adding('failed') };

function adding(outcome: string): (attributes: OfEventType) => OfEventType {
  const made = new WeakMap<OfEventType, OfEventType>();
  return (attributes) => {
    const known = made.get(attributes) ?? Object.freeze({ ...attributes, outcome });
    made.set(attributes, known);
    return known;
  };
}

/** Every instrument of svc except the duration. `docs/metrics.md` shows the same list (tested). */
export const observedInstruments: readonly ObservedInstrument[] = [
  {
    ...{ name: 'svc.build.info', prometheusName: 'svc_build_info', kind: 'gauge', unit: '1' },
    description: 'Always 1: the versions of svc and of Node in this process.',
    attributeKeys: ['version', 'node_version'],
    read: (_, observe) => observe(1, { version, node_version: process.versions.node }),
  },
  eventCounter(
    'calls',
    'Calls whose events svc accepted: the sum of all outcomes and of the events in flight.',
    (row) => row.calls,
  ),
  outcomeCounter('published', (row) => row.published + row.relayed),
  eventCounter(
    'failed',
    `Events that did not reach their topic: ${failures.map((each) => outcomeTable[each].failure).join(', ')}, and FAILED in the outbox.`,
    (row) => failures.reduce((sum, each) => sum + row[each], row.gaveUp),
    'svc.events.failed.total',
  ),
  ...outcomes.filter((each) => each !== 'published').map((each) => outcomeCounter(each)),
  eventCounter('dlq.failed', 'Events that the dead letter topic rejected.', (row) => row.dlqFailures),
  {
    ...eventCounter('retry.count', 'Sends after the first one of an event.', (row) => row.retries),
    unit: '{retry}',
  },
  {
    ...eventCounter('in_flight', 'Events without an outcome yet.', (row) => row.inFlight),
    prometheusName: 'svc_events_in_flight',
    kind: 'upDownCounter',
  },
  gauge(
    'svc.events.last_success.timestamp.seconds',
    's',
    'Unix time of the last acknowledged event, of a call or of the outbox; missing before the first.',
    ({ lastPublishedMs, outbox }) => {
      const times = [lastPublishedMs(), outbox?.lastRelayedMs() ?? null].filter((time) => time !== null);
      return times.length === 0 ? null : Math.max(...times) / 1_000;
    },
  ),
  gauge(
    'svc.dlq.waiting',
    '{event}',
    'Dead letters in the topic that no recovery has sent yet, counted at most a minute ago; missing if the broker cannot count them.',
    ({ dlqWaiting }) => dlqWaiting(),
  ),
  {
    ...{ name: 'svc.broker.errors.total', prometheusName: 'svc_broker_errors_total', kind: 'counter' },
    unit: '{error}',
    description: 'Sends that the broker refused or that never reached it.',
    attributeKeys: ['kind'],
    read: ({ ledger }, observe) => {
      const errors = ledger.brokerErrors();
      for (const kind of sendFailureKinds) observe(errors[kind], { kind });
    },
  },
  {
    name: 'svc.circuit.state',
    prometheusName: 'svc_circuit_state',
    kind: 'gauge',
    unit: '1',
    description:
      'Circuit breaker in front of the broker, and that of the outbox: 0 closed, 1 open, 2 half-open.',
    attributeKeys: ['breaker'],
    read: ({ circuit, outbox }, observe) => {
      observe(circuit(), { breaker: 'broker' });
      const ofOutbox = outbox?.circuit() ?? null;
      if (ofOutbox !== null) observe(ofOutbox, { breaker: 'outbox' });
    },
  },
  gauge(
    'svc.broker.throttle.seconds',
    's',
    'Delay that a quota of the brokers imposes on events, as last reported; 0 when it is over.',
    ({ throttledMs }) => (throttledMs?.() ?? 0) / 1_000,
  ),
  gauge(
    'svc.buffer.events',
    '{event}',
    'Events in memory that are not acknowledged yet.',
    ({ buffer }) => buffer().events,
  ),
  gauge('svc.buffer.bytes', 'By', 'Bytes of the events in memory.', ({ buffer }) => buffer().bytes),
  counter(
    'svc.buffer.overflows',
    '{event}',
    'Events that went to the next tier because there was no room in memory.',
    ({ buffer }) => buffer().overflows,
  ),
  gauge(
    'svc.backup.usable',
    '1',
    '1 if the local backup can be used, otherwise 0, and health shows the reason. Missing without a local backup.',
    ({ backup }) => {
      const { problem } = backup();
      return problem === undefined ? null : Number(problem === null);
    },
  ),
  gauge('svc.backup.events', '{event}', 'Events that wait in the local backup.', ({ backup }) =>
    known(backup(), ({ events }) => events),
  ),
  gauge(
    'svc.backup.files',
    '{file}',
    'Files in the local backup, of one event or of many.',
    ({ backup }) => backup().files,
  ),
  gauge('svc.backup.bytes', 'By', 'Bytes of the files in the local backup.', ({ backup }) => backup().bytes),
  gauge(
    'svc.backup.too_large.events',
    '{event}',
    'Events in too-large/ of the local backup. Their topic rejects them, and nothing sends them again.',
    ({ backup }) => backup().tooLarge,
  ),
  counter(
    'svc.backup.drained',
    '{event}',
    'Events sent from the local backup to their topics.',
    ({ backup }) => backup().drained,
  ),
  gauge(
    'svc.backup.oldest.age.seconds',
    's',
    'Age of the oldest event in the local backup that new events wait behind; 0 without one.',
    ({ backup }) => known(backup(), ({ oldestMs }) => oldestMs / 1000),
  ),
  gauge(
    'svc.backup.oldest.timestamp.seconds',
    's',
    'Unix time since which that event has waited; missing without one.',
    ({ backup }) => unixTime(backup().oldestMs || null),
  ),
  gauge(
    'svc.outbox.pending',
    '{event}',
    'Events in the outbox that wait to be sent.',
    ({ outbox }) => outbox?.pending() ?? null,
  ),
  gauge(
    'svc.outbox.oldest_pending.age.seconds',
    's',
    'Age of the oldest event in the outbox that waits to be sent; 0 without one.',
    ({ outbox }) => {
      const ageMs = outbox?.oldestPendingMs() ?? (outbox?.pending() === 0 ? 0 : null);
      return ageMs === null ? null : ageMs / 1_000;
    },
  ),
  gauge(
    'svc.outbox.oldest_pending.timestamp.seconds',
    's',
    'Unix time since which that event has waited; missing without one.',
    ({ outbox }) => unixTime(outbox?.oldestPendingMs() ?? null),
  ),
  gauge(
    'svc.outbox.failed',
    '{event}',
    'Events in the outbox that failed for good. They stay FAILED until you retry or discard them.',
    ({ outbox }) => outbox?.failed() ?? null,
  ),
  {
    name: 'svc.outbox.processed',
    prometheusName: 'svc_outbox_processed_total',
    kind: 'counter',
    unit: '{event}',
    description: 'Events of the outbox that this process sent, or that failed for good.',
    attributeKeys: ['eventType', 'outcome'],
    read: ({ ledger, outbox }, observe) => {
      if (outbox === undefined) return;
      for (const { attributes, relayed, gaveUp } of ledger.rows()) {
        observe(relayed, withOutcome.published(attributes));
        observe(gaveUp, withOutcome.failed(attributes));
      }
    },
  },
  counter(
    'svc.outbox.unconfirmed',
    '{event}',
    'Events of transactions whose COMMIT had no answer, or was not visible to svc: counted as stored, but maybe not stored.',
    ({ outbox }) => outbox?.unconfirmed() ?? null,
  ),
  counter(
    'svc.outbox.unjoined',
    '{event}',
    'Events of calls outside any transaction: stored right after the call, not atomically with its writes.',
    ({ outbox }) => outbox?.unjoined() ?? null,
  ),
  {
    ...{ name: 'svc.worker.id', prometheusName: 'svc_worker_id', kind: 'gauge', unit: '1' },
    description: 'Worker id in event ids, by its source.',
    attributeKeys: ['source'],
    read({ worker }, observe) {
      const state = worker();
      if (state !== undefined) observe(state.workerId, { source: state.source });
    },
  },
  {
    ...{ name: 'svc.capture.targets', prometheusName: 'svc_capture_targets', kind: 'gauge' },
    unit: '{target}',
    description: 'Configured publish targets by state.',
    attributeKeys: ['state'],
    read: ({ captureTargets }, observe) => {
      // All states each time: an SDK repeats the last value of a series that is left out.
      const counts = new Map<string, number>(runningStates.map((state) => [state, 0]));
      for (const { state } of captureTargets()) counts.set(state, (counts.get(state) ?? 0) + 1);
      for (const [state, count] of counts) observe(count, { state });
    },
  },
  {
    name: 'svc.capture.calls',
    prometheusName: 'svc_capture_calls_total',
    kind: 'counter',
    unit: '{call}',
    description: 'Finished calls of a captured function, by result.',
    attributeKeys: ['target', 'result'],
    read: ({ captureTargets }, observe) => {
      for (const { target, calls, failed, skipped } of captureTargets()) {
        observe(calls - failed - skipped, { target, result: 'event' });
        observe(failed, { target, result: 'failed' });
        observe(skipped, { target, result: 'skipped' });
      }
    },
  },
  ...consumedInstruments,
];

/** @param measure returns `null` for no series */
function gauge(
  name: string,
  unit: string,
  description: string,
  measure: (sources: MetricSources) => number | null,
): ObservedInstrument {
  const prometheusName = name.replaceAll('.', '_');
  return {
    ...{ name, prometheusName, kind: 'gauge', unit, description, attributeKeys: [] },
    read(sources, observe) {
      const value = measure(sources);
      if (value !== null) observe(value, {});
    },
  };
}

function counter(...gauged: Parameters<typeof gauge>): ObservedInstrument {
  return { ...gauge(...gauged), kind: 'counter', prometheusName: counterName(gauged[0]) };
}

/** In seconds, rounded to tenths: ages come from another clock, and would vary from scrape to scrape. */
/** Unknown if the folder cannot be used: 0 would read as an empty backup. */
function known(backup: BackupState, read: (backup: BackupState) => number): number | null {
  return typeof backup.problem === 'string' ? null : read(backup);
}

function unixTime(ageMs: number | null): number | null {
  return ageMs === null ? null : Math.round((clock.now() - ageMs) / 100) / 10;
}

function eventCounter(
  what: string,
  description: string,
  count: (row: EventTypeCounts) => number,
  alias?: string,
): ObservedInstrument {
  const prometheusName = counterName(`svc.events.${what}`);
  const prometheusAlias = alias === undefined ? prometheusName : counterName(alias);
  return {
    name: `svc.events.${what}`,
    prometheusName,
    ...(alias === undefined ? {} : { alias }),
    ...(prometheusAlias === prometheusName ? {} : { prometheusAlias }),
    kind: 'counter',
    unit: '{event}',
    description,
    attributeKeys: ['eventType'],
    read: ({ ledger }, observe) => {
      for (const row of ledger.rows()) observe(count(row), row.attributes);
    },
  };
}

function outcomeCounter(
  outcome: Outcome,
  count = (row: EventTypeCounts): number => row[outcome],
): ObservedInstrument {
  const { counts, alias } = outcomeTable[outcome];
  return eventCounter(outcome, counts, count, alias ?? undefined);
}

/** `svc.events.published` and `svc.events.published.total` are both `svc_events_published_total`. */
function counterName(name: string): string {
  const plain = name.replaceAll('.', '_');
  return plain.endsWith('_total') ? plain : `${plain}_total`;
}

/** How often the provider is compared without any event. */
const lookupIntervalMs = 10_000;

interface MeterBinding {
  /**
   * Removes svc's callbacks from the application's meter provider. Do not call it at the end of the process: the provider's
   * last collection comes after svc's last event, and needs them.
   */
  close(): void;
}

interface MeterOptions {
  readonly version: string;
}

/**
 * Registers svc's instruments with the application's meter provider, for any version of the SDK and at any time. Instruments of
 * the API's no-op provider never change, and the API does not report a new provider. So the provider is compared at each event
 * (9 ns) and every ten seconds, and all instruments are created again when it changes. `providerNow` returns `undefined` until
 * one is registered, so that the API is not loaded needlessly.
 */
export function bindMeter(
  providerNow: () => OpenTelemetry.MeterProvider | undefined,
  sources: MetricSources,
  options: MeterOptions,
): MeterBinding {
  let provider: OpenTelemetry.MeterProvider | undefined;
  let duration: OpenTelemetry.Histogram | undefined;
  let release = (): void => {};
  let failed = false;

  /** A provider is application code: its errors must not reach the call whose event is recorded. */
  const guarded = (work: () => void): void => {
    try {
      work();
    } catch (error) {
      if (!failed) logger.warn("the application's meter provider failed", { error: (error as Error)?.name });
      failed = true;
    }
  };
  const refresh = (): void => {
    const current = providerNow();
    if (current === undefined || current === provider) return;
    provider = current;
    duration = undefined;
    release();
    release = () => {};
    const meter = current.getMeter('svc', options.version);
    duration = createDuration(meter);
    release = observeAll(meter, sources);
  };

  sources.durations.listen((seconds, attributes) =>
    guarded(() => {
      refresh();
      duration?.record(seconds, attributes);
    }),
  );
  guarded(refresh);
  // A provider that is handed over must not wait for the next event.
  const stopListening = listenToMeters(() => guarded(refresh));
  const timer = setInterval(() => guarded(refresh), lookupIntervalMs);
  timer.unref();
  return {
    close: () => {
      clearInterval(timer);
      stopListening();
      sources.durations.listen(undefined);
      guarded(release);
    },
  };
}

function createDuration(meter: OpenTelemetry.Meter): OpenTelemetry.Histogram {
  return meter.createHistogram(publishDuration.name, {
    description: publishDuration.description,
    unit: publishDuration.unit,
    advice: { explicitBucketBoundaries: [...durationBoundsSeconds] },
  });
}

/** Returns a function that removes all callbacks. */
function observeAll(meter: OpenTelemetry.Meter, sources: MetricSources): () => void {
  const releases = observedInstruments.flatMap((instrument) =>
    exportedNames(instrument).map((name) => {
      const observable = createObservable(meter, instrument, name);
      const callback = (result: OpenTelemetry.ObservableResult): void =>
        instrument.read(sources, (value, attributes) => result.observe(value, attributes));
      observable.addCallback(callback);
      return () => observable.removeCallback(callback);
    }),
  );
  return () => {
    for (const release of releases) release();
  };
}

function createObservable(
  meter: OpenTelemetry.Meter,
  { kind, description, unit }: ObservedInstrument,
  name: string,
): OpenTelemetry.Observable {
  const options = { description, unit };
  switch (kind) {
    case 'counter':
      return meter.createObservableCounter(name, options);
    case 'upDownCounter':
      return meter.createObservableUpDownCounter(name, options);
    case 'gauge':
      return meter.createObservableGauge(name, options);
  }
}
