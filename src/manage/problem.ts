import { STATUS_CODES } from 'node:http';
import type { Reply } from './reply.ts';

/** Errors are problem details (RFC 9457). `detail` never repeats what the request held; `field` is that of its body, or of its query. */
export function problem(
  status: number,
  detail: string,
  headers: Readonly<Record<string, string>> = {},
  field?: string,
): Reply {
  const title = STATUS_CODES[status];
  const body = JSON.stringify({ type: 'about:blank', title, status, detail, field });
  return { status, contentType: 'application/problem+json', body, headers };
}
