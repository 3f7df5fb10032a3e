import { isMainThread, type Worker } from 'node:worker_threads';
import { systemClock } from '../../ground/clock.ts';
import { isolate } from '../../observe/otel-api.ts';
import { type Channel, openChannel } from '../../observe/thread-counts.ts';
import { createNotifier } from '../../outbox/join.ts';
import type { Notices } from '../../outbox/notices.ts';
import type { RelayInProcess } from './relay-alone.ts';

const channelName = 'svc.outbox.stored';

/** Tells of rows that this thread has committed. */
export interface StoredRows {
  tell(shard: number): void;
  close(): void;
}

/** The relay of this process hears of every row, those of others where it is theirs to send. */
export function tellOfRows(
  relay: Pick<RelayInProcess, 'wake' | 'holds'> | undefined,
  notices: Notices | undefined,
): StoredRows {
  return isMainThread ? tellRelays(relay, notices) : tellMainThread();
}

/** The relay, and the connection for notices, are in the main thread. */
function tellMainThread(): StoredRows {
  const channel = openChannel(channelName);
  return { tell: (shard) => channel.postMessage(shard), close: () => channel.close() };
}

function tellRelays(
  relay: Pick<RelayInProcess, 'wake' | 'holds'> | undefined,
  notices: Notices | undefined,
): StoredRows {
  const notifier = notices && createNotifier({ notices, clock: systemClock, isolate });
  let channel: Channel | undefined;

  function tell(shard: number): void {
    relay?.wake();
    if (relay?.holds(shard) !== true) notifier?.add(shard);
  }

  function onWorker(worker: Worker): void {
    if (channel === undefined) {
      channel = openChannel(channelName);
      channel.onmessage = (event) => tell((event as { data: number }).data);
    }
    // Its last word may not arrive any more.
    worker.once('exit', () => relay?.wake());
  }

  process.on('worker', onWorker);
  return {
    tell,
    close() {
      process.removeListener('worker', onWorker);
      channel?.close();
      notifier?.stop();
    },
  };
}
