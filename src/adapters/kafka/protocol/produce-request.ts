import { AnswerReader } from './bytes.ts';
import { checkCode, type KafkaRequest } from './kafka-request.ts';

export interface Produce {
  readonly topic: string;
  readonly partition: number;
  readonly acks: number;
  readonly timeoutMs: number;
  readonly batch: Buffer;
}

/** One batch for one partition. The answer is the offset of the first record. It is negative or missing if Kafka does not tell. */
export function produceRequest(produce: Produce): KafkaRequest<number | undefined> {
  return {
    ...{ key: 0, name: 'Produce', oldest: 3, newest: 8 },
    throttle: { at: 'end', from: 6 },
    write: () => [produceHead(produce), produce.batch],
    read: produce.acks === 0 ? undefined : readProduced,
  };
}

/** What stands before the batch. */
function produceHead({ topic, partition, acks, timeoutMs, batch }: Produce): Buffer {
  const bytes = Buffer.allocUnsafe(26 + topic.length);
  bytes.writeInt16BE(-1, 0); // No transaction.
  bytes.writeInt16BE(acks, 2);
  bytes.writeInt32BE(timeoutMs, 4);
  bytes.writeInt32BE(1, 8); // One topic.
  bytes.writeInt16BE(topic.length, 12);
  let at = 14 + bytes.write(topic, 14, 'latin1');
  at = bytes.writeInt32BE(1, at); // One partition.
  at = bytes.writeInt32BE(partition, at);
  bytes.writeInt32BE(batch.length, at);
  return bytes;
}

function readProduced(bytes: Buffer): number {
  const answer = new AnswerReader(bytes);
  answer.skip(4); // One topic.
  answer.text();
  answer.skip(4 + 4); // One partition, and its number.
  checkCode(answer.int16());
  return Number(answer.int64());
}
