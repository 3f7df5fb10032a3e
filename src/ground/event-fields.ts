import { isTooBig } from './bounds.ts';
import { lazyPattern } from './names.ts';

/** How bad an event is. Default: INFO. */
export type Severity = 'INFO' | 'WARN' | 'ERROR' | 'CRITICAL';

export const severities: readonly Severity[] = ['INFO', 'WARN', 'ERROR', 'CRITICAL'];

/** Names that Kafka takes for a topic: it is a folder name there, hence neither `.` nor `..`. */
export const topicNamePattern = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}$/;

/** Ends a sentence such as "the topic name must be …". */
export const topicNameForm = '1 to 249 letters, digits, ".", "_" or "-", and neither "." nor ".."';

/** Headers of an application beside those of svc. The bounds keep a record readable for every tool, and a backup small. */
export const maxHeaders = 32;
/** Characters. */
const maxHeaderNameLength = 128;
/** Characters. */
const maxHeaderTextLength = 4096;

/** Set by svc itself on events, dead letters and what it sends again; consumers and recovery rely on them. */
const ownNames = new Set([
  'eventid',
  'eventtype',
  'content-type',
  'traceparent',
  'tracestate',
  'originaltopic',
  'exceptiontype',
  'originalcontenttype',
]);

/** Bytes in UTF-8 of each text of an event in the outbox: what a text of MySQL holds. Some of its modes cut what is longer, without a word. */
export const longestOutboxText = 65_535;

export function fitsOutboxText(text: string): boolean {
  // No character is shorter than a byte, or longer than three by its UTF-16 units.
  if (text.length * 3 <= longestOutboxText) return true;
  return text.length <= longestOutboxText && Buffer.byteLength(text) <= longestOutboxText;
}

/** Why a header cannot have this name; `undefined` when it can. */
export function headerNameProblem(name: string): string | undefined {
  if (!/^[\x21-\x7e]+$/.test(name) || name.length > maxHeaderNameLength || name === '__proto__')
    return `must have a name of 1 to ${maxHeaderNameLength} visible ASCII characters without spaces`;
  if (ownNames.has(name.toLowerCase()) || name.toLowerCase().startsWith('svc-'))
    return 'has a name that svc itself sets';
  return undefined;
}

/** The text of a value, as that of a key; `null` for one that is not there, `undefined` for one that cannot be a header. */
export function headerText(value: unknown): string | null | undefined {
  if (value === null || value === undefined) return null;
  const type = typeof value;
  if (type === 'bigint' && isTooBig(value as bigint)) return undefined;
  if (type !== 'string' && type !== 'bigint' && type !== 'boolean' && !Number.isFinite(value))
    return undefined;
  const text = String(value);
  return text.length > maxHeaderTextLength ? undefined : text;
}

/** What a header can be, to end a sentence: "must be …". */
export const headerTextForm = `a string of at most ${maxHeaderTextLength} characters, a number or a boolean`;

/** Of a header that holds an attribute of a CloudEvent: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md */
export const attributePrefix = 'ce_';

export function isAttributeHeader(name: string): boolean {
  return name.toLowerCase().startsWith(attributePrefix);
}

const usual = /^[\x20-\x7e]*$/;
const notInAttributes = lazyPattern(String.raw`[\p{Cc}\p{Cs}\p{NChar}]`, 'u');

/** False for what holds a control character, a lone surrogate or a noncharacter of Unicode: no attribute of a CloudEvent may. */
export function isAttributeText(text: string): boolean {
  return usual.test(text) || !notInAttributes().test(text);
}

// What event ids look like: read here, made in `envelope/`.

/** Snowflake ids count from 2024-01-01T00:00:00Z. */
export const snowflakeEpochMs = 1_704_067_200_000;
/** A UUID of any version, as text. */
export const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** Worker and sequence of a Snowflake id; the counter of a UUID has as many. */
export const bitsBelowMs = 22;

/** A decimal number, or a UUID of version 7. */
export function isEventId(text: string): boolean {
  return isSnowflake(text) || isUuid(text);
}

