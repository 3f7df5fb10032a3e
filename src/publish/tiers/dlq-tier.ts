import { type Clock, inTime, within } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import type { Broker, SendFailure, SendFailureKind, SendResult } from '../broker.ts';
import { cutBatches, halvesOf } from '../cut-batches.ts';
import { doubtsCount } from '../fault.ts';
import { brokenPromise } from '../main/queued-event.ts';
import type { FailedEvent, Tier } from '../tier.ts';
import { type DlqFormat, toDlqRecord, toSmallerDlqRecord } from './dlq-message.ts';

export interface DlqOptions {
  readonly broker: Pick<Broker, 'send' | 'partitionsFor'>;
  readonly topic: string;
  readonly format: DlqFormat;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The partition of a key, as everywhere in svc. */
  readonly partitionOf: (key: string | null, partitionCount: number) => number;
  /** Runs a send as svc's own work. */
  readonly isolate: <T>(work: () => Promise<T>) => Promise<T>;
  /** The one try has what is left of the time of its events, and this at least. */
  readonly leastTimeMs: number;
  /** While the cluster is known to be away, events go to the next tier at once. */
  readonly isAway: () => boolean;
  readonly onSendFailed: (kind: SendFailureKind) => void;
}

interface Letter {
  readonly failed: FailedEvent;
  readonly settle: (stored: boolean) => void;
}

const maxBatchCount = 250;
const maxBatchBytes = 512 * 1024;
const maxWaitingCount = 10_000;
const maxWaitingBytes = 32 * 1024 * 1024;
/** After a failure of the topic itself: so long events go past it, then one batch tries again. */
const pauseMs = 5_000;

/**
 * The dead letter topic: one try, for the retries are spent. Dead letters of one partition are sent in their order, one
 * send at a time. One that is too large for the topic is tried as the event alone, which is smaller; then it goes to the next tier.
 */
export function createDlqTier(options: DlqOptions): Tier {
  const { broker, topic, clock } = options;
  let waiting: Letter[] = [];
  let count = 0;
  let bytes = 0;
  let scheduled = false;
  let sending = 0;
  let pausedUntilMs = Number.NEGATIVE_INFINITY;
  let partitionCount: number | undefined;
  /** The cluster does not know the topic, as it said when it was asked last. */
  let isMissing = false;
  const onIdle: (() => void)[] = [];

  function settle(letters: readonly Letter[], stored: boolean): void {
    for (const { failed, settle: answer } of letters) {
      count--;
      bytes -= failed.record.value.length;
      answer(stored);
    }
  }

  const isClosed = (): boolean => options.isAway() || clock.monotonic() < pausedUntilMs;

  function pause({ kind, message, cause }: SendFailure): void {
    pausedUntilMs = clock.monotonic() + pauseMs;
    options.logger.error(`dead letter topic "${topic}": ${message}`, { kind, cause });
  }

  /** One partition's letters, in order. */
  async function send(
    partition: number | undefined,
    letters: readonly Letter[],
    isSmaller = false,
  ): Promise<void> {
    if (isClosed()) return settle(letters, false);
    const records = letters.map(({ failed }) =>
      isSmaller
        ? toSmallerDlqRecord(failed, 'value', clock.now())
        : toDlqRecord(failed, options.format, clock.now()),
    );
    const sending = options.isolate(() => broker.send(topic, partition, records)).catch(brokenPromise);
    const result = await inTime(sending, {
      limitMs: timeLeftMs(letters),
      keepsAlive: true,
      late: () => (isMissing ? tooLateToBeMade : tooLate),
    });
    if (result.ok) return settle(letters, true);
    options.onSendFailed(result.failure.kind);
    // It may have been made anew, with fewer partitions.
    if (doubtsCount(result.failure)) partitionCount = undefined;
    if (result.failure.kind === 'too_large') {
      if (letters.length === 1) return isSmaller ? settle(letters, false) : send(partition, letters, true);
      for (const half of halvesOf(letters)) await send(partition, half);
      return;
    }
    pause(result.failure);
    settle(letters, false);
  }

  /** Of the one that has most. */
  function timeLeftMs(letters: readonly Letter[]): number {
    const deadlines = letters.map(({ failed }) => failed.deadlineAtMs ?? Number.POSITIVE_INFINITY);
    return Math.max(options.leastTimeMs, Math.max(...deadlines) - clock.monotonic());
  }

  async function sendAll(letters: readonly Letter[]): Promise<void> {
    if (partitionCount === undefined) {
      const asking = options
        .isolate(() => broker.partitionsFor(topic))
        .then(
          (count) => {
            isMissing = count === undefined;
            return count;
          },
          () => undefined,
        );
      partitionCount = await inTime(asking, {
        limitMs: timeLeftMs(letters),
        keepsAlive: true,
        late: () => undefined,
      });
    }
    await Promise.all(
      byPartition(letters).map(async ([partition, group]) => {
        // Of a topic of which nothing is known yet, one record a send: a send never spans partitions.
        const limits = { maxEvents: partition === undefined ? 1 : maxBatchCount, maxBytes: maxBatchBytes };
        for (const batch of cutBatches(group, bytesOf, limits)) await send(partition, batch);
      }),
    );
  }

  function byPartition(letters: readonly Letter[]): [number | undefined, Letter[]][] {
    if (partitionCount === undefined) return [[undefined, [...letters]]];
    const groups = new Map<number, Letter[]>();
    for (const letter of letters) {
      const partition = options.partitionOf(letter.failed.record.key, partitionCount);
      const group = groups.get(partition);
      if (group === undefined) groups.set(partition, [letter]);
      else group.push(letter);
    }
    return [...groups];
  }

  async function pump(): Promise<void> {
    scheduled = false;
    // One round at a time keeps the order of each partition.
    if (sending > 0) return;
    sending++;
    while (waiting.length > 0) {
      const letters = waiting;
      waiting = [];
      await sendAll(letters);
    }
    sending--;
    for (const resolve of onIdle.splice(0)) resolve();
  }

  return {
    name: 'dlq',
    store(failed) {
      const size = failed.record.value.length;
      if (isClosed() || count >= maxWaitingCount || bytes + size > maxWaitingBytes)
        return Promise.resolve(false);
      count++;
      bytes += size;
      return new Promise((answer) => {
        waiting.push({ failed, settle: answer });
        if (scheduled || sending > 0) return;
        scheduled = true;
        setImmediate(() => void pump());
      });
    },
    async close(deadlineMs) {
      if (count > 0) await within(deadlineMs, new Promise<void>((resolve) => onIdle.push(resolve)));
    },
  };
}

const bytesOf = ({ failed }: Letter): number => failed.record.value.length;

const late = {
  kind: 'unknown_outcome',
  cause: 'TimeoutException',
  message: 'no answer within the time of its events (svc.broker.delivery-timeout-ms)',
} as const;
const tooLate: SendResult = { ok: false, failure: late };
/** A topic that the brokers make would be there by then. */
const tooLateToBeMade: SendResult = {
  ok: false,
  failure: {
    ...late,
    message: `${late.message}: it does not exist: create it, or set auto.create.topics.enable on the brokers`,
  },
};
