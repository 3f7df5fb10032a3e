import { SvcError } from '../ground/errors.ts';
import type { Logger } from '../observe/logger.ts';
import type { Dialect, DriverSession } from '../transaction/driver.ts';
import type { OutboxStore } from './outbox-store.ts';

/**
 * Whether the application's connections and svc's own one have the same table: else events are committed that no relay ever sends. A
 * connection's first event that was committed is looked for over svc's own connection, aside: the application waits for
 * nothing, and needs no right for it.
 */
export interface SameTable {
  /**
   * Before an event is written on a connection of the application. Throws where its events are known to go elsewhere. Returns what has
   * to be told whether the event was committed; `undefined`: nobody has to know.
   */
  watch(session: DriverSession, eventId: string): ((isCommitted: boolean) => void) | undefined;
  /** One line, once a connection has another table. */
  problem(): string | undefined;
}

export interface SameTableOptions {
  readonly store: Pick<OutboxStore, 'lastId' | 'holds'>;
  readonly dialect: Dialect;
  readonly table: string;
  /** A row may be gone as soon as it is sent: one that is not there says nothing. */
  readonly deletesAtOnce: boolean;
  readonly isolate: <T>(work: () => T) => T;
  readonly logger: Logger;
}

/** Ids that others may take between the question for the last one and the INSERT. */
const slackRows = 10_000;
/** A replica that a proxy reads from may be behind. */
const secondLookMs = 2_000;
/** Somebody may have discarded one. */
const provenByEvents = 2;
/** Where rows are deleted at once: so many in vain are worth a line. */
const doubtfulEvents = 20;

interface Known {
  isSame?: true;
  isOther?: true;
  isLooking?: true;
  absent: number;
}

export function createSameTable(options: SameTableOptions): SameTable {
  const { store, dialect, table, deletesAtOnce, isolate, logger } = options;
  const connections = new WeakMap<DriverSession, Known>();
  let hasSame = false;
  let hasOther = false;
  let absent = 0;

  async function isThere(eventId: string, last: Promise<number>): Promise<boolean> {
    const afterId = Math.max(0, (await last) - slackRows);
    if (await store.holds(eventId, afterId)) return true;
    if (!deletesAtOnce) await new Promise<void>((resolve) => void setTimeout(resolve, secondLookMs).unref());
    // One row with a high id, as a restore or a cut-over leaves it, makes ids tell nothing: only the event's own id does.
    return store.holds(eventId, 0);
  }

  function found(known: Known): void {
    known.isSame = true;
    hasSame = true;
    absent = 0;
  }

  function missed(known: Known): void {
    known.absent++;
    absent++;
    if (deletesAtOnce) {
      if (!hasSame && absent === doubtfulEvents) logger.warn(`outbox: ${doubtText(table)}`);
      return;
    }
    if (known.absent < provenByEvents && (hasSame || absent < provenByEvents)) return;
    known.isOther = true;
    if (!hasOther) logger.error(`outbox: ${otherText(table)}`, { code: 'SVC_OUTBOX_OTHER_DATABASE' });
    hasOther = true;
  }

  async function look(known: Known, eventId: string, last: Promise<number>): Promise<void> {
    try {
      if (await isThere(eventId, last)) found(known);
      else missed(known);
    } catch {
      // The database is away, which the relay says: another event will tell.
    } finally {
      delete known.isLooking;
    }
  }

  return {
    watch(session, eventId) {
      if (session.dialect !== dialect) throw otherDatabase(table);
      const known = connections.get(session) ?? { absent: 0 };
      if (known.isSame) return undefined;
      if (known.isOther || (hasOther && !hasSame)) throw otherDatabase(table);
      if (known.isLooking) return undefined;
      known.isLooking = true;
      connections.set(session, known);
      const last = isolate(() => store.lastId());
      last.catch(() => {});
      return (isCommitted) => {
        if (isCommitted) void isolate(() => look(known, eventId, last));
        else delete known.isLooking;
      };
    },
    problem: () => (hasOther ? otherText(table) : undefined),
  };
}

const whatToDo =
  "name the application's own database in svc.outbox.datasource.url, and the schema of the table in svc.outbox.table";

function otherText(table: string): string {
  return `events that the application committed are in another table ${table} than that of svc.outbox.datasource.url, and no relay of this application sends them: ${whatToDo}`;
}

function doubtText(table: string): string {
  return `none of ${doubtfulEvents} events that the application committed was seen in the table ${table} of svc.outbox.datasource.url; if they do not arrive either, ${whatToDo}`;
}

function otherDatabase(table: string): SvcError {
  return new SvcError(
    'SVC_OUTBOX_OTHER_DATABASE',
    `the event is not stored: this connection of the application has another database than svc.outbox.datasource.url, or another table ${table}; ${whatToDo}`,
  );
}
