import { sleep } from '../../ground/builtins.ts';
import { backoffMs } from '../../ground/clock.ts';
import { can } from '../../outbox/api/shape.ts';
import type { ConsumedRecord } from '../consumed-event.ts';
import { type Commit, keyOf, type RecordSink, type RecordSource, type SourceOptions } from '../source.ts';

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
  /** By `topic:partition`: where the next fetch begins. */
  readonly offsetsToFetch: Map<string, bigint>;
  close(): Promise<void>;
}

type GroupJoin = {
  readonly assignments?: readonly { readonly topic: string; readonly partitions: readonly number[] }[];
};

/** As far as svc uses it. */
interface PlatformaticConsumer {
  consume(options: object): Promise<MessagesStream>;
  commit(options: { offsets: (Commit & { leaderEpoch: number })[] }): Promise<void>;
  on(event: string, listener: (payload: GroupJoin) => void): unknown;
  removeListener(event: string, listener: (payload: GroupJoin) => void): unknown;
  close(force: boolean): Promise<void>;
}

export function isPlatformaticConsumer(given: unknown): given is PlatformaticConsumer {
  return can(given, 'consume', 'commit', 'joinGroup', 'close', 'on');
}

const bytes = (value: unknown): unknown => value;
const raw = { key: bytes, value: bytes, headerKey: bytes, headerValue: bytes };
const groupJoin = 'consumer:group:join';
/** A partition whose records were let go begins anew at the first of them. What was on its way meanwhile comes first, once or twice. */
const mostRewinds = 10;

interface Rewind {
  readonly offset: bigint;
  count: number;
}

/**
 * Its stream has all partitions in one row. One that has no room makes the stream wait; where that may take long, as its partition
 * waits, its records are let go and fetched again when there is room, so that the others go on.
 */
export function platformaticSource(
  consumer: PlatformaticConsumer,
  { topics, fromBeginning, onTrouble }: SourceOptions,
): RecordSource {
  let stream: MessagesStream | undefined;
  let reading: Promise<void> | undefined;
  let isClosed = false;
  const rewinds = new Map<string, Rewind>();
  let onJoin: ((payload: GroupJoin) => void) | undefined;

  async function open(): Promise<void> {
    stream = await consumer.consume({
      ...{ topics: [...topics], autocommit: false, mode: 'committed', deserializers: raw },
      fallbackMode: fromBeginning ? 'earliest' : 'latest',
    });
  }

  function rewind(key: string): void {
    const wanted = rewinds.get(key);
    if (wanted !== undefined) stream?.offsetsToFetch.set(key, wanted.offset);
  }

  /** False: it was let go, or comes again. */
  function isNext(record: ConsumedRecord, sink: RecordSink): boolean {
    const key = keyOf(record);
    const wanted = rewinds.get(key);
    if (sink.stateOf(record) === 'waits') {
      if (wanted === undefined) rewinds.set(key, { offset: record.offset, count: 0 });
      return false;
    }
    if (wanted === undefined || record.offset < wanted.offset) return true;
    // Its first record may be gone from the topic by now.
    if (record.offset === wanted.offset || ++wanted.count > mostRewinds) {
      rewinds.delete(key);
      return true;
    }
    rewind(key);
    return false;
  }

  async function readAll(sink: RecordSink): Promise<void> {
    for await (const message of stream as MessagesStream) {
      const record = recordOf(message);
      await sink.whenNotFull(record);
      if (isClosed) return;
      if (isNext(record, sink)) sink.push(record);
    }
  }

  /** A stream ends with the first trouble that its client has with the cluster. */
  async function readOn(sink: RecordSink): Promise<void> {
    for (let failures = 0; !isClosed; ) {
      const begun = performance.now();
      try {
        if (failures > 0) await open();
        await readAll(sink);
        if (!isClosed) throw new Error('the stream has ended');
      } catch (error) {
        if (isClosed) return;
        if (performance.now() - begun > 30_000) failures = 0;
        onTrouble(error);
        await stream?.close().catch(() => {});
        await sleep(backoffMs(++failures, 500, 10_000));
      }
    }
  }

  return {
    async start(sink) {
      onJoin = ({ assignments = [] }) => {
        const ours = assignments.flatMap(({ topic, partitions }) =>
          partitions.map((partition) => ({ topic, partition })),
        );
        sink.assigned(ours);
        const keys = new Set(ours.map(keyOf));
        // What comes back later begins with what its group knows then.
        for (const key of rewinds.keys()) if (!keys.has(key)) rewinds.delete(key);
        for (const key of stream?.offsetsToFetch.keys() ?? [])
          if (!keys.has(key)) stream?.offsetsToFetch.delete(key);
      };
      consumer.on(groupJoin, onJoin);
      await open();
      reading = readOn(sink);
    },
    hold() {},
    release: (partition) => rewind(keyOf(partition)),
    commit: (commits) =>
      consumer.commit({
        offsets: commits.map((commit) => ({ ...commit, leaderEpoch: commit.leaderEpoch ?? -1 })),
      }),
    async close() {
      isClosed = true;
      if (onJoin !== undefined) consumer.removeListener(groupJoin, onJoin);
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
