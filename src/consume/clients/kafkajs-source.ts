// clients/: the consumers of the clients of Kafka, known by what they can do.

import { sleep } from '../../ground/builtins.ts';
import { backoffMs } from '../../ground/clock.ts';
import { can, has } from '../../outbox/api/shape.ts';
import type { ConsumedRecord } from '../consumed-event.ts';
import type { RecordSink, RecordSource, SourceOptions } from '../source.ts';

type HeaderValue = Buffer | string | (Buffer | string)[] | undefined;

/** As far as svc uses it. */
interface KafkajsConsumer {
  readonly events: { readonly GROUP_JOIN: string; readonly CRASH: string };
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  subscribe(options: { topics: string[]; fromBeginning: boolean }): Promise<void>;
  run(options: {
    autoCommit: false;
    partitionsConsumedConcurrently: number;
    eachBatch(payload: { batch: KafkajsBatch }): Promise<void>;
  }): Promise<void>;
  on(
    event: string,
    listener: (event: {
      payload: { memberAssignment: Record<string, number[]>; error: Error; restart: boolean };
    }) => void,
  ): () => void;
  pause(partitions: { topic: string; partitions: number[] }[]): void;
  resume(partitions: { topic: string; partitions: number[] }[]): void;
  commitOffsets(offsets: { topic: string; partition: number; offset: string }[]): Promise<void>;
}

interface KafkajsBatch {
  readonly topic: string;
  readonly partition: number;
  readonly messages: readonly {
    readonly offset: string;
    readonly key: Buffer | string | null;
    readonly value: Buffer | string | null;
    readonly timestamp: string;
    readonly headers?: Readonly<Record<string, HeaderValue>>;
  }[];
}

export function isKafkajsConsumer(given: unknown): given is KafkajsConsumer {
  return can(given, 'subscribe', 'run', 'pause', 'resume', 'commitOffsets') && has(given, 'events');
}

/** Records are handed on at once, so that the client goes on with the other partitions and with its heartbeats. */
export function kafkajsSource(
  consumer: KafkajsConsumer,
  { topics, fromBeginning, onTrouble }: SourceOptions,
): RecordSource {
  const ends: (() => void)[] = [];
  /** Between two groups it has no partitions, and throws. */
  const tryTo = (work: () => void): void => {
    try {
      work();
    } catch {}
  };
  let isClosed = false;

  async function open(sink: RecordSink): Promise<void> {
    await consumer.connect();
    await consumer.subscribe({ topics: [...topics], fromBeginning });
    await consumer.run({
      autoCommit: false,
      partitionsConsumedConcurrently: 1,
      async eachBatch({ batch: { topic, partition, messages } }) {
        for (const { offset, key, value, timestamp, headers } of messages)
          sink.push({
            ...{ topic, partition, offset: BigInt(offset), timestamp: Number(timestamp) },
            key: key === null ? null : key.toString(),
            value: typeof value === 'string' ? Buffer.from(value) : value,
            headers: textsOf(headers ?? {}),
          });
      },
    });
  }

  /** The client gives up where it takes an error for one that stays, such as some of a broker that was just started. */
  async function openAgain(sink: RecordSink): Promise<void> {
    for (let failures = 1; ; failures++) {
      await sleep(backoffMs(failures, 500, 10_000));
      if (isClosed) return;
      try {
        await open(sink);
        return;
      } catch (error) {
        onTrouble(error);
      }
    }
  }

  return {
    async start(sink: RecordSink) {
      const { GROUP_JOIN, CRASH } = consumer.events;
      ends.push(
        consumer.on(GROUP_JOIN, ({ payload: { memberAssignment } }) =>
          sink.assigned(
            Object.entries(memberAssignment).flatMap(([topic, partitions]) =>
              partitions.map((partition) => ({ topic, partition })),
            ),
          ),
        ),
        consumer.on(CRASH, ({ payload: { error, restart } }) => {
          onTrouble(error);
          if (!restart) void openAgain(sink);
        }),
      );
      await open(sink);
    },
    hold: ({ topic, partition }) => tryTo(() => consumer.pause([{ topic, partitions: [partition] }])),
    release: ({ topic, partition }) => tryTo(() => consumer.resume([{ topic, partitions: [partition] }])),
    commit: (commits) =>
      consumer.commitOffsets(
        commits.map(({ topic, partition, offset }) => ({ topic, partition, offset: String(offset) })),
      ),
    async close() {
      isClosed = true;
      for (const end of ends) end();
      await consumer.disconnect();
    },
  };
}

function textsOf(headers: Readonly<Record<string, HeaderValue>>): ConsumedRecord['headers'] {
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const first = Array.isArray(value) ? value[0] : value;
    if (first !== undefined && first !== null && name !== '__proto__') texts[name] = first.toString();
  }
  return texts;
}
