import type { BackupEvent } from '../../../publish/backup-strategy.ts';

/** An event on its way to the disk, and whom to tell. */
export interface Waiting {
  readonly event: BackupEvent;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** So long events of a stream wait for company: they share one fsync. */
export const lingerMs = 5;
/** So many are worth one without company. */
const worthwhileCount = 200;

/** Whether several callers store events, by what was written last, but not so many that the next ones need not wait. */
export function isStream(written: readonly Waiting[], waiting: readonly Waiting[]): boolean {
  return written.length > 1 && waiting.length < worthwhileCount;
}

const maxBatchCount = 1_000;
const maxBatchBytes = 4 * 1024 * 1024;

/** What is written at once, out of what waits: at least one event. */
export function takeBatch<One extends Pick<Waiting, 'event'>>(waiting: One[]): One[] {
  let bytes = 0;
  let count = 0;
  while (count < waiting.length && count < maxBatchCount && (count === 0 || bytes < maxBatchBytes)) {
    bytes += (waiting[count++] as One).event.value.length;
  }
  return waiting.splice(0, count);
}
