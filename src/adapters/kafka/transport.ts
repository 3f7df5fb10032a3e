import type { Socket } from 'node:net';
import type { KafkaClientOptions } from './kafka-client-options.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** A connection that a client has opened and signed in. From here on, only svc reads and writes it. */
export interface SignedIn {
  /** Unref'd, with no answer due on it. */
  readonly socket: Socket;
  /** How long the broker keeps it open; 0: no limit. */
  readonly sessionMs: number;
}

/** The whole task of a Kafka client in svc. Rejects with errors that `toSendFailure` knows. `signal` ends it at once. */
export type Transport = (address: Address, signal: AbortSignal) => Promise<SignedIn>;

export type LoadTransport = (options: KafkaClientOptions) => Promise<Transport>;

export const keyOf = ({ host, port }: Address): string => `${host}:${port}`;

export function parseAddress(text: string): Address {
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon).replace(/^\[(.*)\]$/, '$1'), port: Number(text.slice(colon + 1)) };
}
