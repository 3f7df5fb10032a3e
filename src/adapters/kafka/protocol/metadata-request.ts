import { AnswerReader, list, text } from './bytes.ts';
import type { KafkaRequest } from './kafka-request.ts';

export interface Node {
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
}

/** Of one topic; a refusal is its own, and says nothing of the others. */
export interface TopicMetadata {
  readonly errorCode: number;
  readonly name: string | null;
  /** `leaderId`: negative where there is none now. */
  readonly partitions: readonly { readonly partition: number; readonly leaderId: number }[];
  /** One bit for each right. Not there before version 8. */
  readonly topicAuthorizedOperations?: number | undefined;
}

export interface ClusterMetadata {
  readonly clusterId: string | null;
  readonly brokers: readonly Node[];
  readonly topics: readonly TopicMetadata[];
}

/** The rights of a user are told from here on. */
const withRights = 8;
const withLeaderEpoch = 7;
const withOfflineReplicas = 5;

/** @param topics none: only the cluster itself. @param mayCreate whether Kafka may make a topic that is not there */
export function metadataRequest(
  topics: readonly string[],
  mayCreate: boolean,
): KafkaRequest<ClusterMetadata> {
  return {
    // The first of them is the first with the leave to make no topic.
    ...{ key: 3, name: 'Metadata', oldest: 4, newest: withRights },
    throttle: { at: 'start', from: 6 },
    write(version) {
      const flags = version >= withRights ? [mayCreate, false, true] : [mayCreate];
      return [list(topics, text), Buffer.from(flags.map(Number))];
    },
    read: readMetadata,
  };
}

function readMetadata(bytes: Buffer, version: number): ClusterMetadata {
  const answer = new AnswerReader(bytes);
  answer.skip(4); // How long to hold further requests.
  const brokers = answer.list(() => {
    const node = { nodeId: answer.int32(), host: answer.text() ?? '', port: answer.int32() };
    answer.text(); // Its rack.
    return node;
  });
  const clusterId = answer.text();
  answer.skip(4); // The controller.
  const topics = answer.list(() => {
    const errorCode = answer.int16();
    const name = answer.text();
    answer.skip(1); // Whether it is one of Kafka's own.
    const partitions = answer.list(readPartition);
    return { errorCode, name, partitions, topicAuthorizedOperations: rights() };
  });
  return { clusterId, brokers, topics };

  function readPartition(): TopicMetadata['partitions'][number] {
    answer.skip(2); // Its error, such as no leader.
    const [partition, leaderId] = [answer.int32(), answer.int32()];
    if (version >= withLeaderEpoch) answer.skip(4);
    for (let lists = version >= withOfflineReplicas ? 3 : 2; lists > 0; lists--)
      answer.list(() => answer.int32());
    return { partition, leaderId };
  }

  function rights(): number | undefined {
    return version >= withRights ? answer.int32() : undefined;
  }
}
