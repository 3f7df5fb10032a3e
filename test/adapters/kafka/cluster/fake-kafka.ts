import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';

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
  close(): void;
}

/** One broker that says what it is told to: InitProducerId in version 1 at most, Metadata 8, Produce 8. */
export async function startFakeKafka({ hasProducerIds = true } = {}): Promise<FakeKafka> {
  let produced = 0;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}));
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
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
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
      const known = [[0, 3, 8], [3, 4, 8], [18, 0, 0], ...(hasProducerIds ? [[22, 0, 1]] : [])];
      return [i16(0), i32(known.length), ...known.flat().map(i16)];
    }
    if (key === 22) return [i32(0), i16(0), i64(7), i16(0)];
    if (key === 3) {
      const count = body.readInt32BE(0);
      const topic = count === 0 ? '' : body.toString('utf8', 6, 6 + body.readInt16BE(4));
      const partition = (index: number): Buffer =>
        Buffer.concat([i16(0), i32(index), i32(1), i32(0), i32(1), i32(1), i32(1), i32(1), i32(0)]);
      const topics =
        count === 0
          ? [i32(0)]
          : [
              ...[i32(1), i16(0), text(topic), i8(0), i32(fake.partitions)],
              ...Array.from({ length: fake.partitions }, (_, index) => partition(index)),
              i32(-1),
            ];
      return [
        ...[i32(0), i32(1), i32(1), text('127.0.0.1'), i32(port), i16(-1), text('fake'), i32(1)],
        ...topics,
        i32(-1),
      ];
    }
    const topicLength = body.readInt16BE(12);
    const topic = body.toString('utf8', 14, 14 + topicLength);
    const index = body.readInt32BE(18 + topicLength);
    return [
      ...[i32(1), text(topic), i32(1), i32(index), i16(fake.produceError), i64(produced++), i64(-1), i64(0)],
      ...[i32(0), i16(-1), i32(fake.throttleMs)],
    ];
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