// Neither is told by a regular expression, which V8 compiles at its first use: where the stack is used up then, it ends the process.

function isSnowflake(text: string): boolean {
  return text.length > 0 && text.length <= 19 && isAllOf(text, isDigit);
}

/** Of version 7 as `envelope/ids.ts` writes them: 48 bits of milliseconds, a counter of 12 and of 10 bits. */
function isUuid(text: string): boolean {
  if (text.length !== 36 || text[14] !== '7' || !'89ab'.includes(text.charAt(19))) return false;
  return isAllOf(text, (code, at) =>
    dashes.includes(at) ? code === dash : isDigit(code) || isLetterOfHex(code),
  );
}

const dashes = [8, 13, 18, 23];
const dash = 0x2d;
const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39;
const isLetterOfHex = (code: number): boolean => code >= 0x61 && code <= 0x66;

function isAllOf(text: string, isSo: (code: number, at: number) => boolean): boolean {
  for (let at = 0; at < text.length; at++) if (!isSo(text.charCodeAt(at), at)) return false;
  return true;
}

/**
 * Where an event id stands in time, in 64 bits: of those of one process, of two kinds even, each has a greater one than
 * the id before it. What is no event id of svc comes first.
 */
export function orderOf(eventId: string): bigint {
  if (isSnowflake(eventId)) return BigInt(eventId);
  if (!isUuid(eventId)) return 0n;
  const elapsedMs = Math.max(0, hex(eventId, 0, 8) * 2 ** 16 + hex(eventId, 9, 13) - snowflakeEpochMs);
  const counter = (hex(eventId, 15, 18) << 10) | (hex(eventId, 19, 22) & 0x3ff);
  return BigInt.asUintN(64, (BigInt(elapsedMs) << BigInt(bitsBelowMs)) | BigInt(counter));
}

const hex = (text: string, from: number, to: number): number => Number.parseInt(text.slice(from, to), 16);

const instant = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/;

/**
 * Milliseconds since the epoch of an ISO 8601 time: `2026-03-04T10:00:00Z`, or `2026-03-04` (UTC); `undefined`: it is none. A
 * time without a zone could be anybody's.
 */
export function parseInstant(text: string): number | undefined {
  // Date.parse alone takes "90" for a year.
  const time = instant.test(text) && isDay(text.slice(0, 10)) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

const ago = /^(\d{1,9})(s|m|h|d)$/;
const unitsMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The same, or how long ago: `90m`, `2d`. */
export function parsePast(text: string, nowMs: number): number | undefined {
  const [, count, unit] = ago.exec(text) ?? [];
  if (count === undefined || unit === undefined) return parseInstant(text);
  const time = nowMs - Number(count) * (unitsMs[unit] as number);
  return time >= 0 ? time : undefined;
}

/** Date.parse alone takes the 31st of February for the 3rd of March. */
function isDay(day: string): boolean {
  const time = Date.parse(day);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(day);
}

/** `2026-03-01T12:00:00Z`, for a line of text. */
export const isoSeconds = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

/** Key ids become parts of paths and of ciphertexts. */
export const keyIdPattern: RegExp = /^[A-Za-z0-9_-]{1,128}$/;
export const keyIdProblem = 'Invalid key id: it must be 1 to 128 letters, digits, underscores and hyphens';

export const keyLengthBytes = 32;

/** What a text gives as a key of AES-256, and how it was read. */
interface KeyText {
  readonly bytes: Buffer;
  readonly spelling: 'Base64' | 'characters';
}

/**
 * The one way to read keys that are written as text: Base64 of 32 bytes, else 32 bytes of characters as they stand. A text of another
 * length is read as the one that it looks like, so that the message about it can say what was found.
 */
export function readKeyText(text: string): KeyText {
  const raw = Buffer.from(text);
  const decoded = Buffer.from(text, 'base64');
  // Node skips what is no Base64, so that a mistyped key would still give bytes.
  const isBase64 = decoded.toString('base64') === text;
  if (isBase64 && raw.length !== keyLengthBytes) return { bytes: decoded, spelling: 'Base64' };
  return { bytes: raw, spelling: 'characters' };
}
