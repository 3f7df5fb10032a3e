import { readFile } from 'node:fs/promises';
import { systemClock } from '../../clock.ts';
import { withoutSpans } from '../../observe/spans.ts';
import type { KafkaTokenOptions } from './kafka-client-options.ts';
import { requestToken } from './request-token.ts';
import { TokenError } from './token-error.ts';

/** Gives a token that is valid now. Rejects with a {@link TokenError}. */
export type TokenSource = () => Promise<string>;

interface Held {
  readonly token: string;
  readonly renewAtMs: number;
  readonly endsAtMs: number;
}

/** After this part of its life a token is renewed, as Kafka's own client does. */
const renewAfter = 0.8;

export function createTokenSource(
  options: KafkaTokenOptions,
  timeoutMs: number,
  clock: Pick<typeof systemClock, 'monotonic'> = systemClock,
): TokenSource {
  const { tokenEndpointUrl, tokenFile, token } = options;
  if (tokenEndpointUrl === undefined)
    return tokenFile === undefined ? async () => token ?? '' : () => readToken(tokenFile);
  let held: Held | undefined;
  let asking: Promise<Held> | undefined;

  const renew = (): Promise<Held> => {
    asking ??= withoutSpans(() => requestToken({ ...options, tokenEndpointUrl }, timeoutMs))
      .then(({ token: fresh, lifetimeMs }) => {
        const now = clock.monotonic();
        held = { token: fresh, renewAtMs: now + lifetimeMs * renewAfter, endsAtMs: now + lifetimeMs };
        return held;
      })
      .finally(() => {
        asking = undefined;
      });
    return asking;
  };

  return async () => {
    if (held !== undefined && clock.monotonic() < held.renewAtMs) return held.token;
    try {
      return (await renew()).token;
    } catch (error) {
      // The endpoint is away for a moment, and the old one is still good.
      if (held !== undefined && clock.monotonic() < held.endsAtMs) return held.token;
      throw error;
    }
  };
}

async function readToken(file: string): Promise<string> {
  const option = 'svc.broker.sasl.oauthbearer.token-file';
  let text: string;
  try {
    text = (await readFile(file, 'utf8')).trim();
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unreadable';
    throw new TokenError(`cannot read the token file "${file}" (${code}): check ${option}`, false);
  }
  if (text === '') throw new TokenError(`the token file "${file}" is empty: check ${option}`, false);
  return text;
}
