import { SvcError } from '../ground/errors.ts';
import { isolate } from '../observe/isolate.ts';
import { can } from '../outbox/api/shape.ts';
import { type DlqFormat, toDlqRecord, toSmallerDlqRecord } from '../publish/tiers/dlq-message.ts';
import { EventValue } from '../serialize/event-value.ts';
import type { ConsumedRecord } from './consumed-event.ts';

export interface DeadLetterOptions {
  /** Another than those that are consumed. `svc dlq recover --dlq-topic` sends its events to their topics again. */
  readonly topic: string;
  /** A connected producer of `kafkajs` or `@platformatic/kafka`. */
  readonly producer: object;
  /** The two shapes of dead letters: `operations` (default) or `recovery`. */
  readonly format?: DlqFormat;
}

/** Why nobody will handle an event. Nothing of its content. */
export interface DeathCause {
  readonly eventId: string | undefined;
  readonly eventType: string | undefined;
  /** The event as its topic has it, for people who read the dead letters of Avro. */
  readonly document: unknown;
  readonly attempts: number;
  readonly cause: string;
  readonly message: string;
}

/**
 * What a dead letter holds: the event in the form that was asked for; where that is too large for the topic, the event as it is, with
 * the rest in headers; where that is too large as well, its place alone.
 */
export type LetterHolds = 'all' | 'value' | 'place';

/** Rejects where no form of the letter was taken. */
export type SendDeadLetter = (
  record: ConsumedRecord & { value: Buffer },
  cause: DeathCause,
) => Promise<LetterHolds>;

interface Letter {
  readonly key: string | null;
  readonly value: Buffer;
  readonly headers: Record<string, string>;
}

/** @throws SvcError `SVC_CONSUME_OPTIONS` */
export function deadLettersTo({ topic, producer, format = 'operations' }: DeadLetterOptions): SendDeadLetter {
  const send = senderOf(producer, topic);
  return async (record, { eventId, eventType, document, attempts, cause, message }) => {
    const { key, value, headers, timestamp } = record;
    const event = {
      eventId: eventId ?? headers.eventId ?? `${record.topic}-${record.partition}@${record.offset}`,
      eventType: eventType ?? headers.eventType ?? '',
      ...{ topic: record.topic, key: key ?? '', headers },
      value: new EventValue({ ...form, toJson: () => document }, '', []),
    };
    const failed = {
      ...{ event, topic: record.topic, attempts, failure: { kind: 'fatal' as const, cause, message } },
      record: { key, value, headers, timestamp },
    };
    const nowMs = Date.now();
    const sendForm = async (holds: LetterHolds): Promise<LetterHolds> => {
      const letter =
        holds === 'all'
          ? toDlqRecord(failed, format, nowMs)
          : toSmallerDlqRecord(failed, holds, nowMs, record);
      await isolate(() => send({ key: letter.key, value: letter.value, headers: { ...letter.headers } }));
      return holds;
    };
    for (const holds of ['all', 'value'] as const)
      try {
        return await sendForm(holds);
      } catch (error) {
        if (!isTooLarge(error)) throw error;
      }
    return sendForm('place');
  };
}

const tooLarge: readonly unknown[] = ['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE'];

/** Clients wrap what the broker has said, each in its own way. */
function isTooLarge(error: unknown, depth = 0): boolean {
  if (typeof error !== 'object' || error === null || depth > 5) return false;
  const { type, apiId, cause, errors } = error as Record<string, unknown>;
  return (
    tooLarge.includes(type) ||
    tooLarge.includes(apiId) ||
    [cause, ...(Array.isArray(errors) ? errors : [])].some((each) => isTooLarge(each, depth + 1))
  );
}

const form = { headers: {}, encoding: 'utf8' as const, publishedAt: () => '' };

function senderOf(producer: unknown, topic: string): (letter: Letter) => Promise<void> {
  if (can(producer, 'send', 'sendBatch', 'transaction'))
    return async (letter) => {
      await producer.send({ topic, acks: -1, messages: [letter] });
    };
  if (can(producer, 'send', 'initIdempotentProducer'))
    return async ({ key, value, headers }) => {
      const message = {
        ...{ topic, value, headers: new Map(bytesOf(headers)) },
        ...(key !== null && { key: Buffer.from(key) }),
      };
      await producer.send({ messages: [message], acks: -1 });
    };
  throw new SvcError(
    'SVC_CONSUME_OPTIONS',
    'deadLetters.producer must be a producer of kafkajs or @platformatic/kafka',
  );
}

function bytesOf(headers: Readonly<Record<string, string>>): [Buffer, Buffer][] {
  return Object.entries(headers).map(([name, value]) => [Buffer.from(name), Buffer.from(value)]);
}
