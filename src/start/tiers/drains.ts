import type { Config } from '../../config/config.ts';
import { sleep } from '../../ground/builtins.ts';
import { clock } from '../../ground/clock.ts';
import { isolate } from '../../observe/otel-api.ts';
import { type Broker, partitionOf } from '../../publish/broker.ts';
import type { ClusterState } from '../../publish/main/cluster-state.ts';
import type { createBackupOrder } from '../../publish/order/backup-order.ts';
import { createDrain, type Drain, lazySource } from '../../publish/recovery/recover.ts';
import { type openLocalBackup, openLocalSource } from '../adapters.ts';

interface DrainParts {
  readonly broker: Broker;
  readonly cluster: Pick<ClusterState, 'isThere' | 'answered'>;
  /** `undefined`: events from the backup have no order with new events. */
  readonly order: ReturnType<typeof createBackupOrder> | undefined;
  /** Whether an earlier process may have left events. */
  readonly mayHaveBacklog: boolean;
}

/** Drains the local backup into the topics. */
export function startDrain(
  { dlqBackupPath, backup }: Config['broker'],
  files: ReturnType<typeof openLocalBackup>,
  { broker, cluster, order, mayHaveBacklog }: DrainParts,
): Drain {
  const { maxBytes } = backup;
  const open = (own?: Parameters<typeof openLocalSource>[0]['own']) =>
    lazySource('local files', () =>
      openLocalSource({
        directory: dlqBackupPath,
        // A tenth on top of the limit of the backup.
        maxAsideBytes: maxBytes / 10,
        now: clock.now,
        own,
      }),
    );
  const left = open();
  let segments = { names: [] as readonly string[], from: 0n };
  return createDrain({
    journal: order && {
      order,
      source: open(async () => segments),
      async hasEvents(from) {
        segments = { names: await files.journal(), from };
        return segments.names.length > 0;
      },
    },
    left,
    mayHaveBacklog,
    async hasLeft() {
      // Other processes fill and empty the folder, too.
      await files.recount();
      return left.hasEvents();
    },
    prepare: order === undefined ? files.finishSegments : undefined,
    send: (...sent: Parameters<Broker['send']>) => isolate(() => broker.send(...sent)),
    partitionsFor: (topic: string) => isolate(() => broker.partitionsFor(topic)).catch(() => undefined),
    partitionOf,
    sleep: (ms: number) => sleep(ms, undefined, { ref: false }),
    ratePerSecond: backup.drain.rate,
    cluster,
    onDrained: files.recount,
  });
}
