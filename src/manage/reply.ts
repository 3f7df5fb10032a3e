/** An answer before it is written. */
export interface Reply {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export function json({ jsonType }: { readonly jsonType: string }, status: number, value: unknown): Reply {
  return { status, contentType: jsonType, body: JSON.stringify(value) };
}
