/** One member, as the leader of a group sees it. */
export interface GroupMember {
  readonly memberId: string;
  readonly metadata: Buffer;
}

export interface GroupAssignment {
  readonly memberId: string;
  readonly assignment: Buffer;
}

/** Of one member, in one generation of its group. */
export interface Membership {
  readonly memberId: string;
  readonly generation: number;
}

export interface Joined extends Membership {
  /** Everybody, where this member leads the group; otherwise empty. */
  readonly members: readonly GroupMember[];
}

export interface GroupSettings {
  readonly group: string;
  readonly protocolType: string;
  readonly protocolName: string;
  readonly sessionTimeoutMs: number;
  readonly rebalanceTimeoutMs: number;
}

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
