// recovery/: sends dead letters and backups to their topics.

import type { Clock } from '../../ground/clock.ts';
import type { BrokerRecord, SendFailure, SendResult } from '../broker.ts';
import { faultOf, passingOf } from '../fault.ts';
import type { RecoverySource, StoredEvent, Unreadable } from '../recovery-source.ts';
import {
  type Batch,
  brokenPromise,
  createSender,
  keyOf,
  type TopicPartition,
  type UncertainBatches,
} from '../sender/sender.ts';
import { fromDlqRecord } from '../tiers/dlq-message.ts';
import type { TopicReader, TopicRecord } from '../topic-reader.ts';

export interface RecoverOptions {
  readonly source: RecoverySource;
  readonly send: (
    topic: string,
    partition: number | undefined,
    records: readonly BrokerRecord[],
  ) => Promise<SendResult>;
  readonly partitionsFor: (topic: string) => Promise<number | undefined>;
  readonly partitionOf: (key: string | null, partitionCount: number) => number;
  /** Filter; other events stay where they are. */
  readonly accept: (event: StoredEvent) => boolean;
  /** For events whose topic is unknown. Default: they stay. */
  readonly fallbackTopic?: string | undefined;
  /** Why nothing may be sent to a topic, in one line. Its events stay. */
  readonly refusalOf?: ((topic: string) => string | undefined) | undefined;
  /**
   * An unsent event holds up later events of its partition, and no others. Partitions are sent in parallel; a failed one does not
   * end the run while others succeed. An event that its topic never takes holds up nothing.
   */
  readonly keepsOrder?: boolean;
  /** With `keepsOrder`: an event holds up later ones. `isRefused`: its topic refused it, or does not exist. */
  readonly onHeldUp?: (event: StoredEvent, isRefused: boolean) => void;
  /** True: no further event would be accepted. */
  readonly isOver?: () => boolean;
  /** Events per second; 0: unlimited. */
  readonly ratePerSecond: number;
  /**
   * Batches of earlier runs with an unknown outcome. They are sent again unchanged, so that a broker recognizes them. Default:
   * none.
   */
  readonly uncertain?: UncertainBatches;
  /** Waits before retries of a failed send. Default: 1 s, 2 s, 4 s. */
  readonly retryWaitsMs?: readonly number[];
  /** Reads and filters only. */
  readonly dryRun: boolean;
  /** The source sets aside events that are too large for their topic, so that later runs skip them. */
  readonly setsAside?: boolean;
  /** Whether the cluster answers. If it does, a large event that fails does not hold up others. */
  readonly isReachable?: () => Promise<boolean>;
  readonly clock: Clock;
  readonly sleep: (ms: number) => Promise<void>;
  /** True: stop after the current batch. */
  readonly isStopped: () => boolean;
  readonly onProgress?: (report: RecoverReport) => void;
  /** Each accepted event, for a list. */
  readonly onEvent?: (event: StoredEvent) => void;
}

export interface RecoverReport {
  /** Accepted by the filters. */
  matched: number;
  /** Rejected by the filters. */
  skipped: number;
  /** Acknowledged, and marked as done. */
  sent: number;
  /** Accepted, but not sent: they stay. */
  failed: number;
  readonly unreadable: Unreadable[];
  /** Too large for their topic, and moved to where later runs skip them. */
  setAside: number;
  /** Why events were not sent, with their number. */
  readonly problems: Map<string, number>;
  /** The cluster is away: the run has ended early. */
  stoppedBy: SendFailure | undefined;
  /** `isStopped` ended the run: events may be left unread. */
  isInterrupted: boolean;
}

const maxBatchCount = 500;
/** Read size with parallel partitions. */
const maxReadCount = 2_000;
const maxSendBytes = 512 * 1024;
const usualWaitsMs = [1_000, 2_000, 4_000];

/**
 * Sends stored events to their topics with the same bytes, key and headers, events of one key in order. Each batch is marked as
 * done after its acknowledgment, so a crash repeats at most one batch. The record's timestamp is the time of sending, because
 * Kafka's retention could delete an old one at once.
 */
