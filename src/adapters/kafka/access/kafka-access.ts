// access/: what `svc check --online` asks a cluster, and what its answers mean.

import { SvcError } from '../../../ground/errors.ts';
import type { SendFailure } from '../../../publish/broker.ts';
import type { Access, AskAccess } from '../../../publish/broker-access.ts';
import type { FailureScene } from '../failure-lines.ts';
import { groupRefusals, refusalOf } from '../group/group-refusals.ts';
import type { KafkaClientOptions } from '../kafka-client-options.ts';
import { type TopicMetadata, topicAccess } from './topic-access.ts';

/** A connection to one broker, for questions. Calls reject with errors of the client. */
export interface AccessConnection {
  /** With the rights of this user, and without making a topic. */
  metadata(topics: readonly string[]): Promise<ClusterMetadata>;
  /** Of somebody who is no member of the group: it is refused, and the reason tells whether members may. */
  heartbeat(group: string, memberId: string): Promise<unknown>;
}

export interface ClusterMetadata {
  readonly clusterId: string | null;
  readonly brokers: readonly unknown[];
  readonly topics: readonly TopicMetadata[];
}

export interface KafkaAccessParts {
  readonly options: KafkaClientOptions;
  /** `signal` ends the connection, at once. */
  open(address: string, options: KafkaClientOptions, signal: AbortSignal): Promise<AccessConnection>;
  toSendFailure(error: unknown, scene: FailureScene): SendFailure;
  /** Of Kafka's protocol, where it was Kafka that refused. */
  errorName(error: unknown): string | undefined;
}

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
export function createKafkaAccess({ options, open, toSendFailure, errorName }: KafkaAccessParts): AskAccess {
  const { brokers } = options;
  const answerMs = Math.min(longestAnswerMs, Math.max(shortestAnswerMs, allAnswersMs / brokers.length));
  const asking: KafkaClientOptions = {
    ...options,
    requestTimeoutMs: Math.min(options.requestTimeoutMs, answerMs),
    connectionTimeoutMs: Math.min(options.connectionTimeoutMs, answerMs),
  };

  async function groupAccess(connection: AccessConnection, group: string): Promise<Access> {
    try {
      await connection.heartbeat(group, 'svc-check');
      return { isAllowed: true, problem: undefined };
    } catch (error) {
      const name = errorName(error);
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
      const ending = new AbortController();
      const end = (): void => ending.abort();
      signal.addEventListener('abort', end);
      try {
        const connection = await open(address, { ...asking, brokers: [address] }, ending.signal);
        const metadata = await connection.metadata(topics);
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
