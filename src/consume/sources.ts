import { sleep } from '../ground/builtins.ts';
import { backoffMs } from '../ground/clock.ts';
import { can, has } from '../outbox/api/executor.ts';
import type { ConsumedRecord } from './consumed-event.ts';
import { type Commit, keyOf, type RecordSink, type RecordSource, type SourceOptions } from './source.ts';

// the consumers of the clients of Kafka, known by what they can do.

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

interface PlatformaticMessage {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  readonly key: Buffer | string | undefined;
  readonly value: Buffer | string | undefined;
  readonly timestamp: bigint;
  readonly headers: ReadonlyMap<Buffer | string, Buffer | string>;
  readonly leaderEpoch: number;
}

interface MessagesStream extends AsyncIterable<PlatformaticMessage> {
  close(): Promise<void>;
}

type Assignments = readonly { readonly topic: string; readonly partitions: readonly number[] }[];

/** As far as svc uses it. */
interface PlatformaticConsumer {
  /** Another array whenever they change. */
  readonly assignments: Assignments | null;
  consume(options: object): Promise<MessagesStream>;
  commit(options: { offsets: (Commit & { leaderEpoch: number })[] }): Promise<void>;
  on(event: string, listener: () => void): unknown;
  removeListener(event: string, listener: () => void): unknown;
  close(force: boolean): Promise<void>;
}

export function isPlatformaticConsumer(given: unknown): given is PlatformaticConsumer {
  return can(given, 'consume', 'commit', 'joinGroup', 'close', 'on');
}

const bytes = (value: unknown): unknown => value;
const raw = { key: bytes, value: bytes, headerKey: bytes, headerValue: bytes };
const groupJoin = 'consumer:group:join';

/**
 * Its stream has all partitions in one row. One that has no room makes the stream wait; where that may take long, as its partition
 * waits, its records are let go, so that the others go on. When there is room again, another stream begins at what is committed: what
 * the last one has read ahead, or is reading, would come in place of what was let go. So it is where a partition goes to another member,
 * as it may come back. Records that are there twice are known by their offsets.
 */
export function platformaticSource(
  consumer: PlatformaticConsumer,
  { topics, fromBeginning, onTrouble }: SourceOptions,
): RecordSource {
  let stream: MessagesStream | undefined;
  /** Streams that were asked for. */
  let wanted = 0;
  /** The number of the stream among them. */
  let opened = 0;
  let opening: Promise<void> = Promise.resolve();
  let reading: Promise<void> | undefined;
  let isClosed = false;
  let assignments: Assignments | null = null;
  let ours: ReadonlySet<string> = new Set();
  const letGo = new Set<string>();
  let lookAtAssignments = (): void => {};

  /** The last stream is closed behind it: a consumer without any stream joins its group anew. */
  async function open(own: number): Promise<void> {
    if (own < wanted || isClosed) return;
    const last = stream;
    letGo.clear();
    try {
      stream = await consumer.consume({
        ...{ topics: [...topics], autocommit: false, mode: 'committed', deserializers: raw },
        fallbackMode: fromBeginning ? 'earliest' : 'latest',
      });
      opened = own;
    } finally {
      await last?.close().catch(() => {});
    }
  }

  function openNext(): Promise<void> {
    const own = ++wanted;
    opening = opening.catch(() => {}).then(() => open(own));
    // Whoever reads is told of it.
    opening.catch(() => {});
    return opening;
  }

  async function readAll(sink: RecordSink): Promise<void> {
    const own = opened;
    for await (const message of stream as MessagesStream) {
      const record = recordOf(message);
      lookAtAssignments();
      if (own === wanted) await sink.whenNotFull(record);
      if (isClosed) return;
      if (own !== wanted) continue;
      if (sink.stateOf(record) === 'waits') letGo.add(keyOf(record));
      else if (!letGo.has(keyOf(record))) sink.push(record);
    }
    if (own === wanted) throw new Error('the stream has ended');
  }

  /** A stream ends with the first trouble that its client has with the cluster. */
  async function readOn(sink: RecordSink): Promise<void> {
    for (let failures = 0; !isClosed; ) {
      const begun = performance.now();
      try {
        await opening;
        await readAll(sink);
      } catch (error) {
        if (isClosed) return;
        if (performance.now() - begun > 30_000) failures = 0;
        onTrouble(error);
        await sleep(backoffMs(++failures, 500, 10_000));
        void openNext();
      }
    }
  }

  return {
    async start(sink) {
      // By the property: with `groupProtocol: 'consumer'` no event tells of them.
      lookAtAssignments = () => {
        if (consumer.assignments === assignments) return;
        assignments = consumer.assignments;
        const partitions = (assignments ?? []).flatMap(({ topic, partitions }) =>
          partitions.map((partition) => ({ topic, partition })),
        );
        sink.assigned(partitions);
        const before = ours;
        ours = new Set(partitions.map(keyOf));
        if ([...before].some((key) => !ours.has(key))) void openNext();
      };
      consumer.on(groupJoin, lookAtAssignments);
      await openNext();
      reading = readOn(sink);
    },
    hold() {},
    release(partition) {
      if (letGo.has(keyOf(partition))) void openNext();
    },
    commit(commits) {
      lookAtAssignments();
      return consumer.commit({
        offsets: commits.map((commit) => ({ ...commit, leaderEpoch: commit.leaderEpoch ?? -1 })),
      });
    },
    async close() {
      isClosed = true;
      consumer.removeListener(groupJoin, lookAtAssignments);
      await opening.catch(() => {});
      await stream?.close();
      await consumer.close(true);
      await reading;
    },
  };
}

function recordOf(message: PlatformaticMessage): ConsumedRecord {
  const { topic, partition, offset, key, value, timestamp, leaderEpoch } = message;
  const headers: Record<string, string> = {};
  for (const [name, text] of message.headers)
    if (String(name) !== '__proto__') headers[String(name)] = String(text ?? '');
  return {
    ...{ topic, partition, offset, headers, leaderEpoch, timestamp: Number(timestamp) },
    key: key === undefined || key === null ? null : String(key),
    value: value === undefined || value === null ? null : Buffer.from(value),
  };
}
