// outbox/: the outbox as the management server and the command line see it, and its relay.

import type { Config } from '../../config/config.ts';
import { clock } from '../../ground/clock.ts';
import { loadOnce } from '../../ground/lifecycle.ts';
import { circuitStates } from '../../ground/management.ts';
import type { OutboxControls, OutboxHealth } from '../../manage/controls.ts';
import { logger, printable } from '../../observe/logger.ts';
import type { OutboxState } from '../../observe/metrics.ts';
import { isolate } from '../../observe/otel-api.ts';
import { createOutboxHealth } from '../../outbox/outbox-health.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import type { Relay, RelayState } from '../../outbox/relay/relay.ts';
import { createStatistics } from '../../outbox/statistics.ts';
import type { Broker } from '../../publish/broker.ts';
import type { ClusterState } from '../../publish/main/cluster-state.ts';

/** The breaker of a relay for operators. `undefined`: no relay runs at the moment. */
export function breakerOf(
  relay: (Pick<Relay, 'resetBreaker'> & { state(): RelayState | undefined }) | undefined,
): Pick<ClusterState, 'state' | 'reset'> | undefined {
  const isRunning = relay?.state() !== undefined;
  if (relay === undefined || !isRunning) return undefined;
  return {
    get state() {
      return relay.state()?.circuitBreakerState ?? 'CLOSED';
    },
    reset: relay.resetBreaker,
  };
}

interface OutboxFitness {
  /** Makes health DOWN: one line. */
  problem(): string | undefined;
  /** A warning: one line. */
  remark(): string | undefined;
  isReady?(): boolean;
}

export interface ManagedOutbox extends OutboxControls {
  /** False while this process makes its tables: calls fail until they exist. */
  isReady(): boolean;
  /** Never rejects, and answers within half a second. */
  health(): Promise<OutboxHealth>;
  /** For metrics. Counts of this process come with it. */
  state(own: Pick<OutboxState, 'unconfirmed' | 'unjoined'>): OutboxState;
  /** Rows wait, and the relay of this process neither claims nor sends. Never rejects, and answers within half a second. */
  standsStill(): Promise<boolean>;
  /** Stops a running replay. */
  close(): void;
}

export function manageOutbox(
  config: Config,
  store: OutboxStore,
  broker: Broker,
  relay: () => RelayState | undefined,
  fitness: OutboxFitness,
): ManagedOutbox {
  const statistics = createStatistics(store);
  const countPending = (): Promise<number> => isolate(() => store.countPending());
  const health = createOutboxHealth({
    ...{ countPending, statistics, relay, ...fitness },
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
      const what = `since ${request.since}${printable(only.join(''))}, requested by ${by}`;
      const result = await (dryRun ? trial : replay)()
        .then(({ run }) => run({ ...request, filter }))
        .catch((error: unknown) => {
          logger.warn(
            `outbox: no replay ${what}: ${error instanceof Error ? error.message : 'unknown error'}`,
          );
          throw error;
        });
      const { total, success, after } = result;
      // The requester may have disconnected, so the result is logged.
      const stopped = after === undefined ? '' : `; it ended early, continue with after: ${after}`;
      const sent = dryRun ? 'a dry run, nothing sent' : `${success} sent again`;
      logger.info(`outbox: replay of ${total} events ${what}: ${sent}${stopped}`);
      return result;
    },
    health: health.ask,
    state: (own) => ({
      ...own,
      pending: () => relay()?.pending ?? null,
      oldestPendingMs: health.oldestPendingMs,
      failed: health.failed,
      lastRelayedMs() {
        const agoMs = relay()?.timeSinceLastSuccessMs ?? null;
        return agoMs === null ? null : clock.now() - agoMs;
      },
      circuit() {
        const state = relay();
        return state === undefined ? null : circuitStates.indexOf(state.circuitBreakerState);
      },
    }),
    close() {
      for (const { started } of [replay, trial]) void started()?.then((running) => running.stop());
    },
  };
}

export async function openReplay(
  { outbox }: Config,
  store: OutboxStore,
  broker: Broker,
  onProgress?: (sentCount: number, failedCount: number) => void,
) {
  const { createReplay } = await import('../../outbox/replay.ts');
  const sendTimeoutMs = outbox.sendTimeoutSeconds * 1_000;
  return createReplay({
    store,
    broker,
    sendTimeoutMs,
    ...(onProgress && { onProgress }),
  });
}
