import type { EventText, SerializedEvent } from '../../serialize/serializer.ts';
import type { BrokerRecord } from '../broker.ts';

/** The record of an event that is handed over now: `publishedAt` and the record's time are the same. */
export function toRecord(event: SerializedEvent, nowMs: number): BrokerRecord {
  return new EventRecord(event, nowMs);
}

/** The headers of the record of an event that is handed over or stored now. */
export function headersAt(
  { headers, text: { form } }: SerializedEvent,
  nowMs: number,
): SerializedEvent['headers'] {
  const { publishedAtHeader: name } = form;
  return name === undefined ? headers : { ...headers, [name]: form.publishedAt(nowMs) };
}

/** The value of the record of an event that is stored now, for whoever needs nothing but these bytes. */
export function valueBytesOf({ text }: SerializedEvent, nowMs: number): Buffer {
  const publishedAt = publishedAtIn(text, nowMs);
  return Buffer.from(
    text.beforePublishedAt + publishedAt + text.afterPublishedAt.join(''),
    text.form.encoding,
  );
}

/**
 * Its value stays text until somebody needs the bytes: a client that writes records into one buffer for a whole batch takes
 * them there at once. Buffers for each event would make Node collect garbage in the old generation twice a second under load.
 */
class EventRecord implements BrokerRecord {
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timestamp: number;
  readonly valueBytes: number;
  private readonly text: EventText;
  private readonly publishedAt: string;
  private readonly encoding: 'latin1' | 'utf8';
  private bytes: Buffer | undefined = undefined;

  constructor(event: SerializedEvent, nowMs: number) {
    const { text } = event;
    this.key = event.key;
    this.headers = headersAt(event, nowMs);
    this.timestamp = nowMs;
    this.text = text;
    this.publishedAt = publishedAtIn(text, nowMs);
    const bytes = bytesOfText(text);
    this.valueBytes = bytes + this.publishedAt.length;
    let characters = text.beforePublishedAt.length;
    for (const piece of text.afterPublishedAt) characters += piece.length;
    // As many bytes as characters: it is ASCII or binary, and only copied.
    this.encoding = bytes === characters ? 'latin1' : 'utf8';
  }

  get value(): Buffer {
    if (this.bytes === undefined) {
      this.bytes = Buffer.allocUnsafe(this.valueBytes);
      this.writeValue(this.bytes, 0);
    }
    return this.bytes;
  }

  /** Piece by piece: the whole as one string would be garbage as large as the record. */
  writeValue(to: Buffer, start: number): void {
    const { text, publishedAt, encoding } = this;
    let at = start + to.write(text.beforePublishedAt, start, encoding);
    at += to.write(publishedAt, at, encoding);
    for (const piece of text.afterPublishedAt) at += to.write(piece, at, encoding);
  }
}

const publishedAtBytes = 24;
/** The most that the lengths, offsets and time of a record take. */
const recordBytes = 40;
/** The most that the lengths of a header take. */
const headerBytes = 6;

/** Size in bytes of the record that an event becomes, on the safe side by a few. */
export function bytesOf({ text, key, headers }: SerializedEvent): number {
  let bytes = recordBytes + publishedAtBytes + Buffer.byteLength(key) + bytesOfText(text);
  const { publishedAtHeader } = text.form;
  if (publishedAtHeader !== undefined) bytes += headerBytes + publishedAtHeader.length;
  for (const name of Object.keys(headers)) {
    bytes += headerBytes + Buffer.byteLength(name) + Buffer.byteLength(headers[name] as string);
  }
  return bytes;
}

/** What stands between the two parts of a text. */
function publishedAtIn({ form }: EventText, nowMs: number): string {
  return form.publishedAtHeader === undefined ? form.publishedAt(nowMs) : '';
}

/** Without the value of `publishedAt`. */
function bytesOfText({ form: { encoding }, beforePublishedAt, afterPublishedAt }: EventText): number {
  let bytes = Buffer.byteLength(beforePublishedAt, encoding);
  for (const piece of afterPublishedAt) bytes += Buffer.byteLength(piece, encoding);
  return bytes;
}
