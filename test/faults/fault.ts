import type { ClusterNode } from '../../scripts/services/kafka-cluster.ts';
import type { KafkaMock } from '../../scripts/services/kafka-mock.ts';
import type { HttpFront } from '../support/http-front.ts';
import type { Ledger, LoadApp } from './load-app.ts';
import type { Proxies } from './proxies.ts';

/** What a fault can do while the application works. */
export interface Scene {
  readonly topic: string;
  readonly app: LoadApp;
  /** How long all brokers are away in the fault that takes them. */
  readonly outageMs: number;
  say(line: string): void;
}

export interface ClusterScene extends Scene {
  readonly nodes: readonly ClusterNode[];
  /** The node that leads a partition of the topic now, asked of a node that answers. */
  leaderOf(partition: number): Promise<ClusterNode>;
  /** Moves the leadership of a partition to another replica. Returns when the cluster says so. */
  moveLeader(partition: number): Promise<void>;
  /** Quota of the client id `svc`, in bytes a second for each broker; `undefined`: none any more. */
  setByteRate(bytes: number | undefined): Promise<void>;
  /** Between the application and the brokers, with `network`. */
  readonly proxies: Proxies;
  /** Before the S3 server, with `s3`. */
  readonly s3: HttpFront;
}

export interface MockScene extends Scene {
  readonly mock: KafkaMock;
}

interface AnyFault {
  /** As in `--only`. */
  readonly name: string;
  /** What is done, for the table. */
  readonly title: string;
  /** Calls a second. Default: 1,000. */
  readonly rate?: number;
  /** Settings under `svc.broker`. */
  readonly broker?: Readonly<Record<string, unknown>>;
  /** Whether the accounts tell that the fault reached svc. Without it, they need not: nobody notices a leader that moves in time. */
  readonly shows?: (ledger: Ledger) => boolean;
}

export interface ClusterFault extends AnyFault {
  readonly on: 'cluster';
  /** The application reaches the brokers through proxies. */
  readonly network?: boolean;
  /** Backups go to S3 first. */
  readonly s3?: boolean;
  /** The local backup is a file system of its own with so many bytes. */
  readonly backupBytes?: number;
  /** There is no place left for some events: they are lost, and each one is counted. Default false: none may be. */
  readonly losesEvents?: boolean;
  run(scene: ClusterScene): Promise<void>;
}

export interface MockFault extends AnyFault {
  readonly on: 'mock';
  run(scene: MockScene): Promise<void>;
}

export type Fault = ClusterFault | MockFault;
