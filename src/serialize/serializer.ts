// serialize/: a protected envelope becomes bytes, once.

import type { ProtectedEnvelope } from '../protect/protect.ts';

/** One event, serialized once: the Kafka record, the DLQ message, the backup and the outbox row hold these same bytes. */
export interface SerializedEvent {
  readonly eventId: string;
  readonly eventType: string;
  /** `undefined`: the default topic. */
  readonly topic: string | undefined;
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly value: EventValue;
}

/**
 * Header of a record that is JSON for the time being, as the schema registry has not returned the id of its schema yet, whose name is the
 * value. It is encoded before it is sent, wherever it waited.
 */
export const schemaHeader = 'svc-avro-schema';

/** What a record has beside its value. */
export interface RecordParts {
  readonly topic: string;
  /** `undefined`: the application gave none, and the event id is in its place. */
  readonly key?: string | undefined;
  /** The application's own. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly trace: { readonly traceparent: string; readonly tracestate?: string | undefined };
}

/** PORT: turns a protected envelope into bytes. Synchronous; called once per event, on the caller's path. */
export interface Serializer {
  /** Throws an `SvcError` without a value where the event has no such form: it is refused. */
  serialize(envelope: ProtectedEnvelope, record: RecordParts): EventValue;
}

/** What all events of one form have in common. */
export interface EventForm {
  /** Of the record, so that readers know the form: `content-type`. */
  readonly headers: Readonly<Record<string, string>>;
  /** `latin1`: the form is a binary one, and a character stands for a byte. */
  readonly encoding: 'utf8' | 'latin1';
  /** The value of `publishedAt`. */
  publishedAt(nowMs: number): string;
  /** The header that holds `publishedAt`, where the value does not. */
  readonly publishedAtHeader?: string;
  /** The event as JSON has it, for people: of a binary form. */
  toJson?(value: Buffer): unknown;
}

/** Memory that events share, one piece of it after the other. A piece is held by the last of its events, so it is small. */
const sharedBytes = 16_384;
/** What has more characters has memory of its own. */
const mostShared = sharedBytes / 4;

/** Left free for a `publishedAt` as JSON has it, so that a value is copied at once. */
const gapBytes = 24;
/** The last character of a text that was cut off may have needed so many bytes. */
const mostOfOne = 4;

let shared: Buffer = Buffer.alloc(0);
let used = 0;

/**
 * The bytes of an event, but for the value of `publishedAt`, which is set when the record is handed to the broker client. They are
 * written as soon as the text is there: texts that wait for their send would be copied again and again by the collector, and
 * buffers of their own would be objects for it to follow.
 */
export class EventValue {
  readonly form: EventForm;
  /** Without `publishedAt`. */
  readonly length: number;
  private readonly bytes: Buffer;
  private readonly start: number;
  /** Where the gap is. */
  private readonly middle: number;

  /** @param after in pieces: to join them would copy the payload once more */
  constructor(form: EventForm, before: string, after: readonly string[]) {
    const { encoding } = form;
    let characters = before.length + gapBytes;
    for (const piece of after) characters += piece.length;
    this.form = form;
    if (characters > mostShared) {
      this.bytes = Buffer.allocUnsafeSlow(gapBytes + byteLength(before, after, encoding));
      this.start = 0;
    } else {
      if (characters > shared.length - used) nextPiece();
      this.bytes = shared;
      this.start = used;
    }
    let middle = this.start + this.bytes.write(before, this.start, encoding);
    let end = writeAll(this.bytes, middle + gapBytes, after, encoding);
    if (this.bytes === shared) {
      // Whether it fits shows when it is written: counting costs as much.
      if (end > shared.length - mostOfOne) {
        nextPiece();
        this.bytes = shared;
        this.start = 0;
        middle = shared.write(before, 0, encoding);
        end = writeAll(shared, middle + gapBytes, after, encoding);
      }
      used = end;
    }
    this.middle = middle;
    this.length = end - this.start - gapBytes;
  }

  /** Writes all of them, and returns the place behind. */
  write(to: Buffer, start: number, publishedAt: string): number {
    const { bytes, middle, length } = this;
    const end = this.start + length + gapBytes;
    const gap = start + middle - this.start;
    if (publishedAt.length === gapBytes) {
      bytes.copy(to, start, this.start, end);
      for (let at = 0; at < gapBytes; at++) to[gap + at] = publishedAt.charCodeAt(at);
      return start + length + gapBytes;
    }
    bytes.copy(to, start, this.start, middle);
    const at = gap + to.write(publishedAt, gap, 'latin1');
    return at + bytes.copy(to, at, middle + gapBytes, end);
  }
}

function nextPiece(): void {
  shared = Buffer.allocUnsafeSlow(sharedBytes);
  used = 0;
}

/** Returns the place behind; what has no room is cut off. */
function writeAll(
  bytes: Buffer,
  start: number,
  pieces: readonly string[],
  encoding: EventForm['encoding'],
): number {
  let end = start;
  for (const piece of pieces) {
    if (end >= bytes.length) return end;
    end += bytes.write(piece, end, encoding);
  }
  return end;
}

function byteLength(before: string, after: readonly string[], encoding: EventForm['encoding']): number {
  let bytes = Buffer.byteLength(before, encoding);
  for (const piece of after) bytes += Buffer.byteLength(piece, encoding);
  return bytes;
}
