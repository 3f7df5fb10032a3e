import type { ActorSource } from '../config/config.ts';
import type { Logger } from '../observe/logger.ts';

/** Where the values of an event's metadata come from. Every field has a default: nothing has to be configured. */
export interface ContextOptions {
  /** Request headers that carry the correlation id; the first usable one counts. Default: `x-correlation-id`, `x-request-id`. */
  readonly correlationHeaders?: readonly string[] | undefined;
  /** Makes a correlation id (a UUID) for a request that brought none. Default: false. */
  readonly generateCorrelationId?: boolean | undefined;
  /** Response header that tells the caller the request's correlation id. Default: none. */
  readonly correlationResponseHeader?: string | null | undefined;
  /** Reads the client's address from `Forwarded` or `X-Forwarded-For`, through `trustedProxies` only. Default: false. */
  readonly useForwardedHeaders?: boolean | undefined;
  /** The header that your proxies write. Default: `auto`. See `createClientAddressReader`. */
  readonly forwardedHeader?: ForwardedHeader | undefined;
  /** Addresses, CIDR ranges (`10.0.0.0/8`, `fd00::/8`), or `unix` for a Unix domain socket. Default: none. */
  readonly trustedProxies?: readonly string[] | undefined;
  /** Sources of `actor.userId`, asked in order. What the application says with `setContext` goes first. Default: none. */
  readonly userId?: ActorSource | readonly ActorSource[] | undefined;
  /** Sources of `actor.sessionId`, asked in order. Default: none. */
  readonly sessionId?: ActorSource | readonly ActorSource[] | undefined;
  /** Baggage entries that become tags. Default: none. */
  readonly baggageTags?: readonly string[] | undefined;
  readonly logger?: Logger | undefined;
}

export type ForwardedHeader = 'auto' | 'forwarded' | 'x-forwarded-for';
