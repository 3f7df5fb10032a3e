import { readdirSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { clock } from '../ground/clock.ts';
import { loadChunk } from '../ground/lifecycle.ts';
import { logger } from '../observe/logger.ts';
import type { BackupState } from '../observe/metrics.ts';
import { isolate } from '../observe/otel-api.ts';
import type { Ledger } from '../observe/outcomes.ts';
import type { createLossAlert } from '../publish/api/caller-wait.ts';
import { type Broker, partitionOf, partitionOfKey } from '../publish/broker.ts';
import type { ClusterState } from '../publish/main/cluster-state.ts';
import { createBackupOrder, type KeyOrder } from '../publish/order/backup-order.ts';
import type * as Recovery from '../publish/recovery/recover.ts';
import { type FailedEvent, registeredBackupStrategies } from '../publish/tier.ts';
import { createTiers } from '../publish/tiers/tiers.ts';
import type { TopicReader } from '../publish/topic-reader.ts';
import { openLocalBackup, openLocalSource, openS3Backup, openTopicReader, readsTopics } from './adapters.ts';
import { brokerSettingsOf, deliveryTimesOf, recoveryGroup, s3SettingsOf } from './settings.ts';

interface TiersParts {
  readonly broker: Broker;
  readonly ledger: Ledger;
  readonly alert: Pick<ReturnType<typeof createLossAlert>, 'lost'>;
  /** While it is away, its dead letter topic is skipped. */
  readonly cluster: Pick<ClusterState, 'isAway' | 'isThere' | 'answered'>;
}

const nothingWaits = { files: 0, events: 0, bytes: 0, tooLarge: 0 };

/** The tiers behind the main topic: dead letter topic, backup, lost; and the drain. */
export function startTiers(config: Config, parts: TiersParts) {
  const { broker, cluster, ledger, alert } = parts;
  const { dlqTopic, dlqFormat, dlqBackupPath, backup } = config.broker;

  const dlq =
    dlqTopic === undefined
      ? undefined
      : {
          ...{ broker, cluster, topic: dlqTopic, format: dlqFormat, partitionOf },
          leastTimeMs: deliveryTimesOf(config).tiersMs / 2,
          onSendFailed: ledger.brokerFailed,
        };
  const bucket = s3SettingsOf(config);
  const s3 =
    bucket && openS3Backup({ ...bucket, onNoChecksums: (message) => logger.info(`backup: ${message}`) });
  const { format, maxFiles, maxBytes } = backup;
  const isJournal =
    backup.localEnabled && backup.drain.enabled && format === 'journal' && backup.drain.order !== 'none';
  const local = backup.localEnabled
    ? openLocalBackup({ directory: dlqBackupPath, format, maxFiles, maxBytes, isJournal })
    : undefined;
  const order = isJournal ? createBackupOrder({ partitionOfKey }) : undefined;
  const configured = [s3, local].filter((strategy) => strategy !== undefined);
  const tiers = createTiers({
    ...{ dlq },
    backup: {
      strategies: () => [...registeredBackupStrategies(), ...configured],
      drained: local,
      onDrainable: order?.stored,
    },
    onDlqFailed: ({ event }) => ledger.dlqFailed(event.eventType),
    onLost: ({ event, topic, failure }) => alert.lost(event, topic, failure),
    drain:
      local !== undefined && backup.drain.enabled
        ? {
            mayHoldEvents: () => mayHoldEvents(dlqBackupPath),
            start: (mayHaveBacklog) =>
              recoveryParts().startDrain({
                ...{ files: local, broker, cluster, order, mayHaveBacklog, ratePerSecond: backup.drain.rate },
                // A tenth on top of the limit of the backup.
                openSource: (own) =>
                  openLocalSource({
                    ...{ directory: dlqBackupPath, now: clock.now, maxAsideBytes: maxBytes / 10, own },
                  }),
              }),
            onNothingLeft: () => order?.earlierRun({ topics: new Set() }),
          }
        : undefined,
  });

  return {
    ...tiers,
    /** Keeps new events in order with those in the backup. `undefined`: there is no such order. */
    order: order as KeyOrder | undefined,
    /** Makes the open files of the local backup readable for others. `undefined`: only this process empties its backup. */
    finishBackup: isJournal ? undefined : local?.finishSegments,
    /** A thread of this process has ended: its events in the backup are sent at once. */
    threadEnded(): void {
      void local?.recount();
      tiers.look();
    },
    /** The contents of the local backup, and how many events were drained. */
    backup: (): BackupState => ({
      ...nothingWaits,
      ...local?.state(),
      drained: tiers.drained(),
      oldestMs: order?.oldestMs() ?? 0,
    }),
    dlqWaiting: dlqWaitingOf(config),
    storeSync(failed: Iterable<FailedEvent>): number {
      const count = tiers.storeSync(failed);
      local?.endSync();
      return count;
    },
  };
}

/** Whether another process may have left events. They are drained from the start. */
function mayHoldEvents(path: string): boolean {
  try {
    return readdirSync(path).some((name) => /\.(json|ndjson)(\.open)?$|^svc-backup-/.test(name));
  } catch {
    return false;
  }
}

function recoveryParts(): typeof Recovery {
  return loadChunk(import.meta.url, '../publish/recovery/recover.ts') as typeof Recovery;
}

/** How long an answer, or the lack of one, is reused. */
const freshMs = 60_000;

/** Counts unrecovered dead letters in the background, at most once a minute and only on request. `null`: unknown. */
export function createDlqWaiting(
  openReader: () => Promise<Pick<TopicReader, 'open' | 'count' | 'close'>>,
): () => number | null {
  let waiting: number | null = null;
  let isAsking = false;
  let askAtMs = Number.NEGATIVE_INFINITY;

  async function count(): Promise<number> {
    const reader = await openReader();
    try {
      await reader.open(false);
      return await reader.count();
    } finally {
      await reader.close();
    }
  }

  async function ask(): Promise<void> {
    isAsking = true;
    try {
      waiting = await isolate(count);
    } catch (error) {
      waiting = null;
      logger.debug(`svc cannot count the dead letters: ${(error as Error).message}`);
    }
    isAsking = false;
    askAtMs = clock.monotonic() + freshMs;
  }

  return () => {
    if (!isAsking && clock.monotonic() >= askAtMs) void ask();
    return waiting;
  };
}

/** Counts for the configured topic, if the broker can be read. */
function dlqWaitingOf(config: Config): () => number | null {
  const { client, dlqTopic: topic } = config.broker;
  if (topic === undefined || !readsTopics(client)) return () => null;
  const settings = { ...brokerSettingsOf(config), topic, group: recoveryGroup, keepsAlive: false };
  return createDlqWaiting(() => openTopicReader(client, settings));
}
