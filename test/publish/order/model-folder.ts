import { SvcError } from '../../../src/ground/errors.ts';
import { orderOf } from '../../../src/ground/event-fields.ts';
import type { RecoverySource, StoredBatch, StoredEvent } from '../../../src/publish/recovery-source.ts';
import type { BackupEvent, EventBackupStrategy } from '../../../src/publish/tier.ts';

interface Line {
  readonly event: StoredEvent;
  readonly owner: Owner;
  isDone: boolean;
}

/** A process, as the folder knows it. */
export interface Owner {
  readonly generation: number;
  isDead: boolean;
}

/** A backup folder in memory: journals of processes, read as the real one is. */
export interface ModelFolder {
  /** Events that may be in it at once. */
  room: number;
  /** Files are there, and cannot be read. */
  isUnreadable: boolean;
  /** Milliseconds that a write takes. */
  writeMs: number;
  waiting(): number;
  /** Events that were read from it so far. */
  readonly read: number;
  strategyOf(owner: Owner): EventBackupStrategy;
  own(owner: Owner): { source: RecoverySource; hasOwn: (from: bigint) => Promise<boolean> };
  left(owner: Owner): { source: RecoverySource; hasLeft: () => Promise<boolean> };
}

const never = new Promise<never>(() => {});
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export function createModelFolder(): ModelFolder {
  const lines: Line[] = [];
  let locked: Owner | undefined;
  let read = 0;
  const open = (): Line[] => lines.filter(({ isDone }) => !isDone);

  /** Whatever a dead process does, nothing comes of it. */
  async function alive(owner: Owner, ms = 0): Promise<void> {
    if (ms > 0) await sleep(ms);
    if (owner.isDead) await never;
  }

  function sourceOf(owner: Owner, taken: () => readonly Line[], lock?: () => void): RecoverySource {
    return {
      name: 'model',
      async open() {
        await alive(owner);
        lock?.();
      },
      count: async () => taken().length,
      async *read(size): AsyncGenerator<StoredBatch> {
        if (folder.isUnreadable) {
          yield { events: [], unreadable: [{ place: 'model', reason: 'EMFILE', mayPass: true }] };
          return;
        }
        const all = taken().toSorted(byOrder);
        for (let at = 0; at < all.length; at += size) {
          await alive(owner, 1);
          const events = all.slice(at, at + size).map(({ event }) => event);
          read += events.length;
          yield { events, unreadable: [] };
        }
      },
      async done(events) {
        await alive(owner, 1);
        for (const { place } of events) (lines[Number(place)] as Line).isDone = true;
      },
      async close() {
        if (locked === owner) locked = undefined;
      },
    };
  }

  const folder: ModelFolder = {
    room: Number.POSITIVE_INFINITY,
    isUnreadable: false,
    writeMs: 1,
    waiting: () => open().length,
    get read() {
      return read;
    },
    strategyOf(owner) {
      let last: Promise<unknown> = Promise.resolve();
      let givenProviders = 0;
      let refusedUntil = 0;
      return {
        name: 'model',
        store(event: BackupEvent) {
          const number = ++givenProviders;
          const stored = last.then(async () => {
            await alive(owner, folder.writeMs);
            // One that was handed over before the refusal was known, and fits, would overtake it (docs/recovery.md).
            if (open().length >= folder.room) refusedUntil = givenProviders;
            if (number <= refusedUntil) throw new SvcError('SVC_ADAPTERS_BACKUP_FULL', 'it is full');
            const { backedUpAt: storedAt, ...rest } = event;
            lines.push({
              event: { ...rest, storedAt, place: String(lines.length) },
              owner,
              isDone: false,
            });
          });
          last = stored.catch(() => {});
          return stored;
        },
      };
    },
    own(owner) {
      let journal: Line[] = [];
      return {
        source: sourceOf(owner, () => journal.filter(({ isDone }) => !isDone)),
        async hasOwn(from) {
          const all = open().filter((line) => line.owner === owner);
          journal = all.filter(({ event }) => orderOf(event.eventId) >= from);
          return all.length > 0;
        },
      };
    },
    left(owner) {
      const lock = (): void => {
        if (locked !== undefined && !locked.isDead && locked !== owner)
          throw new SvcError('SVC_ADAPTERS_BACKUP_BUSY', 'another process is at it');
        locked = owner;
      };
      return {
        source: sourceOf(owner, () => open().filter((line) => line.owner.isDead), lock),
        hasLeft: async () => open().length > 0,
      };
    },
  };
  return folder;
}

function byOrder(a: Line, b: Line): number {
  if (a.owner.generation !== b.owner.generation) return a.owner.generation - b.owner.generation;
  const [first, second] = [orderOf(a.event.eventId), orderOf(b.event.eventId)];
  return first < second ? -1 : first > second ? 1 : 0;
}
