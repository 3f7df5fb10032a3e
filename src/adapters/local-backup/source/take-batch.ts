import type { BackupEvent } from '../../../publish/backup-strategy.ts';

const maxBatchCount = 1_000;
const maxBatchBytes = 4 * 1024 * 1024;

/** What is written at once, out of what waits: at least one event. */
export function takeBatch<Waiting extends { readonly event: BackupEvent }>(waiting: Waiting[]): Waiting[] {
  let bytes = 0;
  let count = 0;
  while (count < waiting.length && count < maxBatchCount && (count === 0 || bytes < maxBatchBytes)) {
    bytes += (waiting[count++] as Waiting).event.value.length;
  }
  return waiting.splice(0, count);
}
