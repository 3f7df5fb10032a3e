import { nodeCrypto } from '../ground/builtins.ts';
import { SvcError } from '../ground/errors.ts';
import { shared } from '../ground/lifecycle.ts';

/** An event that could not be published, with all that a restore needs: the same bytes go to the same topic again. */
export interface BackupEvent {
  readonly eventId: string;
  readonly eventType: string;
  /** The topic that this very event was meant for. */
  readonly topic: string;
  readonly key: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** The record value: protected, serialized, never changed. */
  readonly value: Buffer;
  /** The same event as JSON has it, where `value` is in a binary form. */
  readonly document?: unknown;
  /** Class name or code of the root cause. */
  readonly reason: string;
  /** Milliseconds since the epoch. */
  readonly backedUpAt: number;
}

/**
 * PORT: a place for events that neither their topic nor the dead letter topic took. Register one of your own with
 * `registerBackupStrategy`.
 *
 * - `store` resolves when the event is stored for good, and rejects when it is not: the next strategy is tried then.
 *   An error message may reach the log: it must hold no payload.
 * - Any number of events may be stored at once. A strategy that does not answer within 30 s counts as failed.
 * - `storeSync` stores what is left when the process ends, all of it or none, before it returns; it throws when it cannot.
 *   A strategy without it is passed over then.
 * - `close` ends what is under way, at `deadlineMs` at the latest.
 */
export interface EventBackupStrategy {
  /** As log lines name it. */
  readonly name: string;
  store(event: BackupEvent): Promise<void>;
  storeSync?(events: readonly BackupEvent[]): void;
  close?(deadlineMs: number): Promise<void>;
}

const registered = shared('backup-strategies', () => new Set<EventBackupStrategy>());

/**
 * Adds a backup strategy of the application's own. It is asked before the configured ones (S3, then local files), in the
 * order of registration, and works without any of them. Returns the way to take it out again.
 *
 * @throws SvcError `SVC_PUBLISH_BACKUP_STRATEGY` for what is none: in an outage it would be too late to hear of it.
 */
export function registerBackupStrategy(strategy: EventBackupStrategy): () => void {
  const { name, store, storeSync, close } = (strategy ?? {}) as Partial<EventBackupStrategy>;
  const isOptional = (method: unknown): boolean => method === undefined || typeof method === 'function';
  if (typeof name !== 'string' || name === '' || typeof store !== 'function')
    throw badStrategy('it needs a name and a function store(event)');
  if (!isOptional(storeSync) || !isOptional(close))
    throw badStrategy('storeSync and close must be functions, or omitted');
  registered.add(strategy);
  return () => void registered.delete(strategy);
}

function badStrategy(why: string): SvcError {
  return new SvcError('SVC_PUBLISH_BACKUP_STRATEGY', `not a backup strategy: ${why}`);
}

/** Those of the application, whichever copy of this package they were registered with. */
export function registeredBackupStrategies(): readonly EventBackupStrategy[] {
  return [...registered];
}

const safeId = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/;
/** Windows opens a device for these, whatever the extension. */
const deviceName = /^(con|prn|aux|nul|com\d|lpt\d)$/i;

/** The event id where it can be a file name and an object key on every system; else a hash of it. */
export function backupName(eventId: unknown): string {
  if (typeof eventId === 'string' && safeId.test(eventId) && !deviceName.test(eventId)) return eventId;
  const text = typeof eventId === 'string' ? eventId : typeof eventId;
  return `h-${nodeCrypto().createHash('sha256').update(text).digest('hex').slice(0, 40)}`;
}
