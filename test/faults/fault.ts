import type { ClusterNode } from '../../scripts/services/kafka-cluster.ts';
import type { LoadApp } from './load-app.ts';

/** What a fault can do while the application works. */
export interface Scene {
  readonly nodes: readonly ClusterNode[];
  readonly topic: string;
  readonly app: LoadApp;
  /** How long all brokers are away in the fault that takes them. */
  readonly outageMs: number;
  say(line: string): void;
  /** The node that leads a partition of the topic now, asked of a node that answers. */
  leaderOf(partition: number): Promise<ClusterNode>;
  /** Moves the leadership of a partition to another replica. Returns when the cluster says so. */
  moveLeader(partition: number): Promise<void>;
}

export interface Fault {
  /** As in `--only`. */
  readonly name: string;
  /** What is done, for the table. */
  readonly title: string;
  /** Calls a second. Default: 1,000. */
  readonly rate?: number;
  /** Settings under `svc.broker`. */
  readonly broker?: Readonly<Record<string, unknown>>;
  run(scene: Scene): Promise<void>;
}
