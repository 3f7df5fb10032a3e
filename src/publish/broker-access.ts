import type { ClusterInfo } from './broker.ts';

/** What a process wants to do with its broker. */
export interface AccessQuestion {
  readonly topics: readonly string[];
  /** From which worker ids are leased; `undefined` where none is used. */
  readonly group: string | undefined;
}

export interface Access {
  /** `undefined`: the broker does not tell. */
  readonly isAllowed: boolean | undefined;
  /** One line for an operator: why not, or what else is wrong. */
  readonly problem: string | undefined;
}

export interface TopicAccess extends Access {
  readonly topic: string;
  /** `undefined` where the topic is not there, or not for this user. */
  readonly partitionCount: number | undefined;
}

export interface AccessReport {
  /** `undefined` where there is no cluster (files, memory). */
  readonly cluster: ClusterInfo | undefined;
  readonly topics: readonly TopicAccess[];
  readonly group: Access | undefined;
}

/**
 * PORT: asks a broker what it would let this process do. Writes nothing, and makes no topic and no group. Rejects with an
 * `SvcError` of one line where nobody answers. Whoever calls sets the limit: `signal` drops the connection.
 */
export type AskAccess = (question: AccessQuestion, signal: AbortSignal) => Promise<AccessReport>;
