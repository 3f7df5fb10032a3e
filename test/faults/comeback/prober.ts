import { connect, type Socket } from 'node:net';

/** What a broker says of one topic, asked without any client. */
export interface Answer {
  readonly brokerCount: number;
  /** Partitions with a leader that the broker knows, and with `minInSync` replicas in sync. */
  readonly ledCount: number;
}

export interface Probe {
  readonly at: number;
  readonly what: 'port' | 'versions' | 'metadata' | 'leaders';
  readonly address: string;
}

const everyMs = 50;
const answerMs = 1_000;
const clientName = Buffer.from('svc-prober');

/**
 * Asks each broker every 50 ms, over connections of its own. Says when a port opens, when the first ApiVersions and Metadata
 * are answered, and when all partitions of the topic have leaders.
 */
export function startProber(
  addresses: readonly string[],
  topic: string,
  expected: { readonly partitions: number; readonly minInSync: number },
): { readonly firsts: Map<Probe['what'], Probe>; stop(): void } {
  const firsts = new Map<Probe['what'], Probe>();
  let stopped = false;
  const note = (what: Probe['what'], address: string): void => {
    if (!stopped && !firsts.has(what)) firsts.set(what, { at: Date.now(), what, address });
  };
  const loop = async (address: string): Promise<void> => {
    while (!stopped) {
      const socket = await open(address).catch(() => undefined);
      if (socket !== undefined) {
        note('port', address);
        try {
          const exchange = exchanges(socket);
          await exchange(request(18, 0, Buffer.alloc(0)));
          note('versions', address);
          while (!stopped) {
            const answer = readAnswer(await exchange(metadataRequest(topic)), expected.minInSync);
            if (answer.brokerCount > 0) note('metadata', address);
            if (answer.ledCount >= expected.partitions) note('leaders', address);
            await pause();
          }
        } catch {
          // It is asked again over another connection.
        } finally {
          socket.destroy();
        }
      }
      await pause();
    }
  };
  for (const address of addresses) void loop(address);
  return {
    firsts,
    stop() {
      stopped = true;
    },
  };
}

const pause = (): Promise<void> => new Promise((done) => setTimeout(done, everyMs));

function open(address: string): Promise<Socket> {
  const [host = '', port] = address.split(':');
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), host);
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.on('error', () => {});
      resolve(socket);
    });
  });
}

/** One request at a time on a connection. */
function exchanges(socket: Socket): (request: Buffer) => Promise<Buffer> {
  return (request) =>
    new Promise((resolve, reject) => {
      let received = Buffer.alloc(0);
      const end = (error?: Error): void => {
        clearTimeout(timer);
        socket.off('data', onData).off('close', onClose);
        if (error) reject(error);
        else resolve(received.subarray(8));
      };
      const onClose = (): void => end(new Error('closed'));
      const onData = (chunk: Buffer): void => {
        received = Buffer.concat([received, chunk]);
        if (received.length >= 4 && received.length >= 4 + received.readInt32BE(0)) end();
      };
      const timer = setTimeout(() => end(new Error('no answer')), answerMs);
      socket.on('data', onData).on('close', onClose);
      socket.write(request);
    });
}

function request(key: number, version: number, body: Buffer): Buffer {
  const head = Buffer.alloc(14);
  head.writeInt32BE(10 + clientName.length + body.length, 0);
  head.writeInt16BE(key, 4);
  head.writeInt16BE(version, 6);
  head.writeInt32BE(1, 8);
  head.writeInt16BE(clientName.length, 12);
  return Buffer.concat([head, clientName, body]);
}

/** Version 4: the last before lists of offline replicas, the first that makes no topic. */
function metadataRequest(topic: string): Buffer {
  const name = Buffer.from(topic);
  const body = Buffer.alloc(6);
  body.writeInt32BE(1, 0);
  body.writeInt16BE(name.length, 4);
  return request(3, 4, Buffer.concat([body, name, Buffer.from([0])]));
}

function readAnswer(bytes: Buffer, minInSync: number): Answer {
  let at = 4;
  const skip = (length: number): number => {
    at += length;
    return at - length;
  };
  const int32 = (): number => bytes.readInt32BE(skip(4));
  const int16 = (): number => bytes.readInt16BE(skip(2));
  const text = (): void => {
    const length = int16();
    at += Math.max(0, length);
  };
  const list = <T>(one: () => T): T[] => Array.from({ length: int32() }, one);
  const brokers = list(() => {
    const id = int32();
    text();
    int32();
    text();
    return id;
  });
  text();
  int32();
  const topics = list(() => {
    int16();
    text();
    at += 1;
    return list(() => {
      int16();
      int32();
      const leader = int32();
      list(int32);
      return { leader, inSync: list(int32).length };
    });
  });
  const led = (topics[0] ?? []).filter(
    ({ leader, inSync }) => brokers.includes(leader) && inSync >= minInSync,
  );
  return { brokerCount: brokers.length, ledCount: led.length };
}
