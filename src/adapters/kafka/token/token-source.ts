// token/: tokens for SASL/OAUTHBEARER: fetched, kept, fetched anew before they end.

import { systemClock } from '../../../ground/clock.ts';
import { readBounded } from '../../../ground/files/folders.ts';
import { isolate } from '../../../observe/isolate.ts';
import type { KafkaTokenOptions } from '../kafka-client-options.ts';
import { requestToken, TokenError } from './request-token.ts';

/** Gives a token that is valid now. Rejects with a {@link TokenError}. */
export interface TokenSource {
  (): Promise<string>;
  /** Kafka did not take this one: the next one is a new one, where there are any. */
  refused(token: string): void;
}

interface Held {
  readonly token: string;
  readonly gotAtMs: number;
  readonly renewAtMs: number;
  readonly endsAtMs: number;
}

/** After this part of its life a token is renewed, as Kafka's own client does. */
const renewAfter = 0.8;
/** A newer one that is refused is no reason for another: Kafka takes none of them, and would have it asked for all the time. */
const youngMs = 10_000;

export function createTokenSource(
  options: KafkaTokenOptions,
  timeoutMs: number,
  clock: Pick<typeof systemClock, 'monotonic'> = systemClock,
): TokenSource {
  const { tokenEndpointUrl, tokenFile, token } = options;
  if (tokenEndpointUrl === undefined) {
    const read = tokenFile === undefined ? async () => token ?? '' : () => readToken(tokenFile);
    return Object.assign(read, { refused() {} });
  }
  let held: Held | undefined;
  let asking: Promise<Held> | undefined;

  const renew = (): Promise<Held> => {
    asking ??= isolate(() => requestToken({ ...options, tokenEndpointUrl }, timeoutMs))
      .then(({ token: fresh, lifetimeMs }) => {
        const now = clock.monotonic();
        held = {
          token: fresh,
          gotAtMs: now,
          renewAtMs: now + lifetimeMs * renewAfter,
          endsAtMs: now + lifetimeMs,
        };
        return held;
      })
      .finally(() => {
        asking = undefined;
      });
    return asking;
  };

  const get = async (): Promise<string> => {
    if (held !== undefined && clock.monotonic() < held.renewAtMs) return held.token;
    try {
      return (await renew()).token;
    } catch (error) {
      // The endpoint is away for a moment, and the old one is still good.
      if (held !== undefined && clock.monotonic() < held.endsAtMs) return held.token;
      throw error;
    }
  };
  return Object.assign(get, {
    refused(refused: string) {
      if (held?.token === refused && clock.monotonic() - held.gotAtMs >= youngMs) held = undefined;
    },
  });
}

async function readToken(file: string): Promise<string> {
  const option = 'svc.broker.sasl.oauthbearer.token-file';
  let text: string;
  try {
    text = (await readBounded(file)).toString().trim();
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unreadable';
    // The path is not shown: somebody may have written the token itself in its place.
    throw new TokenError(`cannot read the token file (${code}): check ${option}`, false);
  }
  if (text === '') throw new TokenError(`the token file is empty: check ${option}`, false);
  return text;
}
