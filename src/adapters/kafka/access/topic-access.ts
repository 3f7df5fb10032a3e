import type { TopicAccess } from '../../../publish/broker-access.ts';
import { type FailureScene, protocolReason } from '../failure-lines.ts';
import type { KafkaClientOptions } from '../kafka-client-options.ts';
import type { TopicMetadata } from '../protocol/metadata-request.ts';

/** By which a broker says that it does not tell rights. */
const untold = -2_147_483_648;
const writeRight = 1 << 4;

const isMissing = 3;
const errorNames: Readonly<Record<number, string>> = {
  5: 'LEADER_NOT_AVAILABLE',
  17: 'INVALID_TOPIC_EXCEPTION',
  29: 'TOPIC_AUTHORIZATION_FAILED',
};

export function topicAccess(
  topic: string,
  metadata: TopicMetadata | undefined,
  options: KafkaClientOptions,
): TopicAccess {
  const scene: FailureScene = { options, topic, written: false };
  if (metadata === undefined || metadata.errorCode !== 0) {
    const code = metadata?.errorCode ?? isMissing;
    const isAllowed = errorNames[code] === 'TOPIC_AUTHORIZATION_FAILED' ? false : undefined;
    return { topic, partitionCount: undefined, isAllowed, problem: whyNot(code, scene) };
  }
  const { partitions, topicAuthorizedOperations: rights = untold } = metadata;
  const isAllowed = rights === untold ? undefined : (rights & writeRight) !== 0;
  return { topic, partitionCount: partitions.length, isAllowed, problem: problemOf() };

  function problemOf(): string | undefined {
    if (isAllowed === false) return protocolReason('TOPIC_AUTHORIZATION_FAILED', scene).message;
    const hasLeaders = partitions.every(({ leaderId }) => leaderId >= 0);
    return hasLeaders ? undefined : protocolReason('LEADER_NOT_AVAILABLE', scene).message;
  }
}

function whyNot(code: number, scene: FailureScene): string {
  const topic = `topic ${JSON.stringify(scene.topic)}`;
  if (code === isMissing)
    return `${topic} does not exist: create it (brokers with auto.create.topics.enable make it with its first event)`;
  const name = errorNames[code];
  if (name !== undefined) return protocolReason(name, scene).message;
  return `Kafka tells nothing of ${topic} (error ${code})`;
}
