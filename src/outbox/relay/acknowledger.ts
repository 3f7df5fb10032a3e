import { backoffMs } from '../../ground/clock.ts';
import type { QuietLog } from '../../observe/quiet-log.ts';
import type { OutboxStore, RowFailure } from '../outbox-store.ts';
import { firstStorePauseMs, longestStorePauseMs } from './relay-settings.ts';
import { createSignal, reasonOf } from './signal.ts';

/** Writes down what became of rows, in one statement for many. What fails is written again: it is not sent again meanwhile. */
export interface Acknowledger {
  /** The row was stored by the broker. */
  sent(id: number): void;
  /** The row has failed by its own fault. */
  failed(failure: RowFailure): void;
  /** Writes what there is, after what is being written. */
  flush(): void;
  readonly isIdle: boolean;
  /** No further tries. */
  stop(): void;
}

export interface AcknowledgerOptions {
  readonly store: Pick<OutboxStore, 'ack' | 'fail'>;
  readonly owner: string;
  /** `false`: rows that were sent are deleted. */
  readonly keep: boolean;
  readonly say: QuietLog;
  /** These were written; those that are not among `acked` belong to a shard that was lost, and another relay sends them again. */
  readonly onSent: (ids: readonly number[], acked: readonly number[]) => void;
  readonly onFailed: (failures: readonly RowFailure[]) => void;
  readonly onIdle: () => void;
}

/** A row that was sent waits no longer than this for the rest of its batch, of which a partition may hang. */
const lingerMs = 100;

export function createAcknowledger(options: AcknowledgerOptions): Acknowledger {
  const { store, owner, keep, say, onSent, onFailed, onIdle } = options;
  const pause = createSignal();
  let sent: number[] = [];
  let failures: RowFailure[] = [];
  let isWriting = false;
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;

  async function write(): Promise<void> {
    isWriting = true;
    clearTimeout(timer);
    timer = undefined;
    for (let failed = 0; sent.length + failures.length > 0 && !isStopped; ) {
      try {
        await writeFailures();
        await writeSent();
        failed = 0;
      } catch (error) {
        failed++;
        say('ack', `outbox: what was sent cannot be marked in the table yet: ${reasonOf(error)}`);
        if (!isStopped) await pause.wait(backoffMs(failed, firstStorePauseMs, longestStorePauseMs));
      }
    }
    isWriting = false;
    onIdle();
  }

  async function writeFailures(): Promise<void> {
    // What comes meanwhile is not written by this.
    const written = [...failures];
    if (written.length === 0) return;
    await store.fail(owner, written);
    failures = failures.slice(written.length);
    onFailed(written);
  }

  async function writeSent(): Promise<void> {
    const ids = [...sent];
    if (ids.length === 0) return;
    const acked = await store.ack(owner, ids, keep);
    sent = sent.slice(ids.length);
    onSent(ids, acked);
  }

  function flush(): void {
    if (!isWriting && !isStopped && sent.length + failures.length > 0) void write();
  }

  return {
    sent(id) {
      sent.push(id);
      timer ??= setTimeout(() => {
        timer = undefined;
        flush();
      }, lingerMs).unref();
    },
    failed: (failure) => void failures.push(failure),
    flush,
    get isIdle() {
      return !isWriting && sent.length + failures.length === 0;
    },
    stop() {
      isStopped = true;
      clearTimeout(timer);
      pause.raise();
    },
  };
}
