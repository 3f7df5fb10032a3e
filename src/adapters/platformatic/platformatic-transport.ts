// platformatic/: the connections of @platformatic/kafka, signed in.

import type { KafkaClientOptions } from '../kafka/kafka-client-options.ts';
import { loadPlatformatic, type VendorConnection } from '../kafka/platformatic-module.ts';
import { readCertificates } from '../kafka/read-certificates.ts';
import type { Address, Transport } from '../kafka/transport.ts';
import { createSignIn } from './platformatic-sign-in.ts';

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
