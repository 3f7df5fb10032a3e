import { STATUS_CODES } from 'node:http';
import type { Reply } from './reply.ts';

/** Errors are problem details (RFC 9457). `detail` never repeats what the request held. */
export function problem(
  status: number,
  detail: string,
  headers: Readonly<Record<string, string>> = {},
): Reply {
  const body = JSON.stringify({ type: 'about:blank', title: STATUS_CODES[status], status, detail });
  return { status, contentType: 'application/problem+json', body, headers };
}
