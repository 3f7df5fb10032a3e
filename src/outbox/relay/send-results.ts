import { backoffMs, type Clock, inTime } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import { createQuietLog, type QuietLog } from '../../observe/quiet-log.ts';
import type { Broker, SendFailure, SendFailureKind, SendResult } from '../../publish/broker.ts';
import { doubtsCount, faultOf, isNotMade } from '../../publish/fault.ts';
import { afterRetries } from '../../publish/main/batches/retry.ts';
import type { Breaker } from '../../publish/main/breaker.ts';
import type { PartitionCounts } from '../../publish/main/partition-counts.ts';
import type { TopicRefusals } from '../../publish/main/topic-refusals.ts';
import type { RowFailure, StoredRow } from '../outbox-store.ts';
import type { QueueEntry, RowEnd } from './aggregate-order.ts';
import type { PartitionSendsOptions, TopicPartition } from './partition-sends.ts';
import type { Pauses } from './pauses.ts';
import { firstRetryMs, longestRetryMs, maxSendBytes, type RelaySettings, stallMs } from './relay-settings.ts';

export interface SendResultsOptions {
  readonly broker: Pick<Broker, 'describe'>;
  readonly counts: PartitionCounts;
  readonly topics: Pauses;
  readonly partitions: Pauses;
  readonly refusals: TopicRefusals;
  readonly breaker: Breaker;
  readonly logger: Logger;
  readonly say: QuietLog;
  readonly clock: Clock;
  readonly settings: Pick<RelaySettings, 'maxRetries' | 'sendTimeoutMs' | 'onFailed'>;
  readonly settle: (entry: QueueEntry, end: RowEnd) => void;
  /** The row has failed by its own fault. */
  readonly spendRetry: (entry: QueueEntry, failure: RowFailure) => void;
  readonly onStored: () => void;
  /** For each send in vain. */
  readonly onSendFailed: (kind: SendFailureKind) => void;
}

/** Characters of `last_error`. */
const maxErrorLength = 500;

/** What follows from the result of a send, for its rows, its topic and the cluster. */
export interface SendResults {
  readonly take: PartitionSendsOptions['onResult'];
  /** Rows of the last send that failed for no fault of theirs that is known, where none has succeeded since. */
  readonly lastFailedRows: readonly StoredRow[];
}

export function createSendResults(options: SendResultsOptions): SendResults {
  const { broker, counts, topics, partitions, breaker, logger, say, settings, settle } = options;
  /** For what nobody mends but an operator. */
  const sayError = createQuietLog(logger, options.clock);
  let lastFailedRows: readonly StoredRow[] = [];
  /** The log says last that events cannot be sent. A breaker that was open says itself that it is closed. */
  let isSaid = false;

  function stored(partition: TopicPartition, entries: readonly QueueEntry[]): void {
    if (isSaid) logger.info('outbox: events are sent again');
    isSaid = false;
    breaker.answered();
    options.onStored();
    lastFailedRows = [];
    partitions.resume(partition.key);
    options.refusals.taken(partition.topic);
    if (topics.resume(partition.topic)) logger.info(`outbox: topic "${partition.topic}" takes events again`);
    for (const entry of entries) settle(entry, 'sent');
  }

  /** The cluster has answered, where it was asked. */
  function heard(failure: SendFailure): void {
    if (!isNotMade(failure)) breaker.answered();
  }

  function failedAlone(entry: QueueEntry, failure: SendFailure): void {
    heard(failure);
    const { id, retryCount, eventId, eventType, topic } = entry.row;
    const fields = { eventId, eventType, topic, cause: failure.cause, retryCount };
    if (retryCount < settings.maxRetries && !isNotMade(failure)) {
      say(
        `event ${failure.cause}`,
        `outbox: an event is not taken, and tried again: ${failure.message}`,
        fields,
      );
      const retryInMs = backoffMs(retryCount + 1, firstRetryMs, longestRetryMs);
      const lastError = oneLine(failure);
      options.spendRetry(entry, { id, retryCount: retryCount + 1, lastError, retryInMs });
      return;
    }
    const last = afterRetries(failure, retryCount);
    const follows = settings.onFailed === 'block' ? 'keeps back its aggregate' : 'is set aside';
    sayError(
      `event FAILED ${failure.cause}`,
      `outbox: an event is FAILED and ${follows}; npx --no svc outbox retry-failed sends it again: ${last.message}`,
      fields,
    );
    const lastError = oneLine(last);
    options.spendRetry(entry, { id, retryCount: retryCount + 1, lastError, retryInMs: null });
  }

  function refused({ topic }: TopicPartition, entries: readonly QueueEntry[], failure: SendFailure): void {
    breaker.failed(failure, true);
    options.refusals.refused(topic, failure, false);
    if (topics.pause(topic))
      logger.warn(`outbox: the events for topic "${topic}" wait in their table: ${failure.message}`, {
        cause: failure.cause,
      });
    for (const entry of entries) settle(entry, 'paused');
  }

  function away(
    partition: TopicPartition,
    entries: readonly QueueEntry[],
    failure: SendFailure,
    tookMs: number,
  ): void {
    partitions.pause(partition.key);
    lastFailedRows = entries.map(({ row }) => row);
    // Nobody heard the answers that came while the process stood still: they say nothing about the cluster.
    const isUnheard = tookMs > settings.sendTimeoutMs + stallMs;
    if (!isUnheard || breaker.state === 'HALF-OPEN') breaker.failed(failure, true);
    isSaid = breaker.state === 'CLOSED';
    if (isSaid)
      say('send', `outbox: events cannot be sent, and wait in their table: ${failure.message}`, {
        topic: partition.topic,
        cause: failure.cause,
      });
    for (const entry of entries) settle(entry, 'deferred');
  }

  /** Beyond the size of a request, a broker cuts the connection, which looks as if it were away. */
  async function isOnlyTooLarge({ payload }: StoredRow, { kind }: SendFailure): Promise<boolean> {
    if (payload.length <= maxSendBytes || (kind !== 'retriable' && kind !== 'unknown_outcome')) return false;
    const answer = broker.describe().then(
      () => true,
      () => false,
    );
    return inTime(answer, { limitMs: settings.sendTimeoutMs, keepsAlive: false, late: () => false });
  }

  async function take(
    partition: TopicPartition,
    entries: readonly QueueEntry[],
    result: SendResult,
    tookMs: number,
  ): Promise<'split' | 'ended'> {
    const [first] = entries;
    if (result.ok || first === undefined) {
      stored(partition, entries);
      return 'ended';
    }
    const { failure } = result;
    options.onSendFailed(failure.kind);
    const fault = faultOf(failure);
    if (doubtsCount(failure)) void counts.ask(partition.topic);
    if (fault === 'record' && entries.length > 1) {
      heard(failure);
      return 'split';
    }
    const isAlone = entries.length === 1;
    if (fault === 'record' || (isAlone && fault === 'cluster' && (await isOnlyTooLarge(first.row, failure))))
      failedAlone(first, failure);
    else if (fault !== 'cluster') refused(partition, entries, failure);
    else away(partition, entries, failure, tookMs);
    return 'ended';
  }

  return {
    take,
    get lastFailedRows() {
      return lastFailedRows;
    },
  };
}

function oneLine({ cause, message }: SendFailure): string {
  return `${cause}: ${message}`.replace(/\s+/g, ' ').slice(0, maxErrorLength);
}
