// outbox/: the outbox as the management server and the command line see it, and its relay.

import type { Config } from '../../config/config.ts';
import { systemClock } from '../../ground/clock.ts';
import { loadOnce } from '../../ground/lifecycle.ts';
import type { OutboxControls, OutboxHealth } from '../../manage/controls.ts';
import { isolate } from '../../observe/isolate.ts';
import type { Logger } from '../../observe/logger.ts';
import { printable } from '../../observe/printable.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import type { RelayState } from '../../outbox/relay/relay.ts';
import type { Replay, ReplayOptions } from '../../outbox/replay.ts';
import { createStatistics } from '../../outbox/statistics.ts';
import type { Broker } from '../../publish/broker.ts';
import { createOutboxHealth } from './outbox-health.ts';

/** What the management server shows of an outbox, and does with it. */
export interface ManagedOutbox extends OutboxControls {
  /** False while this process makes its tables: until they are there calls fail. */
  isReady(): boolean;
  /** Never rejects, and answers within half a second. */
  health(): Promise<OutboxHealth>;
  /** Age of the oldest event that waits, as last asked for; `null`: not known. */
  oldestPendingMs(): number | null;
  /** FAILED rows, as last counted; `null`: not known. */
  failed(): number | null;
  /** Rows wait, and the relay of this process does nothing about it. Never rejects, and answers within half a second. */
  standsStill(): Promise<boolean>;
  /** Ends a replay that runs. */
  close(): void;
}

/** What else than its database makes an outbox unfit. */
export interface OutboxFitness {
  /** Makes its health DOWN: one line. */
  problem(): string | undefined;
  /** Shown beside it: one line. */
  remark(): string | undefined;
  isReady?(): boolean;
}

export function manageOutbox(
  config: Config,
  store: OutboxStore,
  broker: Broker,
  logger: Logger,
  relay: () => RelayState | undefined,
  fitness: OutboxFitness,
): ManagedOutbox {
  const statistics = createStatistics({ store, clock: systemClock, isolate });
  const countPending = (): Promise<number> => isolate(() => store.countPending());
  const health = createOutboxHealth({
    ...{ countPending, statistics, relay, ...fitness, clock: systemClock },
    failedBlocks: config.outbox.onFailed === 'block',
  });
  const replay = loadOnce(() => openReplay(config, store, broker));
  const trial = loadOnce(() => openReplay(config, store, broker));
  return {
    statistics: statistics.report,
    isReady: fitness.isReady ?? (() => true),
    standsStill: health.standsStill,
    async replay({ type: eventType, topic, ...request }, by) {
      const filter = { ...(eventType !== undefined && { eventType }), ...(topic !== undefined && { topic }) };
      const only = [eventType, topic].filter((each) => each !== undefined).map((each) => ` of ${each}`);
      const { dryRun = false } = request;
      const what = `since ${request.since}${printable(only.join(''))}, asked for by ${by}`;
      const result = await (dryRun ? trial : replay)()
        .then(({ run }) => run({ ...request, filter }))
        .catch((error: unknown) => {
          logger.warn(
            `outbox: no replay ${what}: ${error instanceof Error ? error.message : 'unknown error'}`,
          );
          throw error;
        });
      const { total, success, after } = result;
      // Whoever asked may not be there any more.
      const stopped = after === undefined ? '' : `; it ended early, and goes on with after: ${after}`;
      const sent = dryRun ? 'a dry run, none sent' : `${success} sent again`;
      logger.info(`outbox: replay of ${total} events ${what}: ${sent}${stopped}`);
      return result;
    },
    health: health.ask,
    oldestPendingMs: health.oldestPendingMs,
    failed: health.failed,
    close() {
      for (const { started } of [replay, trial]) void started()?.then((running) => running.stop());
    },
  };
}

export async function openReplay(
  { outbox }: Config,
  store: OutboxStore,
  broker: Broker,
  onProgress?: ReplayOptions['onProgress'],
): Promise<Replay> {
  const { createReplay } = await import('../../outbox/replay.ts');
  const sendTimeoutMs = outbox.sendTimeoutSeconds * 1_000;
  return createReplay({
    store,
    broker,
    sendTimeoutMs,
    clock: systemClock,
    isolate,
    ...(onProgress && { onProgress }),
  });
}
