import type { Socket } from 'node:net';
import { requestHead } from '../protocol/kafka-request.ts';

/** Requests and answers over one socket, of which each answer has the number of its request. */
export interface SocketRequests {
  isOpen(): boolean;
  /** Resolves with the answer, without its head; where none is awaited, at once. */
  send(key: number, version: number, body: readonly Buffer[], isAnswered: boolean): Promise<Buffer>;
  /** At once: requests under way fail. */
  destroy(): void;
}

interface Waiting {
  resolve(answer: Buffer): void;
  reject(error: Error): void;
}

/** What is longer is no answer of Kafka: something else listens there. */
const longestAnswer = 256 * 1024 * 1024;
const nothing = Buffer.alloc(0);

export function createSocketRequests(socket: Socket, clientId: string): SocketRequests {
  const client = Buffer.from(clientId, 'utf8');
  const waiting = new Map<number, Waiting>();
  let lastId = 0;
  let unread: Buffer = nothing;
  let end: Error | undefined;

  function fail(error: Error): void {
    end ??= error;
    socket.destroy();
    for (const { reject } of waiting.values()) reject(end);
    waiting.clear();
  }

  function read(chunk: Buffer): void {
    unread = unread.length === 0 ? chunk : Buffer.concat([unread, chunk]);
    while (unread.length >= 8) {
      const size = unread.readInt32BE(0);
      if (size < 4 || size > longestAnswer) {
        fail(new Error('Connection closed: no answer of Kafka'));
        return;
      }
      if (unread.length < 4 + size) return;
      const id = unread.readInt32BE(4);
      waiting.get(id)?.resolve(unread.subarray(8, 4 + size));
      waiting.delete(id);
      unread = unread.subarray(4 + size);
    }
  }

  const closed = (): void => fail(new Error('Connection closed'));
  // Those of the client that has signed it in.
  socket.removeAllListeners('data');
  socket.on('data', read).on('error', fail).on('end', closed).on('close', closed);

  return {
    isOpen: () => end === undefined && socket.writable,
    send(key, version, body, isAnswered) {
      if (end !== undefined) return Promise.reject(end);
      lastId = (lastId + 1) & 0x7fffffff;
      const id = lastId;
      const head = requestHead(key, version, id, client);
      const [first = nothing, ...rest] = body;
      head.writeInt32BE(body.reduce((sum, { length }) => sum + length, head.length - 4));
      return new Promise((resolve, reject) => {
        if (isAnswered) waiting.set(id, { resolve, reject });
        socket.cork();
        socket.write(Buffer.concat([head, first]));
        for (const piece of rest) socket.write(piece);
        socket.uncork();
        if (!isAnswered) resolve(nothing);
      });
    },
    destroy: () => fail(new Error('closed by svc')),
  };
}
