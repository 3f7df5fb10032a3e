import { partitionOf, partitionOfKey } from '../../../src/publish/broker.ts';
import { type ClusterState, defaultBreaker } from '../../../src/publish/main/cluster-state.ts';
import type { createQueue } from '../../../src/publish/main/queue.ts';
import { createBackupOrder } from '../../../src/publish/order/backup-order.ts';
import { createDrain } from '../../../src/publish/recovery/recover.ts';
import { createBackupTier, createTierChain } from '../../../src/publish/tiers/tiers.ts';
import { useLogger } from '../../support/log.ts';
import { queueOver } from '../fake-cluster.ts';
import type { ModelCluster } from './model-cluster.ts';
import type { ModelFolder, Owner } from './model-folder.ts';

export interface ModelProcess extends Owner {
  readonly queue: ReturnType<typeof createQueue>;
  readonly clusterState: ClusterState;
  readonly lines: string[];
  readonly lost: string[];
  oldestMs(): number;
  close(): Promise<void>;
}

/** The queue, the tiers and the drain as a process has them, over a cluster and a folder of the model. */
export function startProcess(
  generation: number,
  folder: ModelFolder,
  cluster: ModelCluster,
  options: Parameters<typeof queueOver>[1] = {},
): ModelProcess {
  const owner: Owner = { generation, isDead: false };
  const lines: string[] = [];
  const lost: string[] = [];
  const say = (message: string): void => void lines.push(message);
  const logger = { debug() {}, info: say, warn: say, error: say };
  const broker = cluster.brokerOf(owner);
  const order = createBackupOrder({ partitionOfKey });
  const strategy = folder.strategyOf(owner);
  const backup = createBackupTier({
    ...{ strategies: () => [strategy], drained: strategy, onDrainable: order.stored },
  });
  const chain = createTierChain({
    tiers: [backup],
    onKept() {},
    onDlqFailed() {},
    onLost: ({ event }) => void (owner.isDead || lost.push(event.eventId)),
  });
  const own = folder.own(owner);
  const left = folder.left(owner);
  const drain = createDrain({
    ratePerSecond: 500,
    journal: { order, source: own.source, hasEvents: own.hasOwn },
    ...{ left: left.source, hasLeft: left.hasLeft },
    mayHaveBacklog: folder.waiting() > 0,
    send: broker.send,
    partitionsFor: (topic) => broker.partitionsFor(topic),
    partitionOf,
    sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    onDrained: async () => {},
    cluster: { isThere: () => clusterState.isThere(), answered: () => clusterState.answered() },
  });
  const { queue, clusterState } = queueOver(broker, {
    breaker: defaultBreaker,
    deliveryTimeoutMs: 8_000,
    order,
    onLost: ({ eventId }) => void (owner.isDead || lost.push(eventId)),
    async next(failed) {
      const outcome = await chain.next(failed);
      if (outcome === 'backup') drain.stored();
      return outcome;
    },
    ...options,
  });
  useLogger(logger);
  return Object.assign(owner, {
    ...{ queue, clusterState, lines, lost, oldestMs: order.oldestMs },
    async close() {
      await queue.close(5_000);
      await drain.close();
      await chain.close(1_000);
    },
  });
}
