import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
// @ts-expect-error kafkajs has no types for its inner modules.
import Decoder from 'kafkajs/src/protocol/decoder.js';
// @ts-expect-error kafkajs has no types for its inner modules.
import decodeBatch from 'kafkajs/src/protocol/recordBatch/v0/decoder.js';

/** A record of a topic, as kafkajs reads it out of the batch that was sent. */
export interface FakeRecord {
  readonly key: string | null;
  readonly value: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface FakeKafka {
  readonly address: string;
  /** Keys of the requests, without their versions' question, with the time of each. */
  readonly requests: { readonly key: number; readonly atMs: number }[];
  /** What the next answers say of quotas, in milliseconds: for produce requests. */
  throttleMs: number;
  /** Error of the next produce answer, by its number. */
  produceError: number;
  /** An answer is written so much later; `undefined`: never. */
  answerAfterMs: number | undefined;
  partitions: number;
  /** The error of each topic in metadata, by its number. */
  topicError: number;
  /** Of each partition. */
  leaderId: number;
  /** What the user may do with each topic; `undefined`: metadata in version 7, which does not tell. */
  rights: number | undefined;
  /** The records of a topic, partition by partition, in the order in which they were stored. */
  read(topic: string): Promise<FakeRecord[]>;
  /** Cuts all connections and refuses new ones. What was stored stays. */
  close(): void;
  /** After `close`: listens at the same address again. */
  reopen(): Promise<void>;
}

interface Stored {
  readonly topic: string;
  readonly partition: number;
  readonly batch: Buffer;
}

/**
 * One broker that says what it is told to, and stores in memory what it is sent: InitProducerId in version 1 at most, Metadata 8,
 * Produce 8. A batch that an idempotent producer sends again is stored once. Every topic that is asked for exists.
 */
export async function startFakeKafka({ hasProducerIds = true } = {}): Promise<FakeKafka> {
  const stored: Stored[] = [];
  /** Offset of the first record of each batch, by who sent it; and of the next one of each partition. */
  const places = new Map<string, number>();
  const ends = new Map<string, number>();
  let producers = 6;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)));
    let unread = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      unread = Buffer.concat([unread, chunk]);
      while (unread.length >= 4 && unread.length >= 4 + unread.readInt32BE(0)) {
        const request = unread.subarray(4, 4 + unread.readInt32BE(0));
        unread = unread.subarray(4 + request.length);
        answer(socket, request);
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const fake: FakeKafka = {
    address: `127.0.0.1:${port}`,
    requests: [],
    throttleMs: 0,
    produceError: 0,
    answerAfterMs: 0,
    partitions: 1,
    topicError: 0,
    leaderId: 1,
    rights: -1,
    async read(topic) {
      const own = stored.filter((each) => each.topic === topic).sort((a, b) => a.partition - b.partition);
      return (await Promise.all(own.map(({ batch }) => recordsOf(batch)))).flat();
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
      sockets.clear();
    },
    async reopen() {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
    },
  };

  const int = (bytes: number, value: number): Buffer => {
    const buffer = Buffer.alloc(bytes);
    buffer.writeIntBE(value, 0, bytes);
    return buffer;
  };
  const [i8, i16, i32] = [1, 2, 4].map((bytes) => (value: number) => int(bytes, value)) as [
    (value: number) => Buffer,
    (value: number) => Buffer,
    (value: number) => Buffer,
  ];
  const i64 = (value: number): Buffer => Buffer.concat([i32(value < 0 ? -1 : 0), i32(value)]);
  const text = (value: string): Buffer => Buffer.concat([i16(value.length), Buffer.from(value)]);

  function bodyOf(key: number, request: Buffer): Buffer[] {
    const body = request.subarray(10 + request.readInt16BE(8));
    if (key === 18) {
      // Too new: it is asked again.
      if (request.readInt16BE(2) > 0) return [i16(35), i32(0)];
      const known = [
        [0, 3, 8],
        [3, 4, fake.rights === undefined ? 7 : 8],
        [18, 0, 0],
        ...(hasProducerIds ? [[22, 0, 1]] : []),
      ];
      return [i16(0), i32(known.length), ...known.flat().map(i16)];
    }
    if (key === 22) return [i32(0), i16(0), i64(++producers), i16(0)];
    if (key === 3) {
      const names: string[] = [];
      for (let left = body.readInt32BE(0), at = 4; left > 0; left--) {
        const length = body.readInt16BE(at);
        names.push(body.toString('utf8', at + 2, at + 2 + length));
        at += 2 + length;
      }
      const partition = (index: number): Buffer =>
        Buffer.concat([
          ...[i16(0), i32(index), i32(fake.leaderId), i32(0)],
          ...[i32(1), i32(1), i32(1), i32(1), i32(0)],
        ]);
      const topics = names.flatMap((name) => [
        ...[i16(fake.topicError), text(name), i8(0), i32(fake.partitions)],
        ...Array.from({ length: fake.partitions }, (_, index) => partition(index)),
        ...(fake.rights === undefined ? [] : [i32(fake.rights)]),
      ]);
      return [
        ...[i32(0), i32(1), i32(1), text('127.0.0.1'), i32(port), i16(-1), text('fake'), i32(1)],
        ...[i32(names.length), ...topics],
        // The rights on the cluster.
        ...(fake.rights === undefined ? [] : [i32(-1)]),
      ];
    }
    const topicLength = body.readInt16BE(12);
    const topic = body.toString('utf8', 14, 14 + topicLength);
    const partition = body.readInt32BE(18 + topicLength);
    const batch = Buffer.from(body.subarray(26 + topicLength));
    const offset = fake.produceError === 0 ? store(topic, partition, batch) : -1;
    return [
      ...[i32(1), text(topic), i32(1), i32(partition), i16(fake.produceError), i64(offset), i64(-1), i64(0)],
      ...[i32(0), i16(-1), i32(fake.throttleMs)],
    ];
  }

  /** The offset of its first record; of a batch that is there, the one that it has. */
  function store(topic: string, partition: number, batch: Buffer): number {
    // The id of its producer, the epoch, and the number of its first record.
    const place = `${topic}/${partition}/${batch.toString('hex', 43, 57)}`;
    const before = batch.readBigInt64BE(43) < 0n ? undefined : places.get(place);
    if (before !== undefined) return before;
    const offset = ends.get(`${topic}/${partition}`) ?? 0;
    ends.set(`${topic}/${partition}`, offset + batch.readInt32BE(57));
    places.set(place, offset);
    stored.push({ topic, partition, batch });
    return offset;
  }

  function answer(socket: Socket, request: Buffer): void {
    const key = request.readInt16BE(0);
    if (key !== 18) fake.requests.push({ key, atMs: performance.now() });
    const body = Buffer.concat([request.subarray(4, 8), ...bodyOf(key, request)]);
    const write = (): void => void socket.write(Buffer.concat([i32(body.length), body]));
    if (key !== 0 || fake.answerAfterMs === 0) write();
    else if (fake.answerAfterMs !== undefined) setTimeout(write, fake.answerAfterMs);
  }

  return fake;
}

async function recordsOf(batch: Buffer): Promise<FakeRecord[]> {
  const { records } = (await decodeBatch(new Decoder(batch))) as {
    records: { key: Buffer | null; value: Buffer; headers: Record<string, Buffer> }[];
  };
  return records.map(({ key, value, headers }) => ({
    key: key?.toString() ?? null,
    value: value.toString(),
    headers: Object.fromEntries(Object.entries(headers).map(([name, each]) => [name, each.toString()])),
  }));
}
