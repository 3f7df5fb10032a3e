/** A stored event that is still to be sent to its topic. */
export interface StoredEvent {
  /** Where it is stored, for an operator: a file, a line of a segment, `topic-partition@offset`. */
  readonly place: string;
  readonly eventId: string;
  readonly eventType: string;
  /** `undefined`: unknown to the source, as for a bare event file. */
  readonly topic: string | undefined;
  readonly key: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly value: Buffer;
  /** When it was stored, in milliseconds since the epoch; 0: unknown. */
  readonly storedAt: number;
  /** Class name or code of the root cause. */
  readonly reason: string | undefined;
}

/** An entry that cannot be read as an event. It stays where it is. */
export interface Unreadable {
  readonly place: string;
  /** One line, without payload. */
  readonly reason: string;
  /** Another process is still writing it. */
  readonly isInUse?: true;
  /** It is unknown whether the process that wrote it still runs. This is known within a minute. */
  readonly isDoubtful?: true;
  /** The file could not be read this time, for example because too many files are open. It may hold events. */
  readonly mayPass?: true;
}

export interface StoredBatch {
  readonly events: readonly StoredEvent[];
  readonly unreadable: readonly Unreadable[];
}

/**
 * PORT: events that can be recovered: a backup folder, a bucket, the dead letter topic.
 *
 * - `read` gives the events that exist when it begins and are not recovered, oldest first, in batches of at most `size`. The caller
 *   may end it early.
 * - `done` durably marks events of the last batch as recovered: no later run of any process reads them again. A crash before it
 *   repeats at most one batch.
 * - `count` is how many events `read` would give, as far as that is cheap to find out.
 * - Only one reader of a source marks events at a time. `open` fails with one line that names the other reader.
 * - All methods reject with a one-line error that holds no payload.
 */
export interface RecoverySource {
  /** For messages. */
  readonly name: string;
  /** `forRecovery` false: the caller marks nothing, so others may use the source at the same time. */
  open(forRecovery: boolean): Promise<void>;
  count(): Promise<number | undefined>;
  /** Whether `read` could give anything. Cheap; works before `open`. */
  hasEvents?(): Promise<boolean>;
  read(size: number): AsyncIterable<StoredBatch>;
  done(events: readonly StoredEvent[]): Promise<void>;
  /**
   * Optional: moves events of the last batch to where people find them and `read` does not. Gives the name of that location.
   * `undefined`: it has no space, and they stay.
   */
  setAside?(events: readonly StoredEvent[]): Promise<string | undefined>;
  close(): Promise<void>;
}
