import { signal } from '@preact/signals';

const key = 'svc-token';

/** Typed in; kept in the session storage of the tab, never in an address or cookie. */
export const token = signal<string | undefined>(sessionStorage.getItem(key) ?? undefined);

export function keepToken(value: string | undefined): void {
  if (value === undefined) sessionStorage.removeItem(key);
  else sessionStorage.setItem(key, value);
  token.value = value;
}

export type Answer<T> =
  | { readonly status: number; readonly value: T }
  | { readonly status: number; readonly problem: string };

/**
 * Sends a request to the process; never rejects. The address is relative to the page, so it works behind a proxy with a path
 * prefix.
 */
export async function ask<T>(
  method: 'GET' | 'POST',
  address: string,
  { body, patienceMs = 30_000 }: { readonly body?: object; readonly patienceMs?: number } = {},
): Promise<Answer<T>> {
  try {
    const response = await fetch(address, {
      ...{ method, cache: 'no-store', redirect: 'error', signal: AbortSignal.timeout(patienceMs) },
      headers: {
        ...(token.peek() !== undefined && { authorization: `Bearer ${token.peek()}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const { status } = response;
    const value = (await response.json()) as T & { readonly detail?: string };
    if (response.ok) return { status, value };
    return { status, problem: value.detail ?? `It answers with ${status}.` };
  } catch (error) {
    const isLate = (error as Error).name === 'TimeoutError';
    return {
      status: 0,
      problem: isLate ? 'The process did not answer in time.' : 'The process cannot be reached.',
    };
  }
}
