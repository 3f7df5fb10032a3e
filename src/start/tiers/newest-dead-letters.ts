import { inTime } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import type {
  DeadLetterAsk,
  DeadLettersOfTopic,
  DeadLetterTopic,
  StoredDeadLetter,
} from '../../manage/controls.ts';
import { printable } from '../../observe/logger.ts';
import { isolate } from '../../observe/otel-api.ts';
import { type DeadLetterHead, headOfDlqRecord } from '../../publish/tiers/dlq-message.ts';
import type { TopicRecord, TopicTail } from '../../publish/topic-reader.ts';

/** Whoever waits hears of a broker that does not answer, or gets what was found by then. */
const patienceMs = 5_000;
/** The process has other things to do: `svc dlq list` reads on. */
const mostRead = 20_000;

/** The newest dead letters of a topic, read from its end on, one question at a time. */
export function createNewestDeadLetters(
  topic: string,
  openTail: (sinceMs: number) => Promise<TopicTail>,
  limits = { patienceMs, mostRead },
): Pick<DeadLetterTopic, 'newest'> {
  let isAsked = false;

  async function look(ask: DeadLetterAsk, found: Found, signal: AbortSignal): Promise<void> {
    const tail = await openTail(ask.since ?? 0);
    try {
      await tail.open();
      let count = ask.limit;
      while (!signal.aborted && found.read < limits.mostRead && !found.isEnough(tail.partitionsLeft())) {
        for await (const records of tail.older(count, signal)) found.add(records);
        count *= 2;
      }
      found.isComplete = !signal.aborted && tail.partitionsLeft().length === 0;
    } finally {
      await tail.close();
    }
  }

  return {
    newest(ask) {
      if (isAsked) return undefined;
      isAsked = true;
      const stopping = new AbortController();
      const found = collect(ask);
      const looked = isolate(() => look(ask, found, stopping.signal));
      const over = (): void => {
        isAsked = false;
      };
      looked.then(over, over);
      const late = (): void => {
        stopping.abort();
        if (found.read === 0)
          throw new SvcError(
            'SVC_ADAPTERS_NOT_REACHABLE',
            `topic "${topic}" could not be read within ${limits.patienceMs / 1_000} s`,
          );
      };
      const answered = inTime(looked, { limitMs: limits.patienceMs, keepsAlive: false, late });
      return answered.then(() => found.result(topic));
    },
  };
}

type Row = StoredDeadLetter & { readonly atMs: number };
type Found = ReturnType<typeof collect>;

/** Keeps what was asked for, and as much of it; no record stays in memory. */
function collect({ types, reasons, topics, since, until, limit }: DeadLetterAsk) {
  let rows: Row[] = [];
  /** Partition -> time of the oldest record that was looked at. */
  const oldest = new Map<number, number>();
  const isWanted = ({ eventType, topic, storedAt }: DeadLetterHead, reason: string | null): boolean =>
    (types === undefined || types.includes(eventType)) &&
    (reasons === undefined || (reason !== null && reasons.includes(reason))) &&
    (topics === undefined || (topic !== undefined && topics.includes(topic))) &&
    (since === undefined || storedAt >= since) &&
    (until === undefined || storedAt < until);
  return {
    read: 0,
    unreadable: 0,
    matched: 0,
    isComplete: false,
    add(records: readonly TopicRecord[]): void {
      for (const record of records) {
        const { partition, offset, timestamp } = record;
        this.read++;
        oldest.set(partition, Math.min(timestamp, oldest.get(partition) ?? timestamp));
        const head = headOfDlqRecord(record);
        if (typeof head === 'string') {
          this.unreadable++;
          continue;
        }
        const reason = className(head.reason);
        if (!isWanted(head, reason)) continue;
        this.matched++;
        rows.push(rowOf(head, reason, partition, offset));
      }
      if (rows.length > 2 * limit) rows = newestOf(rows, limit);
    },
    /** Nothing that was not looked at is newer than what is there. */
    isEnough(left: readonly number[]): boolean {
      if (left.length === 0) return true;
      rows = newestOf(rows, limit);
      const last = rows[limit - 1];
      return last !== undefined && left.every((partition) => (oldest.get(partition) ?? 0) <= last.atMs);
    },
    result(topic: string): DeadLettersOfTopic {
      const deadLetters = newestOf(rows, limit).map(({ atMs: _, ...row }) => row);
      const { read, unreadable, matched, isComplete } = this;
      return { topic, deadLetters, read, unreadable, complete: isComplete && matched <= limit };
    },
  };
}

function newestOf(rows: readonly Row[], limit: number): Row[] {
  return [...rows].sort((one, other) => other.atMs - one.atMs || other.offset - one.offset).slice(0, limit);
}

function rowOf(
  { eventId, eventType, topic, storedAt }: DeadLetterHead,
  failureReason: string | null,
  partition: number,
  offset: number,
): Row {
  return {
    ...{ eventId: shown(eventId), eventType: eventType === '' ? null : shown(eventType), failureReason },
    originalTopic: topic === undefined ? null : shown(topic),
    ...{ timestamp: new Date(storedAt).toISOString(), partition, offset, atMs: storedAt },
  };
}

const mostCharacters = 200;
const shown = (text: string): string => printable(text).slice(0, mostCharacters);

/** Of `TimeoutException: late`, that others wrote, the name: what follows it may say anything. */
function className(reason: string | undefined): string | null {
  const [, name] = /^([\w.$-]{1,200})(:|$)/.exec(reason ?? '') ?? [];
  return name ?? null;
}
