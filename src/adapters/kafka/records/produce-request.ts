/** From this version on Kafka's requests are "flexible": short lengths, and room for further fields. */
export const flexibleFrom = 9;

/** The newest that is written here. From 13 on Kafka wants the id of a topic in place of its name. */
export const newestProduce = 11;

export interface Produce {
  readonly topic: string;
  readonly partition: number;
  readonly acks: number;
  readonly timeoutMs: number;
  readonly batch: Buffer;
}

/** The body of a produce request for one partition, in two pieces, so that the batch is not copied. Versions 3 to `newestProduce`. */
export function produceBody(version: number, produce: Produce): [before: Buffer, after: Buffer] {
  return version >= flexibleFrom ? flexibleBody(produce) : firmBody(produce);
}

/** An empty set of further fields for the partition, the topic and the request. */
const noFields = Buffer.alloc(3);
const nothing = Buffer.alloc(0);

function flexibleBody({ topic, partition, acks, timeoutMs, batch }: Produce): [Buffer, Buffer] {
  const bytes = Buffer.allocUnsafe(32 + topic.length);
  bytes[0] = 0; // No transaction.
  bytes.writeInt16BE(acks, 1);
  bytes.writeInt32BE(timeoutMs, 3);
  bytes[7] = 2; // One topic: lengths are written one higher, for zero is "none".
  let at = writeLength(bytes, topic.length + 1, 8);
  at += bytes.write(topic, at, 'latin1');
  bytes[at++] = 2; // One partition.
  at = bytes.writeInt32BE(partition, at);
  at = writeLength(bytes, batch.length + 1, at);
  return [bytes.subarray(0, at), noFields];
}

function firmBody({ topic, partition, acks, timeoutMs, batch }: Produce): [Buffer, Buffer] {
  const bytes = Buffer.allocUnsafe(26 + topic.length);
  bytes.writeInt16BE(-1, 0); // No transaction.
  bytes.writeInt16BE(acks, 2);
  bytes.writeInt32BE(timeoutMs, 4);
  bytes.writeInt32BE(1, 8); // One topic.
  bytes.writeInt16BE(topic.length, 12);
  let at = 14 + bytes.write(topic, 14, 'latin1');
  at = bytes.writeInt32BE(1, at); // One partition.
  at = bytes.writeInt32BE(partition, at);
  at = bytes.writeInt32BE(batch.length, at);
  return [bytes.subarray(0, at), nothing];
}

/** Seven bits a byte, without a sign. */
function writeLength(bytes: Buffer, length: number, start: number): number {
  let rest = length;
  let at = start;
  while (rest >= 0x80) {
    bytes[at++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  bytes[at++] = rest;
  return at;
}
