import type { IncomingHttpHeaders } from 'node:http';
import { isTooBig } from '../../ground/bounds.ts';
import { SvcError } from '../../ground/errors.ts';
import type { ContextScope } from '../context-store.ts';

/** Longest header or baggage value taken over into an event, in characters. */
export const maxValueLength = 256;

const printableAscii = /^[\x20-\x7e]+$/;
const headerName = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const invisible = /\p{C}/u;

/** The request's headers with lower-case names; `undefined` outside a request. HTTP/1 parses them at the first use. */
export function requestHeaders(scope: ContextScope): IncomingHttpHeaders | undefined {
  if (scope.headers === null) {
    if (scope.request === null) return undefined;
    scope.headers = (scope.request as { headers: IncomingHttpHeaders }).headers;
  }
  return scope.headers;
}

/** A header as it came, however long; `null` when absent. */
export function rawHeader(scope: ContextScope, lowerCaseName: string): string | null {
  const value = requestHeaders(scope)?.[lowerCaseName];
  return typeof value === 'string' ? value : null;
}

/** A header fit for an event: printable ASCII, 1 to 256 characters, else `null`. Anybody can send anything. */
export function headerValue(scope: ContextScope, lowerCaseName: string): string | null {
  return printable(rawHeader(scope, lowerCaseName), maxValueLength);
}

/** `value` trimmed, when it is printable ASCII of 1 to `maxLength` characters, else `null`. */
export function printable(value: string | null, maxLength: number): string | null {
  const text = value?.trim() ?? '';
  return text.length <= maxLength && printableAscii.test(text) ? text : null;
}

/** Text of any script from outside, fit for an event: 1 to 256 characters, no control or format characters, else `null`. */
export function boundedText(value: unknown): string | null {
  const text = scalarText(value);
  if (text === null || text.length === 0 || text.length > maxValueLength || invisible.test(text)) return null;
  return text;
}

/** A string as it is, a number or bigint in decimal; anything else is no identifier: `null`. */
export function scalarText(value: unknown): string | null {
  if (typeof value === 'string') return value;
  if (typeof value === 'bigint' ? !isTooBig(value) : typeof value === 'number' && Number.isFinite(value))
    return String(value);
  return null;
}

/** Lower case, as Node names headers. Throws `SVC_CONTEXT_BAD_HEADER_NAME` for what no header can be called. */
export function toHeaderName(name: string): string {
  if (headerName.test(name)) return name.toLowerCase();
  throw new SvcError('SVC_CONTEXT_BAD_HEADER_NAME', `"${name}" is not the name of a header`);
}
