import { connect } from 'node:net';

export interface KafkaCluster {
  readonly clusterId: string;
  /** `host:port` of each broker, as it advertises itself. */
  readonly brokers: readonly string[];
}

const DESCRIBE_CLUSTER = 60;
const LONGEST_ANSWER_BYTES = 1_000_000;

/**
 * Asks a broker who is in its cluster, with Kafka's DescribeCluster request written out by hand: no client library, so no
 * retries, timers or warnings of one. Rejects when no whole answer comes within `timeoutMs`.
 */
export async function describeCluster(address: string, timeoutMs = 1_000): Promise<KafkaCluster> {
  return parseAnswer(await exchange(address, describeClusterRequest(), timeoutMs));
}

function describeClusterRequest(): Buffer {
  const client = Buffer.from('svc-services');
  const request = Buffer.alloc(4 + 2 + 2 + 4 + 2 + client.length + 1 + 1 + 1);
  let at = request.writeInt32BE(request.length - 4, 0);
  at = request.writeInt16BE(DESCRIBE_CLUSTER, at);
  at = request.writeInt16BE(0, at); // version
  at = request.writeInt32BE(1, at); // correlation id
  at = request.writeInt16BE(client.length, at);
  client.copy(request, at);
  return request; // the rest is zero: no tagged fields, no authorized operations asked for, no tagged fields
}

function exchange(address: string, request: Buffer, timeoutMs: number): Promise<Buffer> {
  const { hostname, port } = new URL(`kafka://${address}`);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port || 9092), hostname.replace(/^\[|\]$/g, ''));
    const fail = (reason: Error): void => {
      clearTimeout(timer);
      socket.destroy();
      reject(reason);
    };
    const timer = setTimeout(() => fail(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    let received: Buffer = Buffer.alloc(0);
    socket.once('error', fail);
    socket.once('close', () => fail(new Error('connection closed without an answer')));
    socket.once('connect', () => socket.write(request));
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 4) return;
      const size = received.readInt32BE(0);
      if (size < 0 || size > LONGEST_ANSWER_BYTES) return fail(new Error('not an answer of a Kafka broker'));
      if (received.length < 4 + size) return;
      clearTimeout(timer);
      socket.removeAllListeners('close');
      socket.destroy();
      resolve(received.subarray(4, 4 + size));
    });
  });
}

function parseAnswer(answer: Buffer): KafkaCluster {
  let at = 0;
  const take = (size: number): number => {
    at += size;
    return at - size;
  };
  const int16 = (): number => answer.readInt16BE(take(2));
  const int32 = (): number => answer.readInt32BE(take(4));
  const varint = (): number => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = answer.readUInt8(take(1));
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const text = (): string => {
    const length = Math.max(varint() - 1, 0); // compact strings carry length + 1, and 0 for null
    const start = take(length);
    return answer.toString('utf8', start, at);
  };
  const noTags = (): void => {
    for (let tags = varint(); tags > 0; tags--) {
      varint();
      take(varint());
    }
  };

  int32(); // correlation id
  noTags();
  int32(); // throttle time
  const errorCode = int16();
  const errorMessage = text();
  if (errorCode !== 0) throw new Error(`the broker answered error ${errorCode} ${errorMessage}`.trim());
  const clusterId = text();
  int32(); // controller id
  const brokers: string[] = [];
  for (let left = varint() - 1; left > 0; left--) {
    int32(); // broker id
    const host = text();
    brokers.push(`${host}:${int32()}`);
    text(); // rack
    noTags();
  }
  return { clusterId, brokers };
}
