import type { EventForm, EventValue, SerializedEvent } from '../../serialize/serializer.ts';
import type { BrokerRecord } from '../broker.ts';

/** The record of an event that is handed over now: `publishedAt` and the record's time are the same. */
export function toRecord(event: SerializedEvent, nowMs: number): BrokerRecord {
  return new EventRecord(event, nowMs);
}

/** The headers of the record of an event that is handed over or stored now. */
export function headersAt(
  { headers, value: { form } }: SerializedEvent,
  nowMs: number,
): SerializedEvent['headers'] {
  const { publishedAtHeader: name } = form;
  return name === undefined ? headers : { ...headers, [name]: form.publishedAt(nowMs) };
}

/** The value of the record of an event that is stored now, for whoever needs nothing but these bytes. */
export function valueBytesOf({ value }: SerializedEvent, nowMs: number): Buffer {
  return bytesAt(value, publishedAtIn(value.form, nowMs));
}

function bytesAt(value: EventValue, publishedAt: string): Buffer {
  const bytes = Buffer.allocUnsafe(value.length + publishedAt.length);
  value.write(bytes, 0, publishedAt);
  return bytes;
}

/** Its value has no buffer of its own until somebody asks for it: whoever writes many records takes its bytes where they go. */
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

/** What stands between the two parts of a value. All records of a batch have one. */
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
/** The most that the lengths, offsets and time of a record take. */
const recordBytes = 40;
/** The most that the lengths of a header take. */
const headerBytes = 6;

/** Size in bytes of the record that an event becomes, on the safe side by a few. */
export function bytesOf({ value, key, headers }: SerializedEvent): number {
  let bytes = recordBytes + publishedAtBytes + utf8Length(key) + value.length;
  const { publishedAtHeader } = value.form;
  if (publishedAtHeader !== undefined) bytes += headerBytes + publishedAtHeader.length;
  for (const name of Object.keys(headers)) {
    bytes += headerBytes + utf8Length(name) + utf8Length(headers[name] as string);
  }
  return bytes;
}

/** Keys and headers are short and mostly ASCII: looking is quicker than asking Node. */
function utf8Length(text: string): number {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 0x7f) return Buffer.byteLength(text);
  return text.length;
}
