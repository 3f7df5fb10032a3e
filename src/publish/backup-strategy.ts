import { nodeCrypto } from '../ground/builtins.ts';
import { SvcError } from '../ground/errors.ts';
import { shared } from '../ground/lifecycle.ts';

/** An event that could not be published, with everything that a restore needs to send the same bytes to the same topic. */
export interface BackupEvent {
  readonly eventId: string;
  readonly eventType: string;
  /** The topic it was meant for. */
  readonly topic: string;
  readonly key: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** The record value: protected, serialized, immutable. */
  readonly value: Buffer;
  /** The event as JSON, if `value` is binary. */
  readonly document?: unknown;
  /** Class name or code of the root cause. */
  readonly reason: string;
  /** Milliseconds since the epoch. */
  readonly backedUpAt: number;
}

/**
 * PORT: stores events that neither their topic nor the dead letter topic took. Register your own with `registerBackupStrategy`.
 *
 * - `store` resolves when the event is stored durably, and rejects otherwise: the next strategy is tried then. Error messages may
 *   reach the log, so they must hold no payload.
 * - Any number of events may be stored at once. A `store` without an answer within 30 s has failed.
 * - `storeSync` stores all remaining events when the process ends, or none of them, before it returns. It throws when it cannot. A
 *   strategy without it is skipped then.
 * - `close` ends stores in flight, at `deadlineMs` at the latest.
 */
export interface EventBackupStrategy {
  /** For log lines. */
  readonly name: string;
  store(event: BackupEvent): Promise<void>;
  storeSync?(events: readonly BackupEvent[]): void;
  close?(deadlineMs: number): Promise<void>;
}

const registered = shared('backup-strategies', () => new Set<EventBackupStrategy>());

/**
 * Adds a backup strategy. It is tried before the configured ones (S3, then local files), in the order of registration, and works
 * without them. Returns a function that removes it.
 *
 * @throws SvcError `SVC_PUBLISH_BACKUP_STRATEGY` for an invalid strategy
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

/** Includes those registered with another copy of this package. */
export function registeredBackupStrategies(): readonly EventBackupStrategy[] {
  return [...registered];
}

const safeId = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/;
/** Windows opens a device for these, whatever the extension. */
const deviceName = /^(con|prn|aux|nul|com\d|lpt\d)$/i;

/** The event id if every file system and object store accepts it as a name; otherwise a hash of it. */
export function backupName(eventId: unknown): string {
  if (typeof eventId === 'string' && safeId.test(eventId) && !deviceName.test(eventId)) return eventId;
  const text = typeof eventId === 'string' ? eventId : typeof eventId;
  return `h-${nodeCrypto().createHash('sha256').update(text).digest('hex').slice(0, 40)}`;
}
