import { SvcError } from '../../../ground/errors.ts';
import type { KafkaTokenOptions } from '../kafka-client-options.ts';

interface IssuedToken {
  readonly token: string;
  readonly lifetimeMs: number;
}

const prefix = 'svc.broker.sasl.oauthbearer.';
const lifetimeUnlessToldMs = 300_000;
const mostAnswerBytes = 262_144;
/** What a token may consist of; a line end in one would end the message it is sent in. */
const tokenPattern = /^[!-~]+$/;

/** Asks the endpoint for a token: OAuth 2.0, client credentials. Rejects with a {@link TokenError}, which holds no secret. */
export async function requestToken(
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

/** No more than an answer with a token can need, packed or not: whoever answers decides how much it sends. */
async function readText({ body }: Response, where: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > mostAnswerBytes)
      throw new TokenError(
        `${where} answers with more than ${mostAnswerBytes} bytes: check ${prefix}token-endpoint-url`,
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

/** `fetch` hides what happened one level down. */
function codeOf(error: unknown): string {
  const { name, cause } = error as { name?: string; cause?: { code?: string } };
  return name === 'TimeoutError' ? 'time-out' : (cause?.code ?? name ?? 'Error');
}

function withoutSecrets(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

/**
 * How a broker refuses a token: with a text that says so, and with an error only for whoever asks for more. Both clients
 * would go on, and be told that they are in the wrong state.
 */
export function isTokenRefused(answer: Buffer | undefined): boolean {
  return answer?.includes('"status"') ?? false;
}

/** No token to sign in with. */
export class TokenError extends SvcError {
  /** Whether another try may help: the endpoint was away, and refused nothing. */
  readonly isRetriable: boolean;

  constructor(message: string, isRetriable: boolean) {
    super('SVC_ADAPTERS_TOKEN', message);
    this.isRetriable = isRetriable;
  }
}
