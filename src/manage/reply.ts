import { STATUS_CODES } from 'node:http';

/** Media type of the specification, used if the request names it. */
export const versionedJsonType = 'application/vnd.svc.actuator.v3+json';

export interface Reply {
  readonly status: number;
  readonly contentType: string;
  /** Bytes: shared by several requests. */
  readonly body: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Errors are problem details (RFC 9457). `detail` never repeats content of the request; `field` is a field of its body or
 * query.
 */
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

/** The JSON object of a request, or the answer to an invalid body. */
export type JsonBody = { readonly fields: Readonly<Record<string, unknown>> } | { readonly refusal: Reply };
