import type { EventForm, EventValue, SerializedEvent } from '../../serialize/serializer.ts';
import type { BrokerRecord } from '../broker.ts';

/** The record of an event that is sent now: `publishedAt` and the record's timestamp are equal. */
export function toRecord(event: SerializedEvent, nowMs: number): BrokerRecord {
  return new EventRecord(event, nowMs);
}

/** The record headers of an event that is sent or stored now. */
export function headersAt(
  { headers, value: { form } }: SerializedEvent,
  nowMs: number,
): SerializedEvent['headers'] {
  const { publishedAtHeader: name } = form;
  return name === undefined ? headers : { ...headers, [name]: form.publishedAt(nowMs) };
}

/** The record value of an event that is stored now, for callers that need only these bytes. */
export function valueBytesOf({ value }: SerializedEvent, nowMs: number): Buffer {
  return bytesAt(value, publishedAtIn(value.form, nowMs));
}

function bytesAt(value: EventValue, publishedAt: string): Buffer {
  const bytes = Buffer.allocUnsafe(value.length + publishedAt.length);
  value.write(bytes, 0, publishedAt);
  return bytes;
}

/** The value gets its own buffer only when read. A client that writes many records copies the bytes to their destination. */
class EventRecord implements BrokerRecord {
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timestamp: number;
  private readonly source: EventValue;
  private readonly publishedAt: string;
  private bytes: Buffer | undefined = undefined;

  constructor(event: SerializedEvent, nowMs: number) {
    this.key = event.key;
    this.headers = headersAt(event, nowMs);
    this.timestamp = nowMs;
    this.source = event.value;
    this.publishedAt = publishedAtIn(event.value.form, nowMs);
  }

  get valueBytes(): number {
    return this.source.length + this.publishedAt.length;
  }

  get value(): Buffer {
    this.bytes ??= bytesAt(this.source, this.publishedAt);
    return this.bytes;
  }

  writeValue(to: Buffer, start: number): void {
    this.source.write(to, start, this.publishedAt);
  }
}

let lastForm: EventForm | undefined;
let lastMs = Number.NaN;
let lastText = '';

/** The text between the two parts of a value. It is the same for all records of a batch. */
function publishedAtIn(form: EventForm, nowMs: number): string {
  if (form.publishedAtHeader !== undefined) return '';
  if (form !== lastForm || nowMs !== lastMs) {
    lastText = form.publishedAt(nowMs);
    lastForm = form;
    lastMs = nowMs;
  }
  return lastText;
}

const publishedAtBytes = 24;
/** Upper bound of a record's lengths, offsets and timestamp. */
const recordBytes = 40;
/** Upper bound of a header's lengths. */
const headerBytes = 6;

/** Size in bytes of the event's record, a few bytes too high. */
export function bytesOf({ value, key, headers }: SerializedEvent): number {
  let bytes = recordBytes + publishedAtBytes + utf8Length(key) + value.length;
  const { publishedAtHeader } = value.form;
  if (publishedAtHeader !== undefined) bytes += headerBytes + publishedAtHeader.length;
  for (const name of Object.keys(headers)) {
    bytes += headerBytes + utf8Length(name) + utf8Length(headers[name] as string);
  }
  return bytes;
}

/** Keys and headers are short and mostly ASCII: a loop is faster than a call of Node. */
function utf8Length(text: string): number {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 0x7f) return Buffer.byteLength(text);
  return text.length;
}
