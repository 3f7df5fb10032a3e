import { createDraining, type DrainOptions } from './draining.ts';
import { createJournalDrain } from './journal-drain.ts';
import { createLeftDrain } from './left-drain.ts';

/** Empties the local backup of a running process into the original topics when the cluster is back. */
export interface Drain {
  /** Something was put into the backup. */
  stored(): void;
  /** Somebody may have left something there: it is looked for at once. */
  look(): void;
  /** Events that were sent from the backup. */
  count(): number;
  /** Ends after the batch under way. */
  close(): Promise<void>;
}

/**
 * First what an earlier process has left, with all that is new behind it, then what this one has stored itself, in passes, until
 * new events can go to their topics directly again. Without a journal all of it is sent beside what is new. Its timers do not
 * keep the process alive: what is not sent stays in the backup.
 */
export function createDrain(options: DrainOptions): Drain {
  const { journal, clock } = options;
  const draining = createDraining(options);
  const own = journal && createJournalDrain(journal, clock, draining, () => left.isFirst());
  const left = createLeftDrain(options, draining, () => own?.within(0));
  return {
    stored: () => (own ?? left).stored(),
    look: left.look,
    count: draining.count,
    async close() {
      draining.stop();
      await Promise.all([own?.close(), left.close()]);
    },
  };
}
