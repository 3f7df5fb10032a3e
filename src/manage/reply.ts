import { STATUS_CODES } from 'node:http';

/** Media type of the specification, answered when the request accepts it by name. */
export const versionedJsonType = 'application/vnd.svc.actuator.v3+json';

/** An answer before it is written. */
export interface Reply {
  readonly status: number;
  readonly contentType: string;
  /** Bytes are those of an answer that several requests share. */
  readonly body: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

export function json({ jsonType }: { readonly jsonType: string }, status: number, value: unknown): Reply {
  return { status, contentType: jsonType, body: JSON.stringify(value) };
}

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
