import { inTime } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { isolate } from '../observe/otel-api.ts';
import { type Broker, partitionOf, type SendResult } from '../publish/broker.ts';
import { timedOut } from '../publish/main/cluster-state.ts';
import { recover } from '../publish/recovery/recover.ts';
import type { RecoverySource, StoredEvent } from '../publish/recovery-source.ts';
import { brokenPromise } from '../publish/sender/sender.ts';
import { pagesOf } from './batches.ts';
import type { OutboxStore, RowFilter, StoredRow } from './outbox-store.ts';

/** Added to each record that is sent again. */
const replayHeader = 'svc-replay';

const defaultReplayLimit = 1_000;

export interface ReplayRequest {
  /** Start of the replay, ISO 8601: only rows stored since then. */
  readonly since: string;
  /** Maximum number of rows, oldest first. Default: 1,000. */
  readonly limit?: number;
  /** Only rows with a larger id. Continues a replay with its `after`. */
  readonly after?: number;
  /** Default: all rows, whatever their status. */
  readonly filter?: Omit<RowFilter, 'since'>;
  /** Only counts. */
  readonly dryRun?: boolean;
}

/** The replay result object of the specification. */
export interface ReplayResult {
  readonly since: string;
  readonly limit: number;
  /** Rows found, up to the limit. */
  readonly total: number;
  readonly success: number;
  readonly failed: number;
  readonly failedEventIds: readonly string[];
  /** Set if it ended early, because it was stopped or the cluster is away. Pass it to continue. */
  readonly after?: number;
}

interface ReplayOptions {
  readonly store: Pick<OutboxStore, 'read'>;
  readonly broker: Pick<Broker, 'send' | 'partitionsFor'>;
  readonly sendTimeoutMs: number;
  /** Rows sent and given up so far. */
  readonly onProgress?: (sentCount: number, failedCount: number) => void;
  /** Between retries of a send. Default: an unref'd timer. */
  readonly sleep?: (ms: number) => Promise<void>;
}

/** Sends rows of the outbox again to their topics: the same record with one more header. Rows are not changed. */
export function createReplay(options: ReplayOptions) {
  const { store, broker, sendTimeoutMs } = options;
  const sleep = options.sleep ?? unheldSleep;
  let isRunning = false;
  let isStopped = false;

  async function send(...parts: Parameters<Broker['send']>): Promise<SendResult> {
    const late = (): SendResult => ({ ok: false, failure: timedOut(sendTimeoutMs) });
    const sending = broker.send(...parts).catch(brokenPromise);
    return inTime(sending, { limitMs: sendTimeoutMs, keepsAlive: false, late });
  }

  async function replay({ since, limit, after, filter, dryRun }: Checked): Promise<ReplayResult> {
    const found: { readonly id: number; readonly eventId: string }[] = [];
    let pageAt = 0;
    const sent = new Set<string>();
    const rows = pagesOf(store, filter, limit, after);
    const isUnsent = ({ id }: { readonly id: number }): boolean => !sent.has(String(id));

    async function nextPage(): Promise<readonly StoredRow[] | undefined> {
      const { value } = await rows.next();
      pageAt = found.length;
      for (const { id, eventId } of value ?? []) found.push({ id, eventId });
      return value ?? undefined;
    }

    const source: Pick<RecoverySource, 'name' | 'open' | 'count' | 'read' | 'done' | 'close'> = {
      name: 'outbox',
      open: async () => {},
      count: async () => undefined,
      async *read() {
        for (let page = await nextPage(); page !== undefined; page = await nextPage())
          yield {
            events: page.filter(({ fault }) => fault === undefined).map(toStoredEvent),
            unreadable: [],
          };
      },
      done: async (events) => {
        for (const { place } of events) sent.add(place);
      },
      close: async () => {},
    };
    const report = await recover({
      ...{ source, send, partitionOf, dryRun, accept: () => true, ratePerSecond: 0 },
      partitionsFor: (topic) => broker.partitionsFor(topic).catch(() => undefined),
      sleep,
      isStopped: () => isStopped,
      onProgress: ({ sent: sentCount, failed: failedCount }) => options.onProgress?.(sentCount, failedCount),
    });
    let goOn: { readonly after: number } | undefined;
    if (report.stoppedBy !== undefined) {
      const first = found.slice(pageAt).find(isUnsent) ?? { id: 1 };
      goOn = { after: first.id - 1 };
      // The remaining rows are found, but not sent.
      while ((await nextPage()) !== undefined);
    } else if (report.isInterrupted && (await hasMore())) goOn = { after: found.at(-1)?.id ?? 0 };
    const failed = dryRun ? [] : found.filter(isUnsent);
    const failedEventIds = failed.map(({ eventId }) => eventId);
    const counts = { total: found.length, success: sent.size, failed: failed.length };
    return { since, limit, ...counts, failedEventIds, ...goOn };

    /** The table may be closed already when the process ends. */
    async function hasMore(): Promise<boolean> {
      return rows.next().then(
        ({ done }) => done !== true,
        () => true,
      );
    }
  }

  return {
    /**
     * Sends in the order of storing, so events of an aggregate stay in order. Only one replay runs at a time: another one is refused
     * with SVC_OUTBOX_REPLAY_BUSY. A wrong request is refused with SVC_OUTBOX_REPLAY_OPTIONS. Rejects as the store does.
     */
    async run(request: ReplayRequest): Promise<ReplayResult> {
      const checked = check(request);
      if (isRunning)
        throw new SvcError('SVC_OUTBOX_REPLAY_BUSY', 'a replay is already running: wait until it ends');
      isRunning = true;
      try {
        return await isolate(() => replay(checked));
      } finally {
        isRunning = false;
      }
    },
    /** Ends after the current batch. */
    stop(): void {
      isStopped = true;
    },
  };
}

interface Checked {
  readonly since: string;
  readonly limit: number;
  readonly after: number;
  readonly filter: RowFilter;
  readonly dryRun: boolean;
}

function check(request: ReplayRequest): Checked {
  const { since, limit = defaultReplayLimit, after = 0, filter, dryRun = false } = request;
  const sinceMs = Date.parse(since);
  if (Number.isNaN(sinceMs)) throw wrong('since must be a time in ISO 8601, such as 2026-03-04T10:00:00Z');
  if (!Number.isInteger(limit) || limit < 1) throw wrong('limit must be a whole number, 1 or more');
  if (!Number.isSafeInteger(after) || after < 0) throw wrong('after must be the id of a row');
  return { since, limit, after, filter: { ...filter, since: sinceMs }, dryRun };
}

function wrong(message: string): SvcError {
  return new SvcError('SVC_OUTBOX_REPLAY_OPTIONS', message);
}

function toStoredEvent({ id, eventId, eventType, topic, key, headers, payload }: StoredRow): StoredEvent {
  return {
    ...{ place: String(id), eventId, eventType, topic, key, value: payload },
    ...{ headers: { ...headers, [replayHeader]: 'true' }, storedAt: 0, reason: undefined },
  };
}

function unheldSleep(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms).unref());
}
