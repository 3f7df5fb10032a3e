import { loadOnce } from '../../ground/lifecycle.ts';
import type { GroupAccess, GroupConnection, GroupMember } from '../kafka/group/group-connection.ts';
import type { KafkaClientOptions } from '../kafka/kafka-client-options.ts';
import { loadPlatformatic } from '../kafka/platformatic-module.ts';
import { readCertificates } from '../kafka/read-certificates.ts';
import { type Connections, createConnections, keyOf } from './connections.ts';
import { type Address, BrokerError } from './platformatic-connection.ts';
import { protocolErrorIn, toSendFailure } from './platformatic-failure.ts';
import { createSignIn } from './platformatic-sign-in.ts';
import { parseAddress } from './topics.ts';

const ofGroups = 0;
/** On top of what a broker waits for the other members. */
const answerMs = 5_000;

/** What the broker answers. */
interface Coordinators {
  readonly coordinators: readonly Address[];
}

interface JoinAnswer {
  readonly memberId: string;
  readonly generationId: number;
  readonly members: readonly GroupMember[];
}

/** Groups through the requests of `@platformatic/kafka`: its consumer wants topics. */
export function createPlatformaticGroup(options: KafkaClientOptions): GroupAccess {
  const loadConnections = loadOnce(() => load(options));

  return {
    errorName: protocolErrorIn,
    describe: (error) => toSendFailure(error, { options, written: false }).message,

    async open({ group, protocolType, protocolName, sessionTimeoutMs, rebalanceTimeoutMs }) {
      const open = (await loadConnections())(rebalanceTimeoutMs + answerMs);
      try {
        const address = await findCoordinator(open, options, group);
        const { request } = await open.get(address);
        const join = (memberId: string, metadata: Buffer): Promise<JoinAnswer> =>
          request(
            ...(['JoinGroup', group, sessionTimeoutMs, rebalanceTimeoutMs, memberId, null] as const),
            ...[protocolType, [{ name: protocolName, metadata }], null],
          );
        return {
          async join(memberId, metadata) {
            const answer = await join(memberId, metadata).catch((error) => {
              const given = givenMemberId(error);
              if (given === undefined) throw error;
              return join(given, metadata);
            });
            return { ...answer, generation: answer.generationId };
          },
          async sync({ generation, memberId }, assignments) {
            const names = [protocolType, protocolName];
            const answer = await request<{ assignment: Buffer }>(
              ...(['SyncGroup', group, generation, memberId, null, ...names, assignments] as const),
            );
            return answer.assignment;
          },
          heartbeat: ({ generation, memberId }) => request('Heartbeat', group, generation, memberId, null),
          leave: ({ memberId }) => request('LeaveGroup', group, [{ memberId, reason: null }]),
          close: open.close,
        } satisfies GroupConnection;
      } catch (error) {
        open.close();
        throw error;
      }
    },
  };
}

async function load(options: KafkaClientOptions): Promise<(requestTimeoutMs: number) => Connections> {
  const vendor = await loadPlatformatic('svc.broker.client: platformatic');
  const signIn = options.sasl && (await createSignIn(vendor, options.sasl, options.connectionTimeoutMs));
  const certificates = options.tls && readCertificates(options.tls, options.logger);
  return (requestTimeoutMs) =>
    createConnections({ vendor, options: { ...options, requestTimeoutMs }, certificates, signIn });
}

/** Asked of one broker after the other, as long as none answers. */
async function findCoordinator(
  open: Connections,
  { brokers }: KafkaClientOptions,
  group: string,
): Promise<Address> {
  let failure: unknown;
  for (const seed of brokers.map(parseAddress)) {
    try {
      const { request } = await open.get(seed);
      const { coordinators } = await request<Coordinators>('FindCoordinator', ofGroups, [group]);
      const [found] = coordinators;
      if (found === undefined) throw new BrokerError(keyOf(seed), new Error('no coordinator'));
      if (keyOf(found) !== keyOf(seed)) open.drop(seed);
      return found;
    } catch (error) {
      if (protocolErrorIn(error) !== undefined) throw error;
      failure ??= error;
    }
  }
  throw failure;
}

/** A new member is told its id, and has to come again with it. */
function givenMemberId(error: unknown): string | undefined {
  if (protocolErrorIn(error) !== 'MEMBER_ID_REQUIRED') return undefined;
  const { response } = (error as BrokerError).cause as { response?: JoinAnswer };
  return response?.memberId;
}
