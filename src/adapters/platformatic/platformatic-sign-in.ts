import type { KafkaSaslOptions } from '../kafka/kafka-client-options.ts';
import type { PlatformaticModule } from '../kafka/platformatic-module.ts';
import { isTokenRefused } from '../kafka/token/request-token.ts';
import type { TokenSource } from '../kafka/token/token-source.ts';

/** Signs one connection in. */
export interface SignIn {
  /** What the package is given. */
  readonly sasl: object;
  /** How long the broker lets the connection live; 0: without end. Known once it is signed in. */
  lifetimeMs(): number;
}

interface SignedIn {
  readonly sessionLifetimeMs?: bigint;
  readonly authBytes?: Buffer;
}

/** As Kafka names the refusal of a password. */
const tokenRefused = Object.assign(new Error('token refused'), { apiId: 'SASL_AUTHENTICATION_FAILED' });

type Done = (error: Error | null, answer?: SignedIn) => void;

/**
 * Each call gets what one connection needs: the token, if there is one, is got before the connection is opened. The package
 * would sign in again on a connection that is in use, where a record sent meanwhile breaks it, and keep the process alive
 * until then: the length of the session is kept from it, and the connection is replaced in time.
 */
export async function createSignIn(
  vendor: PlatformaticModule,
  sasl: KafkaSaslOptions,
  timeoutMs: number,
): Promise<() => Promise<SignIn>> {
  const mechanism = sasl.mechanism.toUpperCase();
  const token = await tokenSourceOf(sasl, timeoutMs);
  return async () => {
    let lifetimeMs = 0;
    const secret = (await token?.()) ?? '';
    const authenticate = (
      _mechanism: string,
      connection: unknown,
      request: unknown,
      _username: unknown,
      _password: unknown,
      _token: unknown,
      done: Done,
    ): void => {
      const keep: Done = (error, answer) => {
        if (sasl.mechanism === 'oauthbearer' && isTokenRefused(answer?.authBytes)) {
          token?.refused(secret);
          return done(tokenRefused);
        }
        lifetimeMs = Number(answer?.sessionLifetimeMs ?? 0);
        done(error, { ...answer, sessionLifetimeMs: 0n });
      };
      if (sasl.mechanism === 'oauthbearer')
        vendor.saslOAuthBearer.authenticate(request, connection, secret, sasl.extensions, keep);
      else if (sasl.mechanism === 'plain')
        vendor.saslPlain.authenticate(request, connection, sasl.username, sasl.password, keep);
      else {
        const algorithm = mechanism.slice('SCRAM-'.length);
        const { username, password } = sasl;
        vendor.saslScramSha.authenticate(request, connection, algorithm, username, password, undefined, keep);
      }
    };
    return { sasl: { mechanism, authenticate }, lifetimeMs: () => lifetimeMs };
  };
}

async function tokenSourceOf(sasl: KafkaSaslOptions, timeoutMs: number): Promise<TokenSource | undefined> {
  if (sasl.mechanism !== 'oauthbearer') return undefined;
  return (await import('../kafka/token/token-source.ts')).createTokenSource(sasl, timeoutMs);
}
