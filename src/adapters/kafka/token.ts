import { clock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { readBounded } from '../../ground/files.ts';
import { isolate } from '../../observe/otel-api.ts';
import type { KafkaTokenOptions } from './kafka-client-options.ts';

// tokens for SASL/OAUTHBEARER: fetched, cached, and renewed before they expire.

/** Returns a token that is valid now. Rejects with a {@link TokenError}. */
export interface TokenSource {
  (): Promise<string>;
  /** Kafka refused this token: the next call fetches another, if it can. */
  refused(token: string): void;
}

interface Held {
  readonly token: string;
  readonly gotAtMs: number;
  readonly renewAtMs: number;
  readonly endsAtMs: number;
}

/** A token is renewed after this part of its life, as in Kafka's own client. */
const renewAfter = 0.8;
/** A refused token younger than this is not renewed: Kafka would refuse the next one too, and each try would fetch one. */
const youngMs = 10_000;

export function createTokenSource(options: KafkaTokenOptions, timeoutMs: number): TokenSource {
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
      // The endpoint is away for a moment, and the old token is still valid.
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
    // The path may be a token by mistake, so it is not shown.
    throw new TokenError(`cannot read the token file (${code}): check ${option}`, false);
  }
  if (text === '') throw new TokenError(`the token file is empty: check ${option}`, false);
  return text;
}

interface IssuedToken {
  readonly token: string;
  readonly lifetimeMs: number;
}

const prefix = 'svc.broker.sasl.oauthbearer.';
const lifetimeUnlessToldMs = 300_000;
const maxAnswerBytes = 262_144;
/** A line end in a token would end the message that carries it. */
const tokenPattern = /^[!-~]+$/;

/** Asks the endpoint for a token: OAuth 2.0, client credentials. Rejects with a {@link TokenError}, which holds no secret. */
async function requestToken(
  options: KafkaTokenOptions & { readonly tokenEndpointUrl: string },
  timeoutMs: number,
): Promise<IssuedToken> {
  const { tokenEndpointUrl: url, clientId = '', clientSecret = '', scope } = options;
  const pair = `${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`;
  const where = `the token endpoint ${withoutSecrets(url)}`;
  let response: Response;
  let text: string;
  try {
    response = await fetch(url, {
      method: 'POST',
      headers: {
        accept: 'application/json',
        authorization: `Basic ${Buffer.from(pair).toString('base64')}`,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: new URLSearchParams({ grant_type: 'client_credentials', ...(scope && { scope }) }).toString(),
      redirect: 'manual',
      signal: AbortSignal.timeout(timeoutMs),
    });
    text = await readText(response, where);
  } catch (error) {
    if (error instanceof TokenError) throw error;
    throw new TokenError(`cannot reach ${where} (${codeOf(error)}): check ${prefix}token-endpoint-url`, true);
  }
  const answer = parse(text);
  if (!response.ok) throw refused(where, clientId, response.status, answer);
  const token = answer.access_token;
  if (typeof token !== 'string' || !tokenPattern.test(token))
    throw new TokenError(`${where} answered without a token: check ${prefix}token-endpoint-url`, false);
  const seconds = Number(answer.expires_in);
  return { token, lifetimeMs: seconds > 0 ? seconds * 1_000 : lifetimeUnlessToldMs };
}

/** Bounds the answer, compressed or not: the endpoint decides how much it sends. */
async function readText({ body }: Response, where: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > maxAnswerBytes)
      throw new TokenError(
        `${where} answers with more than ${maxAnswerBytes} bytes: check ${prefix}token-endpoint-url`,
        false,
      );
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function refused(where: string, clientId: string, status: number, { error }: Answer): TokenError {
  const reason =
    typeof error === 'string' && /^[\w.-]{1,60}$/.test(error) ? `${status} ${error}` : `${status}`;
  if (status >= 500 || status === 429) return new TokenError(`${where} cannot answer now (${reason})`, true);
  const check =
    error === 'invalid_scope'
      ? `${prefix}scope`
      : status < 400 || status === 404
        ? `${prefix}token-endpoint-url`
        : `${prefix}client-id and client-secret`;
  return new TokenError(`${where} refused the client "${clientId}" (${reason}): check ${check}`, false);
}

interface Answer {
  readonly access_token?: unknown;
  readonly expires_in?: unknown;
  readonly error?: unknown;
}

function parse(text: string): Answer {
  try {
    return (JSON.parse(text) as Answer | null) ?? {};
  } catch {
    return {};
  }
}

/** `fetch` hides the reason one level down. */
function codeOf(error: unknown): string {
  const { name, cause } = error as { name?: string; cause?: { code?: string } };
  return name === 'TimeoutError' ? 'time-out' : (cause?.code ?? name ?? 'Error');
}

function withoutSecrets(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

/**
 * Whether the answer is a refusal. A broker refuses a token with a text, and with an error only if the client asks again. Both
 * clients would go on, and get an error about their state.
 */
export function isTokenRefused(answer: Buffer | undefined): boolean {
  return answer?.includes('"status"') ?? false;
}

export class TokenError extends SvcError {
  /** Whether another try may help: the endpoint was away, and refused nothing. */
  readonly isRetriable: boolean;

  constructor(message: string, isRetriable: boolean) {
    super('SVC_ADAPTERS_TOKEN', message);
    this.isRetriable = isRetriable;
  }
}
