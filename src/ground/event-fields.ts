import { isTooBig } from './bounds.ts';

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

/** False for what holds a control character, a lone surrogate or a noncharacter of Unicode: no attribute of a CloudEvent may. */
export function isAttributeText(text: string): boolean {
  return !/[\p{Cc}\p{Cs}\p{NChar}]/u.test(text);
}
