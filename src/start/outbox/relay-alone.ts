import { once } from 'node:events';
import type { Config } from '../../config/config.ts';
import { readSource } from '../../context/source.ts';
import { sleep } from '../../ground/builtins.ts';
import { backoffMs } from '../../ground/clock.ts';
import { version } from '../../ground/version.ts';
import { createPublishDurations } from '../../observe/durations.ts';
import { isolate } from '../../observe/isolate.ts';
import type { Logger } from '../../observe/logger.ts';
import type { MetricSources, OutboxState } from '../../observe/metrics.ts';
import { createLedger } from '../../observe/outcomes.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import type { Relay } from '../../outbox/relay/relay.ts';
import { firstStorePauseMs, longestStorePauseMs } from '../../outbox/relay/relay-settings.ts';
import { reasonOf } from '../../outbox/relay/signal.ts';
import { isPassing } from '../../outbox/store-error.ts';
import { type Broker, throttledMs } from '../../publish/broker.ts';
import { dialectOf } from '../../transaction/dialect.ts';
import { openBroker, openOutboxStore } from '../adapters.ts';
import { manageLater } from '../management-later.ts';
import { storedTypesOf } from '../plans.ts';
import { openSerde } from '../serde/serde.ts';
import { brokerSettingsOf, goesToKafka } from '../settings.ts';
import { manageOutbox } from './managed-outbox.ts';
import { openRelay } from './open-relay.ts';
import { breakerOf, outboxState } from './outbox-state.ts';
import { watchSenders } from './watch-senders.ts';

const holdMs = 60_000;
const closeMs = 5_000;

/**
 * Runs the relay of a configuration without its application, until `stopping`: with the management server, and through outages
 * of the database and the broker. Returns whether everything that was under way was sent and acknowledged. Rejects with a one-line
 * error where it cannot begin: the tables are not there, or the user may not use them.
 */
export async function relayAlone(config: Config, logger: Logger, stopping: AbortSignal): Promise<boolean> {
  // Nothing else does: a connection must not keep an application alive.
  const hold = setInterval(() => {}, holdMs);
  const { datasource, table, initializeSchema } = config.outbox;
  const store = openOutboxStore({ url: datasource.url ?? '', table, initializeSchema, logger });
  const broker = openSerde(config, logger).sends(
    openBroker(config.broker.client, brokerSettingsOf(config, logger)),
  );
  let relay: Relay | undefined;
  const counters = { ledger: createLedger(), durations: createPublishDurations() };
  counters.ledger.declare(storedTypesOf(config));
  const { publisherEnabled, retentionDays } = config.outbox;
  const senders = watchSenders({
    ...{ store, isRelay: true, logger },
    settings: {
      dialect: dialectOf(datasource.url ?? '') ?? 'postgres',
      table,
      publisherEnabled,
      retentionDays,
    },
  });
  const outbox = manageOutbox(config, store, broker, logger, () => relay?.state(), {
    problem: () => senders.refusal()?.message,
    remark: senders.remark,
  });
  const source = readSource(config.service);
  const management = manageLater(config, logger, {
    ...{ broker, outbox, problem: () => undefined },
    onAway: () => {},
    breakers: { outbox: () => breakerOf(relay) },
    keys: () => [],
    invalidateKeys: async () => {},
    sources: sourcesOf(
      counters,
      outboxState({
        relay: () => relay?.state(),
        oldestPendingMs: outbox.oldestPendingMs,
        failed: outbox.failed,
        unconfirmed: () => 0,
        unjoined: () => 0,
      }),
      broker,
    ),
    info: { service: { name: source.serviceName, version: source.serviceVersion }, svc: { version } },
  });
  try {
    await prepare(store, logger, stopping);
    await senders.look();
    const refusal = senders.refusal();
    if (refusal !== undefined) throw refusal;
    if (stopping.aborted) return true;
    relay = await openRelay(config, store, broker, counters, logger);
    relay.start();
    logger.info(`relay: sends the rows of ${table} (${store.name}) to ${whereTo(config)}`);
    void sayBroker(broker, logger);
    if (!stopping.aborted) await once(stopping, 'abort');
    logger.info('relay: stops after the batch under way');
    const { timeoutMs } = config.shutdown;
    const [isDone] = await Promise.all([relay.stop(timeoutMs), management.stopRuns(timeoutMs)]);
    return isDone;
  } finally {
    senders.stop();
    outbox.close();
    await Promise.all([store.close(closeMs), broker.close(closeMs), management.close()]);
    clearInterval(hold);
  }
}

/** A database that is away comes back, and one that is read-only may be about to become the primary; whatever else is wrong somebody has to mend. */
async function prepare(store: OutboxStore, logger: Logger, stopping: AbortSignal): Promise<void> {
  for (let failures = 1; !stopping.aborted; failures++) {
    try {
      return await isolate(() => store.prepare());
    } catch (error) {
      if (!isPassing(error)) throw error;
      logger.warn(`relay: waits for the database: ${reasonOf(error)}`);
      const pauseMs = backoffMs(failures, firstStorePauseMs, longestStorePauseMs);
      await sleep(pauseMs, undefined, { signal: stopping }).catch(() => {});
    }
  }
}

/** So that a wrong password is said at start, not at the first row. */
async function sayBroker(broker: Broker, logger: Logger): Promise<void> {
  const result = await isolate(() => broker.connect());
  if (!result.ok) logger.error(`broker: ${result.failure.message}`, { cause: result.failure.cause });
}

function whereTo(config: Config): string {
  const { broker } = config;
  if (broker.client === 'file') return `files in ${broker.file.path}`;
  if (!goesToKafka(config)) return broker.client;
  return `Kafka at ${broker.bootstrapServers.join(', ')} through ${broker.client}`;
}

/** Nothing is captured here: what calls count stays 0. */
function sourcesOf(
  counters: Pick<MetricSources, 'ledger' | 'durations'>,
  outbox: OutboxState,
  broker: Broker,
): MetricSources {
  return {
    ...counters,
    throttledMs: () => throttledMs(broker),
    circuit: () => 0,
    buffer: () => ({ events: 0, bytes: 0, overflows: 0 }),
    backup: () => ({ files: 0, events: 0, bytes: 0, tooLarge: 0, drained: 0, oldestMs: 0 }),
    worker: () => undefined,
    captureTargets: () => [],
    lastPublishedMs: () => null,
    dlqWaiting: () => null,
    recentDlqEvents: () => [],
    outbox,
  };
}
