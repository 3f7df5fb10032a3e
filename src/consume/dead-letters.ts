import { SvcError } from '../ground/errors.ts';
import { isolate } from '../observe/isolate.ts';
import { can } from '../outbox/api/shape.ts';
import { type DlqFormat, toDlqRecord } from '../publish/tiers/dlq-message.ts';
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

/** Rejects where the letter was not taken. */
export type SendDeadLetter = (record: ConsumedRecord & { value: Buffer }, cause: DeathCause) => Promise<void>;

interface Letter {
  readonly key: string | null;
  readonly value: Buffer;
  readonly headers: Record<string, string>;
}

/** @throws SvcError `SVC_CONSUME_OPTIONS` */
export function deadLettersTo({ topic, producer, format = 'operations' }: DeadLetterOptions): SendDeadLetter {
  const send = senderOf(producer, topic);
  return (record, { eventId, eventType, document, attempts, cause, message }) => {
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
    const letter = toDlqRecord(failed, format, Date.now());
    return isolate(() => send({ key: letter.key, value: letter.value, headers: { ...letter.headers } }));
  };
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
