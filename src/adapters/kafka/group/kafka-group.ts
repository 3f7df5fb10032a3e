import { loadOnce } from '../../../ground/lifecycle.ts';
import { type Connections, createConnections } from '../cluster/connections.ts';
import type { KafkaClientOptions } from '../kafka-client-options.ts';
import {
  coordinatorRequest,
  heartbeatRequest,
  joinRequest,
  leaveRequest,
  MemberIdRequired,
  syncRequest,
} from '../protocol/group-requests.ts';
import { protocolErrorIn, toSendFailure } from '../send-failure.ts';
import { type Address, keyOf, type LoadTransport, parseAddress } from '../transport.ts';
import type { GroupAccess, GroupConnection } from './group-connection.ts';

/** On top of what a broker waits for the other members. */
const answerMs = 5_000;

/** Groups by their bare requests: the consumers of the clients want topics. */
export function createKafkaGroup(options: KafkaClientOptions, load: LoadTransport): GroupAccess {
  const loadTransport = loadOnce(() => load(options));

  return {
    errorName: protocolErrorIn,
    describe: (error) => toSendFailure(error, { options, written: false }).message,

    async open(settings) {
      const { group } = settings;
      const requestTimeoutMs = settings.rebalanceTimeoutMs + answerMs;
      const open = createConnections(await loadTransport(), { ...options, requestTimeoutMs });
      try {
        const { ask } = await open.get(await findCoordinator(open, options, group));
        const join = (memberId: string, metadata: Buffer) => ask(joinRequest(settings, memberId, metadata));
        return {
          join: (memberId, metadata) =>
            join(memberId, metadata).catch((error: Error) => {
              if (error.cause instanceof MemberIdRequired) return join(error.cause.memberId, metadata);
              throw error;
            }),
          sync: (membership, assignments) => ask(syncRequest(group, membership, assignments)),
          heartbeat: (membership) => ask(heartbeatRequest(group, membership)),
          leave: ({ memberId }) => ask(leaveRequest(group, memberId)),
          close: open.close,
        } satisfies GroupConnection;
      } catch (error) {
        open.close();
        throw error;
      }
    },
  };
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
      const found = await (await open.get(seed)).ask(coordinatorRequest(group));
      if (keyOf(found) !== keyOf(seed)) open.drop(seed);
      return found;
    } catch (error) {
      if (protocolErrorIn(error) !== undefined) throw error;
      failure ??= error;
    }
  }
  throw failure;
}
