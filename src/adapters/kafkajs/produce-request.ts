import type { BrokerRecord } from '../../publish/broker.ts';
import { encodeRecordBatch } from './record-batch.ts';

export interface ProduceRequest {
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly BrokerRecord[];
  readonly acks: number;
  readonly timeoutMs: number;
}

/** The body of a produce request for one partition, of the versions 3 to 8, which all look alike. */
export function encodeProduceRequest({ topic, partition, records, acks, timeoutMs }: ProduceRequest): Buffer {
  const topicBytes = Buffer.byteLength(topic);
  const head = Buffer.allocUnsafe(2 + 2 + 4 + 4 + 2 + topicBytes + 4 + 4 + 4);
  const batch = encodeRecordBatch(records);
  let at = head.writeInt16BE(-1, 0); // no transaction
  at = head.writeInt16BE(acks, at);
  at = head.writeInt32BE(timeoutMs, at);
  at = head.writeInt32BE(1, at); // topics
  at = head.writeInt16BE(topicBytes, at);
  at += head.write(topic, at);
  at = head.writeInt32BE(1, at); // partitions
  at = head.writeInt32BE(partition, at);
  head.writeInt32BE(batch.length, at);
  return Buffer.concat([head, batch]);
}
