import { backoffMs, systemClock } from '../../ground/clock.ts';
import type { BrokerRecord, SendFailure, SendResult } from '../../publish/broker.ts';
import { passingOf } from '../../publish/fault.ts';

export type Send = (
  topic: string,
  partition: number | undefined,
  records: readonly BrokerRecord[],
  /** How many partitions the topic had when `partition` was chosen, where that is known. */
  placedBy?: number,
) => Promise<SendResult>;

export interface PatientSendOptions {
  readonly send: Send;
  /** Whether the topic is there; rejects where a partition of it has no leader. */
  readonly isReady: (topic: string) => Promise<boolean>;
  /** How long a topic without leaders is waited for. */
  readonly limitMs: number;
  /** The same of one that the cluster does not know. Default: 1000. */
  readonly unknownMs?: number;
}

const firstPauseMs = 20;
const longestPauseMs = 250;
/** A broker makes a topic in less; where it does not, whoever sends is told why, and its retries go on asking. */
const usualUnknownMs = 1_000;
/** Topics remembered as missing; their names can come from application data. */
const maxMissing = 1_000;

/**
 * A topic that the broker makes for its first record refuses that record until its partitions have leaders: it is waited
 * for, and the records are sent again, for nothing of them was stored. All who wait for one topic share one poll. A topic
 * that did not appear soon is not waited for again until a send to it succeeds.
 */
export function createPatientSend({
  send,
  isReady,
  limitMs,
  unknownMs = usualUnknownMs,
}: PatientSendOptions): Send {
  const polls = new Map<string, Promise<boolean>>();
  const missing = new Set<string>();

  function becomesReady(topic: string): Promise<boolean> {
    let poll = polls.get(topic);
    if (poll === undefined) {
      const unknownEnd = systemClock.monotonic() + unknownMs;
      const look = async (): Promise<boolean | 'in vain'> => {
        try {
          return (await isReady(topic)) || (systemClock.monotonic() >= unknownEnd ? 'in vain' : false);
        } catch {
          return false;
        }
      };
      poll = repeatUntil(look, limitMs).finally(() => polls.delete(topic));
      polls.set(topic, poll);
    }
    return poll;
  }

  return async (topic, partition, records, placedBy) => {
    const first = await send(topic, partition, records, placedBy);
    if (first.ok) missing.delete(topic);
    if (first.ok || !isWithoutLeader(first.failure)) return first;
    const isUnknown = passingOf(first.failure.cause) === 'unknown';
    if (isUnknown && missing.has(topic)) return first;
    const end = systemClock.monotonic() + limitMs;
    if (!(await becomesReady(topic))) {
      if (isUnknown) missing.add(topic);
      if (missing.size > maxMissing) missing.delete(missing.values().next().value as string);
      return first;
    }
    let last = await send(topic, partition, records, placedBy);
    // The cluster knows the leader a moment before the leader itself does.
    const again = async (): Promise<boolean> => {
      last = await send(topic, partition, records, placedBy);
      return last.ok || !isBeingMade(last.failure);
    };
    if (!last.ok && isBeingMade(last.failure)) await repeatUntil(again, end - systemClock.monotonic());
    return last;
  };
}

/** Nothing was stored, and the topic may be there in a moment. */
function isWithoutLeader({ kind, cause }: SendFailure): boolean {
  const passing = passingOf(cause);
  return kind === 'retriable' && (passing === 'unknown' || passing === 'without leader');
}

function isBeingMade(failure: SendFailure): boolean {
  return isWithoutLeader(failure) || passingOf(failure.cause) === 'moved';
}

/** Repeats `attempt`, each time after a longer pause, until it says `true`: `false` when that is in vain or `limitMs` are over. */
async function repeatUntil(attempt: () => Promise<boolean | 'in vain'>, limitMs: number): Promise<boolean> {
  const end = systemClock.monotonic() + limitMs;
  for (let tries = 1; ; tries++) {
    const pauseMs = backoffMs(tries, firstPauseMs, longestPauseMs);
    if (tries > 1 && systemClock.monotonic() + pauseMs >= end) return false;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    const result = await attempt();
    if (result !== false) return result === true;
  }
}
