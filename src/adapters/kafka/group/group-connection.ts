import type { GroupAssignment, GroupSettings, Joined, Membership } from '../protocol/group-requests.ts';

/**
 * A connection to the coordinator of a group, for this group alone: a broker answers the requests of a connection in turn,
 * and joining takes seconds. Calls reject with errors of the client, and when the connection is closed.
 */
export interface GroupConnection {
  /** An empty `memberId`: as a new member. */
  join(memberId: string, metadata: Buffer): Promise<Joined>;
  /** `assignments`: from the leader only. Resolves with what it gave to this member. */
  sync(membership: Membership, assignments: readonly GroupAssignment[]): Promise<Buffer>;
  heartbeat(membership: Membership): Promise<void>;
  leave(membership: Membership): Promise<void>;
  /** At once. */
  close(): void;
}

/** How one client of Kafka takes part in a group. */
export interface GroupAccess {
  open(settings: GroupSettings): Promise<GroupConnection>;
  /** Of Kafka's protocol, such as `REBALANCE_IN_PROGRESS`, where it was Kafka that refused. */
  errorName(error: unknown): string | undefined;
  /** One line for an operator. */
  describe(error: unknown): string;
}
