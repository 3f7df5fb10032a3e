import type { Config } from '../../config/config.ts';
import { isolate } from '../../observe/isolate.ts';
import type { Logger } from '../../observe/logger.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import type { ReplayRequest, ReplayResult } from '../../outbox/replay.ts';
import { openBroker, openOutboxStore } from '../adapters.ts';
import { openSerde } from '../serde/serde.ts';
import { brokerSettingsOf } from '../settings.ts';
import { openReplay } from './managed-outbox.ts';

/** A command may take longer than a relay, which others wait for: it counts large tables, and locks can hold it up. */
const timeoutMs = 30_000;
const closeMs = 5_000;
const holdMs = 60_000;

export interface UseOptions {
  /** Makes and updates the tables, where `prepare` is called. Default: it only looks at them. */
  readonly makesTables?: boolean;
  /** With a partition for each day, where it makes them. */
  readonly partitioned?: boolean;
}

/** Opens the outbox of a configuration for one command. Rejects with one-line errors, and as `work` does. */
export async function useOutbox<T>(
  { outbox: { datasource, table } }: Config,
  logger: Logger,
  work: (store: OutboxStore) => Promise<T>,
  { makesTables = false, partitioned = false }: UseOptions = {},
): Promise<T> {
  // Nothing else does: a connection must not keep an application alive.
  const hold = setInterval(() => {}, holdMs);
  const initializeSchema = makesTables ? 'always' : 'never';
  const store = openOutboxStore({
    ...{ url: datasource.url ?? '', table, initializeSchema, logger, timeoutMs, partitioned },
  });
  try {
    return await isolate(() => work(store));
  } finally {
    await store.close(closeMs);
    clearInterval(hold);
  }
}

export interface RunningReplay {
  readonly result: Promise<ReplayResult>;
  /** Ends it after the batch under way. */
  stop(): void;
}

/** Sends rows again, from the command line. */
export function replayOutbox(
  config: Config,
  logger: Logger,
  request: ReplayRequest,
  onProgress: (sentCount: number, failedCount: number) => void,
): RunningReplay {
  const stopping = new AbortController();
  const result = useOutbox(config, logger, async (store) => {
    const broker = openSerde(config, logger).sends(
      openBroker(config.broker.client, brokerSettingsOf(config, logger)),
    );
    try {
      const replay = await openReplay(config, store, broker, onProgress);
      if (stopping.signal.aborted) replay.stop();
      stopping.signal.addEventListener('abort', replay.stop);
      return await replay.run(request);
    } finally {
      await broker.close(closeMs);
    }
  });
  return { result, stop: () => stopping.abort() };
}
