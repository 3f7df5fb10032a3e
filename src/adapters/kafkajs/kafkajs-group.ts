import { loadOnce } from '../../ground/lifecycle.ts';
import type { GroupAccess, GroupConnection } from '../kafka/group/group-connection.ts';
import { brokerPoolOf } from './broker-pool.ts';
import { type KafkajsClient, type KafkajsClientOptions, loadKafkajs } from './kafkajs-client.ts';
import { connectThroughSeeds } from './kafkajs-connect.ts';
import { protocolErrorIn, toSendFailure } from './kafkajs-failure.ts';

/** What of kafkajs' classes is used here: its consumer wants topics, and what is below it takes part in any group. */
interface GroupBroker {
  readonly brokerAddress: string;
  findGroupCoordinator(request: {
    groupId: string;
    coordinatorType: number;
  }): Promise<{ readonly coordinator: { readonly host: string; readonly port: number } }>;
  joinGroup(request: object): Promise<{
    readonly memberId: string;
    readonly generationId: number;
    readonly members: readonly { readonly memberId: string; readonly memberMetadata: Buffer }[];
  }>;
  syncGroup(request: object): Promise<{ readonly memberAssignment: Buffer }>;
  heartbeat(request: object): Promise<unknown>;
  leaveGroup(request: object): Promise<unknown>;
}

interface Opened {
  readonly client: KafkajsClient;
  readonly broker: GroupBroker;
}

const ofGroups = 0;
/** On top of what a broker waits for the other members. */
const answerMs = 5_000;

export function createKafkajsGroup(options: KafkajsClientOptions): GroupAccess {
  const loadClient = loadOnce(() => loadKafkajs(options));

  async function openBroker(brokers: readonly string[], requestTimeoutMs: number): Promise<Opened> {
    const client = (await loadClient())({ brokers, requestTimeoutMs });
    try {
      const pool = brokerPoolOf<GroupBroker>(client);
      await connectThroughSeeds(pool, brokers.length);
      return { client, broker: pool.seedBroker };
    } catch (error) {
      client.destroySockets();
      throw error;
    }
  }

  async function openCoordinator(groupId: string, requestTimeoutMs: number): Promise<Opened> {
    const any = await openBroker(options.brokers, requestTimeoutMs);
    let isCoordinator = false;
    try {
      const answer = await any.broker.findGroupCoordinator({ groupId, coordinatorType: ofGroups });
      const address = `${answer.coordinator.host}:${answer.coordinator.port}`;
      isCoordinator = address === any.broker.brokerAddress;
      return isCoordinator ? any : await openBroker([address], requestTimeoutMs);
    } finally {
      if (!isCoordinator) any.client.destroySockets();
    }
  }

  return {
    errorName: protocolErrorIn,
    describe: (error) => toSendFailure(error, { options, written: false }).message,

    async open({ group: groupId, protocolName, ...settings }) {
      const { client, broker } = await openCoordinator(groupId, settings.rebalanceTimeoutMs + answerMs);
      const { protocolType } = settings;
      const timeouts = {
        sessionTimeout: settings.sessionTimeoutMs,
        rebalanceTimeout: settings.rebalanceTimeoutMs,
      };
      return {
        async join(memberId, metadata) {
          const groupProtocols = [{ name: protocolName, metadata }];
          const request = { groupId, ...timeouts, memberId, protocolType, groupProtocols };
          const { members, generationId, ...joined } = await broker.joinGroup(request);
          return {
            memberId: joined.memberId,
            generation: generationId,
            members: members.map((each) => ({ memberId: each.memberId, metadata: each.memberMetadata })),
          };
        },
        async sync({ memberId, generation: generationId }, assignments) {
          const groupAssignment = assignments.map((each) => ({
            memberId: each.memberId,
            memberAssignment: each.assignment,
          }));
          return (await broker.syncGroup({ groupId, generationId, memberId, groupAssignment }))
            .memberAssignment;
        },
        async heartbeat({ memberId, generation: groupGenerationId }) {
          await broker.heartbeat({ groupId, groupGenerationId, memberId });
        },
        async leave({ memberId }) {
          await broker.leaveGroup({ groupId, memberId });
        },
        close: client.destroySockets,
      } satisfies GroupConnection;
    },
  };
}
