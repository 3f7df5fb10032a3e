// platformatic/: the connections of @platformatic/kafka, signed in.

import {
  type KafkaClientOptions,
  type KafkaSaslOptions,
  readCertificates,
} from '../kafka/kafka-client-options.ts';
import {
  loadPlatformatic,
  type PlatformaticModule,
  type VendorConnection,
} from '../kafka/platformatic-module.ts';
import { isTokenRefused, type TokenSource } from '../kafka/token.ts';
import type { Address, Transport } from '../kafka/transport.ts';

const ignore = (): void => {};
const keepAliveMs = 60_000;

/**
 * `@platformatic/kafka` is an optional peer. Its producer is not used: it retries, wraps a partition that does not exist round to
 * one that does, throws out of its callbacks, and cannot tell a record that was sent from one that was not. Nor are its requests,
 * whose timers keep a process alive.
 */
export async function loadPlatformaticTransport(options: KafkaClientOptions): Promise<Transport> {
  const vendor = await loadPlatformatic('svc.broker.client: platformatic');
  const signIn = options.sasl && (await createSignIn(vendor, options.sasl, options.connectionTimeoutMs));
  const certificates = options.tls && readCertificates(options.tls, options.logger);

  return async (address, signal) => {
    const signedIn = await signIn?.();
    const connection = new vendor.Connection(options.clientId, {
      connectTimeout: options.connectionTimeoutMs,
      requestTimeout: options.requestTimeoutMs,
      ...(certificates && { tls: certificates() }),
      ...(signedIn && { sasl: signedIn.sasl }),
    });
    // An error event that nobody hears ends the process. What it says comes back from `connect` as well.
    connection.on('error', ignore);
    const destroy = (): void => {
      connection.socket?.destroy();
      // While it connects, nobody else hears of that.
      connection.emit('error', new Error('closed by svc'));
    };
    signal.addEventListener('abort', destroy);
    try {
      signal.throwIfAborted();
      await connect(connection, address);
      const { socket } = connection;
      if (socket === undefined) throw new Error('Connection closed');
      return { socket, sessionMs: signedIn?.lifetimeMs() ?? 0 };
    } catch (error) {
      destroy();
      throw error;
    } finally {
      signal.removeEventListener('abort', destroy);
    }
  };
}

function connect(connection: VendorConnection, { host, port }: Address): Promise<void> {
  return new Promise((resolve, reject) => {
    try {
      connection.connect(host, port, (error) => {
        if (error === null) resolve();
        else reject(error);
      });
    } catch (error) {
      // Certificates that cannot be used.
      reject(error);
    }
    const { socket } = connection;
    // The package listens for the first error of a socket that connects, and TLS has several.
    socket?.on('error', ignore);
    // An idle connection does not keep the process alive.
    socket?.unref();
    socket?.setKeepAlive(true, keepAliveMs);
  });
}

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
  return (await import('../kafka/token.ts')).createTokenSource(sasl, timeoutMs);
}
