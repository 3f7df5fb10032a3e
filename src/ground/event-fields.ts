import { isTooBig } from './bounds.ts';
import { lazyPattern } from './names.ts';

/** The severity of an event. Default: INFO. */
export type Severity = 'INFO' | 'WARN' | 'ERROR' | 'CRITICAL';

export const severities: readonly Severity[] = ['INFO', 'WARN', 'ERROR', 'CRITICAL'];

/** Valid topic names of Kafka. A topic is a folder name there, so neither `.` nor `..`. */
export const topicNamePattern = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}$/;

/** Ends a sentence such as "the topic name must be …". */
export const topicNameForm = '1 to 249 letters, digits, ".", "_" or "-", and neither "." nor ".."';

/** Headers that an application may add. The limits keep a record readable for every tool, and a backup small. */
export const maxHeaders = 32;
/** Characters. */
const maxHeaderNameLength = 128;
/** Characters. */
const maxHeaderTextLength = 4096;

/** Set by svc itself on events, dead letters and recovered events; consumers and recovery rely on them. */
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

/**
 * Bytes in UTF-8 of each text of an event in the outbox: the limit of MySQL's TEXT. Some SQL modes silently truncate longer
 * texts.
 */
export const longestOutboxText = 65_535;

export function fitsOutboxText(text: string): boolean {
  // A UTF-16 unit takes one to three bytes.
  if (text.length * 3 <= longestOutboxText) return true;
  return text.length <= longestOutboxText && Buffer.byteLength(text) <= longestOutboxText;
}

/** Why a header name is invalid; `undefined`: it is valid. */
export function headerNameProblem(name: string): string | undefined {
  if (!/^[\x21-\x7e]+$/.test(name) || name.length > maxHeaderNameLength || name === '__proto__')
    return `must have a name of 1 to ${maxHeaderNameLength} visible ASCII characters without spaces`;
  if (ownNames.has(name.toLowerCase()) || name.toLowerCase().startsWith('svc-'))
    return 'has a name that svc itself sets';
  return undefined;
}

/** The text of a header or key; `null` for a missing value, `undefined` for a value that cannot be a header. */
export function headerText(value: unknown): string | null | undefined {
  if (value === null || value === undefined) return null;
  const type = typeof value;
  if (type === 'bigint' && isTooBig(value as bigint)) return undefined;
  if (type !== 'string' && type !== 'bigint' && type !== 'boolean' && !Number.isFinite(value))
    return undefined;
  const text = String(value);
  return text.length > maxHeaderTextLength ? undefined : text;
}

/** Ends a sentence such as "must be …". */
export const headerTextForm = `a string of at most ${maxHeaderTextLength} characters, a number or a boolean`;

/**
 * The header prefix of CloudEvents attributes:
 * https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md
 */
export const attributePrefix = 'ce_';

export function isAttributeHeader(name: string): boolean {
  return name.toLowerCase().startsWith(attributePrefix);
}

const usual = /^[\x20-\x7e]*$/;
/** Each character that an attribute of a CloudEvent must not contain. */
export const notInAttributes = lazyPattern(String.raw`[\p{Cc}\p{Cs}\p{NChar}]`, 'gu');

/** False if the text holds a control character, a lone surrogate or a Unicode noncharacter: CloudEvents attributes must not. */
export function isAttributeText(text: string): boolean {
  return usual.test(text) || text.search(notInAttributes()) < 0;
}

// The formats of event ids: read here, created in `envelope/`.

/** The epoch of Snowflake ids: 2024-01-01T00:00:00Z. */
export const snowflakeEpochMs = 1_704_067_200_000;
/** Of Snowflake ids, from 0 on. */
export const maxWorkerId = 1023;
/** A UUID of any version, as text. */
export const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** Worker and sequence of a Snowflake id; the counter of a UUID has as many bits. */
export const bitsBelowMs = 22;

/** A decimal number, or a UUID of version 7. */
export function isEventId(text: string): boolean {
  return isSnowflake(text) || isUuid(text);
}

// Without regular expressions: V8 compiles one at its first use, which ends the process if the stack is exhausted.

function isSnowflake(text: string): boolean {
  return text.length > 0 && text.length <= 19 && isAllOf(text, isDigit);
}

/** Version 7 as `envelope/ids.ts` writes it: 48 bits of milliseconds, a counter of 12 and of 10 bits. */
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

/** The order of an event id, in 64 bits: later ids of one process are greater, also across both formats. 0 for other ids. */
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
 * Milliseconds since the epoch of an ISO 8601 time: `2026-03-04T10:00:00Z`, or `2026-03-04` (UTC). `undefined` if it is invalid
 * or has no zone, as that would be ambiguous.
 */
export function parseInstant(text: string): number | undefined {
  // Date.parse alone accepts "90" as a year.
  const time = instant.test(text) && isDay(text.slice(0, 10)) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

const ago = /^(\d{1,9})(s|m|h|d)$/;
const unitsMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Also accepts an age: `90m`, `2d`. */
export function parsePast(text: string, nowMs: number): number | undefined {
  const [, count, unit] = ago.exec(text) ?? [];
  if (count === undefined || unit === undefined) return parseInstant(text);
  const time = nowMs - Number(count) * (unitsMs[unit] as number);
  return time >= 0 ? time : undefined;
}

/** Date.parse alone accepts the 31st of February as the 3rd of March. */
function isDay(day: string): boolean {
  const time = Date.parse(day);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(day);
}

/** `2026-03-01T12:00:00Z`, for a line of text. */
export const isoSeconds = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

let cachedSecond = Number.NaN;
let secondText = '';

/**
 * Like `toISOString`: `2026-03-04T10:00:00.120Z`. Faster, because the text of a second is cached. Throws a `RangeError` like
 * `toISOString`.
 */
export function isoTime(atMs: number): string {
  const wholeMs = Math.floor(atMs);
  const second = Math.floor(wholeMs / 1000);
  if (second !== cachedSecond) {
    secondText = new Date(second * 1000).toISOString().slice(0, -4);
    cachedSecond = second;
  }
  const ms = wholeMs - second * 1000;
  return `${secondText}${ms < 10 ? '00' : ms < 100 ? '0' : ''}${ms}Z`;
}

/** Id of the key in `svc.pii.crypto.default-key`. */
export const defaultKeyId = 'default';

/** Key ids are part of paths and ciphertexts. */
export const keyIdPattern: RegExp = /^[A-Za-z0-9_-]{1,128}$/;
export const keyIdProblem = 'Invalid key id: it must be 1 to 128 letters, digits, underscores and hyphens';

export const keyLengthBytes = 32;

/** A text read as an AES-256 key, and its encoding. */
interface KeyText {
  readonly bytes: Buffer;
  readonly spelling: 'Base64' | 'characters';
}

/**
 * The only parser for keys as text: Base64 of 32 bytes, else 32 bytes of plain characters. A text of another length is read by
 * its likely encoding, so that the error can report the found length.
 */
export function readKeyText(text: string): KeyText {
  const raw = Buffer.from(text);
  const decoded = Buffer.from(text, 'base64');
  // Node's decoder skips invalid characters, so a mistyped key would still give bytes.
  const isBase64 = decoded.toString('base64') === text;
  if (isBase64 && raw.length !== keyLengthBytes) return { bytes: decoded, spelling: 'Base64' };
  return { bytes: raw, spelling: 'characters' };
}
