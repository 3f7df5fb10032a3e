import { SvcError } from '../../ground/errors.ts';
import type { Access, AskAccess, SendFailure, TopicAccess } from '../../publish/broker.ts';
import { type BrokerConnection, createConnections } from './connections.ts';
import { groupRefusals, refusalOf } from './group.ts';
import type { KafkaClientOptions } from './kafka-client-options.ts';
import { heartbeatRequest, metadataRequest, type TopicMetadata } from './protocol.ts';
import { type FailureScene, protocolErrorIn, protocolReason, toSendFailure } from './send-failure.ts';
import { type LoadTransport, parseAddress } from './transport.ts';

// what `svc check --online` asks a cluster, and what its answers mean.

/** Any broker has the answers at hand. All those of the configuration are tried within some 12 s. */
const longestAnswerMs = 5_000;
const shortestAnswerMs = 1_000;
const allAnswersMs = 12_000;

/** What a broker says to strangers in a group once they have the right to take part. */
const pastTheRight = new Set([
  ...['UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION', 'REBALANCE_IN_PROGRESS', 'GROUP_ID_NOT_FOUND'],
  ...['NOT_COORDINATOR', 'COORDINATOR_NOT_AVAILABLE', 'COORDINATOR_LOAD_IN_PROGRESS'],
]);

/** One broker after the other is asked, as long as none answers. */
export function createKafkaAccess(options: KafkaClientOptions, load: LoadTransport): AskAccess {
  const { brokers } = options;
  const answerMs = Math.min(longestAnswerMs, Math.max(shortestAnswerMs, allAnswersMs / brokers.length));
  const asking: KafkaClientOptions = {
    ...options,
    requestTimeoutMs: Math.min(options.requestTimeoutMs, answerMs),
    connectionTimeoutMs: Math.min(options.connectionTimeoutMs, answerMs),
  };

  /** Of somebody who is no member: that is refused, and the reason tells whether members may. */
  async function groupAccess(connection: BrokerConnection, group: string): Promise<Access> {
    try {
      await connection.ask(heartbeatRequest(group, { memberId: 'svc-check', generation: 0 }));
      return { isAllowed: true, problem: undefined };
    } catch (error) {
      const name = protocolErrorIn(error);
      if (name === undefined) throw error;
      if (pastTheRight.has(name)) return { isAllowed: true, problem: undefined };
      const problem = refusalOf(name, groupRefusals(group, options));
      return { isAllowed: problem === undefined ? undefined : false, problem };
    }
  }

  return async ({ topics, group }, signal) => {
    let failure: SendFailure | undefined;
    for (const address of brokers) {
      if (signal.aborted) break;
      let end = (): void => {};
      try {
        const connections = createConnections(await load(asking), asking);
        end = connections.close;
        signal.addEventListener('abort', end);
        const connection = await connections.get(parseAddress(address));
        const metadata = await connection.ask(metadataRequest(topics, false));
        const byName = new Map(metadata.topics.map((each) => [each.name, each]));
        return {
          cluster: { clusterId: metadata.clusterId, nodeCount: metadata.brokers.length },
          topics: topics.map((topic) => topicAccess(topic, byName.get(topic), options)),
          group: group === undefined ? undefined : await groupAccess(connection, group),
        };
      } catch (error) {
        failure ??= toSendFailure(error, { options: asking, written: false });
        // Refused by one, refused by all.
        if (failure.kind === 'fatal') break;
      } finally {
        signal.removeEventListener('abort', end);
        end();
      }
    }
    throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', failure?.message ?? 'no broker was asked');
  };
}

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