export async function recover(options: RecoverOptions): Promise<RecoverReport> {
  const { source, clock, ratePerSecond } = options;
  const report: RecoverReport = {
    matched: 0,
    skipped: 0,
    sent: 0,
    failed: 0,
    setAside: 0,
    unreadable: [],
    problems: new Map(),
    stoppedBy: undefined,
    isInterrupted: false,
  };
  const counts = new Map<string, number>();
  /** Topics that take nothing in this run, and why: a wrong password is not tried again with each event. */
  const refusals = new Map<string, string>();
  /** With `keepsOrder`: partitions that get nothing more in this run, and why. */
  const heldUp = new Map<string, string>();
  /** Of the current batch. */
  let sent: StoredEvent[] = [];
  /** With `keepsOrder`: a failure of the cluster in the current batch. */
  let away: SendFailure | undefined;
  /** An error thrown by the client, the source or the cluster check. */
  let broken: { readonly error: unknown } | undefined;
  const waitsMs = options.retryWaitsMs ?? usualWaitsMs;
  const sender = createSender<StoredEvent>({
    ...{ clock, bytesOf, mayGo },
    maxInFlight: options.keepsOrder === true ? Number.POSITIVE_INFINITY : 1,
    limits: { maxEvents: maxBatchCount, maxBytes: maxSendBytes },
    uncertain: { batches: options.uncertain ?? new Map(), idOf: ({ eventId }) => eventId },
    toRecord: ({ key, value, headers }, timestamp) => ({ key, value, headers, timestamp }),
    send: ({ topic, partition }, records) =>
      options.send(topic, partition, records).catch((error: unknown) => {
        broken ??= { error };
        return brokenPromise(error);
      }),
    onStored: (_, events) => void sent.push(...events),
    onFailed(to, batch, failure, { isSplit }) {
      if (isSplit || broken !== undefined) return 'ended';
      return failed(to, batch, failure).catch((error: unknown) => {
        broken ??= { error };
        return 'ended' as const;
      });
    },
  });
  const most = options.keepsOrder === true ? maxReadCount : maxBatchCount;
  const size = ratePerSecond > 0 ? Math.min(most, Math.ceil(ratePerSecond)) : most;

  for await (const { events, unreadable } of source.read(size)) {
    report.unreadable.push(...unreadable);
    const accepted = events.filter(options.accept);
    report.matched += accepted.length;
    report.skipped += events.length - accepted.length;
    for (const event of accepted) options.onEvent?.(event);
    if (options.dryRun) for (const event of accepted) count([event], refusalOf(event));
    else if (accepted.length > 0) await sendBatch(accepted);
    options.onProgress?.(report);
    report.isInterrupted = options.isStopped();
    if (report.stoppedBy !== undefined || report.isInterrupted || options.isOver?.() === true) break;
  }
  return report;

  async function sendBatch(events: readonly StoredEvent[]): Promise<void> {
    const startedMs = clock.monotonic();
    sent = [];
    away = undefined;
    try {
      await place(events);
      await sender.idle();
      if (broken !== undefined) throw broken.error;
      if (sent.length === 0) report.stoppedBy ??= away;
    } finally {
      if (sent.length > 0) await source.done(sent);
      report.sent += sent.length;
    }
    if (ratePerSecond <= 0) return;
    const dueMs = (events.length / ratePerSecond) * 1000;
    const restMs = startedMs + dueMs - clock.monotonic();
    if (restMs > 0) await options.sleep(restMs);
  }

  async function place(events: readonly StoredEvent[]): Promise<void> {
    await askForCounts(events.filter((event) => refusalOf(event) === undefined));
    for (const event of events) {
      const refusal = refusalOf(event);
      const topic = event.topic ?? options.fallbackTopic;
      if (topic === undefined || refusal !== undefined) {
        fail([event], refusal ?? 'their topic is unknown: recover them with --to <topic>');
        continue;
      }
      const count = counts.get(topic);
      sender.put(event, topic, count === undefined ? undefined : options.partitionOf(event.key, count));
    }
  }

  function refusalOf({ topic = options.fallbackTopic }: StoredEvent): string | undefined {
    return topic === undefined ? undefined : options.refusalOf?.(topic);
  }

  /** Unknown counts are requested again with each batch, because the first send may have created the topic. */
  async function askForCounts(events: readonly StoredEvent[]): Promise<void> {
    for (const topic of new Set(events.map((event) => event.topic ?? options.fallbackTopic))) {
      if (topic === undefined || counts.has(topic) || refusals.has(topic)) continue;
      const count = await options.partitionsFor(topic);
      if (count !== undefined) counts.set(topic, count);
    }
  }

  function mayGo(event: StoredEvent, { key, topic }: TopicPartition): 'send' | 'ended' {
    const before = heldUp.get(key) ?? heldUp.get(keyOf(topic, undefined));
    if (before !== undefined) holdUp(key, [event], before, false);
    const reason = report.stoppedBy?.message ?? refusals.get(topic);
    if (before === undefined && reason !== undefined) fail([event], reason);
    return before === undefined && reason === undefined && broken === undefined ? 'send' : 'ended';
  }

  /** Handles a batch that is not split. */
  async function failed(
    { key, topic, partition }: TopicPartition,
    { events, sends }: Batch<StoredEvent>,
    failure: SendFailure,
  ): Promise<'resend' | 'ended'> {
    const isOfOne = faultOf(failure) === 'record';
    const isMoved = faultOf(failure) === 'partition';
    const waitMs = waitsMs[sends - 1];
    const isFinal = failure.kind === 'fatal' || failure.kind === 'too_large' || isMoved;
    if (!isFinal && waitMs !== undefined && !options.isStopped()) {
      await options.sleep(waitMs);
      return 'resend';
    }
    if (isMoved && (await isPlacedAgain(topic, partition, events))) return 'ended';
    if (failure.kind === 'too_large' && (await isSetAside(events, failure))) return 'ended';
    const isOutOfOrder = isOfOne || (await isOnlyTooLarge(events, failure));
    if (options.keepsOrder === true && !isOutOfOrder) {
      const isRefused = failure.kind === 'fatal' || passingOf(failure.cause) === 'unknown';
      if (!isRefused) away ??= failure;
      holdUp(key, events, failure.message, isRefused);
      return 'ended';
    }
    fail(events, failure.message);
    if (options.keepsOrder === true || isOutOfOrder) return 'ended';
    // A missing topic keeps only its own events. Later ones must not overtake them.
    if (passingOf(failure.cause) === 'unknown' || (failure.kind === 'fatal' && partition === undefined))
      refusals.set(topic, failure.message);
    else if (failure.kind === 'retriable' || failure.kind === 'unknown_outcome') report.stoppedBy = failure;
    return 'ended';
  }

  /**
   * The topic's number of partitions has changed. Without `keepsOrder` all waiting events are placed again at once, otherwise by
   * the next run.
   */
  async function isPlacedAgain(
    topic: string,
    partition: number | undefined,
    events: readonly StoredEvent[],
  ): Promise<boolean> {
    const before = counts.get(topic);
    counts.delete(topic);
    if (options.keepsOrder === true || partition === undefined) return false;
    await askForCounts(events);
    if (!counts.has(topic) || counts.get(topic) === before) return false;
    await place([...events, ...sender.takeAll(topic)]);
    return true;
  }

  function holdUp(key: string, events: readonly StoredEvent[], reason: string, isRefused: boolean): void {
    heldUp.set(key, reason);
    fail(events, reason);
    for (const event of events) options.onHeldUp?.(event, isRefused);
  }

  async function isSetAside(events: readonly StoredEvent[], { message }: SendFailure): Promise<boolean> {
    if (options.setsAside !== true) return false;
    const place = await source.setAside?.(events);
    if (place === undefined) return false;
    report.setAside += events.length;
    count(events, `set aside in ${place}: ${message}`);
    return true;
  }

  /** A broker drops the connection above its maximum request size, which looks like an outage. */
  async function isOnlyTooLarge(events: readonly StoredEvent[], { kind }: SendFailure): Promise<boolean> {
    const [event] = events;
    if (kind !== 'retriable' && kind !== 'unknown_outcome') return false;
    if (events.length > 1 || event === undefined || event.value.length <= maxSendBytes) return false;
    return (await options.isReachable?.()) === true;
  }

  function fail(events: readonly StoredEvent[], reason: string): void {
    report.failed += events.length;
    count(events, reason);
  }

  function count(events: readonly StoredEvent[], reason: string | undefined): void {
    if (reason !== undefined) report.problems.set(reason, (report.problems.get(reason) ?? 0) + events.length);
  }
}

const bytesOf = ({ value }: StoredEvent): number => value.length;

/** The events in a dead letter topic, in either shape. */
export function createDlqSource(topic: string, reader: TopicReader): RecoverySource {
  /** Of the last batch, for `done`. */
  let records = new Map<string, TopicRecord>();

  return {
    name: `dead letter topic ${topic}`,
    open: (forRecovery) => reader.open(forRecovery),
    count: () => reader.count(),
    async *read(size) {
      for await (const batch of reader.read(size)) {
        records = new Map();
        const events: StoredEvent[] = [];
        const unreadable: Unreadable[] = [];
        for (const record of batch) {
          const place = `${topic}-${record.partition}@${record.offset}`;
          const event = fromDlqRecord(record, place);
          if (typeof event === 'string') unreadable.push({ place, reason: event });
          else {
            records.set(place, record);
            events.push(event);
          }
        }
        yield { events, unreadable };
      }
    },
    done: (events) => reader.done(events.map(({ place }) => records.get(place) as TopicRecord)),
    close: () => reader.close(),
  };
}
