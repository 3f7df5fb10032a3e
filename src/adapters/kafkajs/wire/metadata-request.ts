import type { ClusterMetadata } from '../../kafka/access/kafka-access.ts';
import type { TopicMetadata } from '../../kafka/access/topic-access.ts';

/** Of `Metadata`: kafkajs stops at 6, and the rights of a user are told from 8 on. From 9 on the protocol is written otherwise. */
export const newestMetadata = 8;
/** The first with a cluster id and the leave to make no topic, in the shape that is read here. */
export const oldestMetadata = 5;
const withLeaderEpoch = 7;

export const metadataKey = 3;

/** Makes no topic. */
export function metadataBody(version: number, topics: readonly string[]): Buffer {
  const names = topics.map((topic) => Buffer.from(topic, 'utf8'));
  const flags = version >= newestMetadata ? [false, false, true] : [false];
  return Buffer.concat([
    int32(names.length),
    ...names.flatMap((name) => [int16(name.length), name]),
    Buffer.from(flags.map(Number)),
  ]);
}

export function readMetadata(version: number, bytes: Buffer): ClusterMetadata {
  let at = 0;
  const skip = (length: number): number => {
    at += length;
    return at - length;
  };
  const readInt32 = (): number => bytes.readInt32BE(skip(4));
  const readInt16 = (): number => bytes.readInt16BE(skip(2));
  const readText = (): string | null => {
    const length = readInt16();
    return length < 0 ? null : bytes.toString('utf8', skip(length), at);
  };
  const readList = <T>(readOne: () => T): T[] => Array.from({ length: readInt32() }, readOne);

  function readPartition(): { leaderId: number } {
    skip(2 + 4); // Its error, such as no leader, and its number.
    const leaderId = readInt32();
    if (version >= withLeaderEpoch) skip(4);
    for (let lists = 0; lists < 3; lists++) readList(readInt32);
    return { leaderId };
  }

  function readTopic(): TopicMetadata {
    const errorCode = readInt16();
    const name = readText();
    skip(1); // Whether it is one of Kafka's own.
    const partitions = readList(readPartition);
    const topicAuthorizedOperations = version >= newestMetadata ? readInt32() : undefined;
    return { errorCode, name, partitions, topicAuthorizedOperations };
  }

  skip(4); // How long to hold further requests.
  const brokers = readList(() => [readInt32(), readText(), readInt32(), readText()]);
  const clusterId = readText();
  skip(4); // The controller.
  return { clusterId, brokers, topics: readList(readTopic) };
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
}
