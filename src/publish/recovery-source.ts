/** An event that waits to be sent to its topic after all. */
export interface StoredEvent {
  /** Where it lies, for an operator: a file, a line of a segment, `topic-partition@offset`. */
  readonly place: string;
  readonly eventId: string;
  readonly eventType: string;
  /** `undefined`: the source does not know it, as with a bare event file. */
  readonly topic: string | undefined;
  readonly key: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly value: Buffer;
  /** Milliseconds since the epoch at which it was stored; 0 where that is unknown. */
  readonly storedAt: number;
  /** Class name or code of the root cause. */
  readonly reason: string | undefined;
}

/** Something that lies there and is no event, or not yet. It stays where it is. */
export interface Unreadable {
  readonly place: string;
  /** One line, without payload. */
  readonly reason: string;
  /** Nothing is wrong with it: whoever writes it is still at it. */
  readonly isInUse?: true;
  /** Nobody here can tell whether that one lives: it shows within a minute. */
  readonly isDoubtful?: true;
  /** A file that could not be read this time, as with too many open ones: events may be in it. */
  readonly mayPass?: true;
}

export interface StoredBatch {
  readonly events: readonly StoredEvent[];
  readonly unreadable: readonly Unreadable[];
}

/**
 * PORT: events that can be recovered: a backup folder, a bucket, the dead letter topic.
 *
 * - `read` gives what is there when it begins and is not yet recovered, oldest first, in batches of at most `size`.
 *   It may be ended early.
 * - `done` marks events of the last batch as recovered, durably: no later run, in whichever process, sees them again.
 *   What was not marked is there the next time: a crash in between repeats at most one batch.
 * - `count` is how many events `read` would give, as far as that can be said cheaply.
 * - Only one reader of a source marks events at a time; `open` fails with one line that says who is at it.
 * - All of them reject with a one-line error that holds no payload.
 */
export interface RecoverySource {
  /** As messages name it. */
  readonly name: string;
  /** `forRecovery` false: nothing will be marked, so that others may work on it meanwhile. */
  open(forRecovery: boolean): Promise<void>;
  count(): Promise<number | undefined>;
  /** Whether `read` could give anything, cheaply and before `open`. */
  hasEvents?(): Promise<boolean>;
  read(size: number): AsyncIterable<StoredBatch>;
  done(events: readonly StoredEvent[]): Promise<void>;
  /**
   * Optional: puts events of the last batch where `read` does not find them again and a person does. Gives the name of that
   * place, or `undefined` where there is no room: then they stay.
   */
  setAside?(events: readonly StoredEvent[]): Promise<string | undefined>;
  close(): Promise<void>;
}
