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
  private readonly middle: number;

  /** @param after in pieces: to join them would copy the payload once more */
  constructor(form: EventForm, before: string, after: readonly string[]) {
    const { encoding } = form;
    const own = takeRoom(before, after, encoding);
    const bytes = own ?? shared;
    const start = own === undefined ? used : 0;
    const middle = start + bytes.write(before, start, encoding);
    let end = middle;
    for (const piece of after) end += bytes.write(piece, end, encoding);
    if (own === undefined) used = end;
    this.form = form;
    this.length = end - start;
    this.bytes = bytes;
    this.start = start;
    this.middle = middle;
  }

  /** Writes all of them, and returns the place behind. */
  write(to: Buffer, start: number, publishedAt: string): number {
    const { bytes, middle } = this;
    let at = start + bytes.copy(to, start, this.start, middle);
    at += to.write(publishedAt, at, 'latin1');
    return at + bytes.copy(to, at, middle, this.start + this.length);
  }
}

/** Returns memory of its own for a long text; for all others there is room in the shared one then. */
function takeRoom(
  before: string,
  after: readonly string[],
  encoding: EventForm['encoding'],
): Buffer | undefined {
  let characters = before.length;
  for (const piece of after) characters += piece.length;
  const isLong = characters > mostShared;
  const room = shared.length - used;
  // A UTF-16 unit never takes more than three bytes: counting costs more than writing.
  if (!isLong && 3 * characters <= room) return undefined;
  let size = Buffer.byteLength(before, encoding);
  for (const piece of after) size += Buffer.byteLength(piece, encoding);
  if (isLong) return Buffer.allocUnsafeSlow(size);
  if (size <= room) return undefined;
  shared = Buffer.allocUnsafeSlow(sharedBytes);
  used = 0;
  return undefined;
}
