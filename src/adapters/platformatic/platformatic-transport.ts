// platformatic/: the connections of @platformatic/kafka, signed in.

import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import {
  type KafkaClientOptions,
  type KafkaSaslOptions,
  readCertificates,
} from '../kafka/kafka-client-options.ts';
import { loadPlatformatic } from '../kafka/platformatic-module.ts';
import { isTokenRefused, type TokenSource } from '../kafka/token.ts';
import type { Address, Transport } from '../kafka/transport.ts';

interface VendorConnection extends EventEmitter {
  /** Set by `connect`, synchronously. */
  readonly socket: Socket | undefined;
  connect(host: string, port: number, callback: (error: Error | null) => void): void;
}

interface VendorSasl {
  /** The last parameter is called with the broker's last answer. */
  authenticate(...parameters: unknown[]): void;
}

interface Vendor {
  readonly Connection: new (clientId: string, options: object) => VendorConnection;
  readonly saslPlain: VendorSasl;
  readonly saslScramSha: VendorSasl;
  readonly saslOAuthBearer: VendorSasl;
}

const ignore = (): void => {};
const keepAliveMs = 60_000;

/**
 * `@platformatic/kafka` is an optional peer. svc does not use its producer, which retries and throws out of its callbacks. It
 * also maps a missing partition to an existing one, and cannot tell which records were sent. Nor does svc use its requests,
 * because their timers keep a process alive.
 */
export async function loadPlatformaticTransport(options: KafkaClientOptions): Promise<Transport> {
  const vendor = await loadPlatformatic<Vendor>('svc.broker.client: platformatic');
  const signIn = options.sasl && (await createSignIn(vendor, options.sasl, options.connectionTimeoutMs));
  const certificates = options.tls && readCertificates(options.tls);

  return async (address, signal) => {
    const signedIn = await signIn?.();
    const connection = new vendor.Connection(options.clientId, {
      connectTimeout: options.connectionTimeoutMs,
      requestTimeout: options.requestTimeoutMs,
      ...(certificates && { tls: certificates() }),
      ...(signedIn && { sasl: signedIn.sasl }),
    });
    // An error event without a listener ends the process. `connect` reports the same error.
    connection.on('error', ignore);
    const destroy = (): void => {
      connection.socket?.destroy();
      // During `connect`, the package sees only this event.
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
      // Unusable certificates.
      reject(error);
    }
    const { socket } = connection;
    // The package listens for the first error of a connecting socket, and TLS has several.
    socket?.on('error', ignore);
    socket?.unref();
    socket?.setKeepAlive(true, keepAliveMs);
  });
}

/** Signs in one connection. */
interface SignIn {
  /** The package's option. */
  readonly sasl: object;
  /** How long the broker keeps the connection open; 0: no limit. Known once it is signed in. */
  lifetimeMs(): number;
}

interface SignedIn {
  readonly sessionLifetimeMs?: bigint;
  readonly authBytes?: Buffer;
}

/** Kafka's name for a refused password. */
const tokenRefused = Object.assign(new Error('token refused'), { apiId: 'SASL_AUTHENTICATION_FAILED' });

type Done = (error: Error | null, answer?: SignedIn) => void;

/**
 * Each call returns the sign-in of one connection. A token is fetched before the connection is opened. The package would sign
 * in again on a connection in use, where a record sent meanwhile breaks it, and keep the process alive until then. So svc hides
 * the length of the session from it, and replaces the connection in time.
 */
async function createSignIn(
  vendor: Vendor,
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
