import type { Logger } from '../observe/logger.ts';

/** Where the values of an event's metadata come from. Every field has a default: nothing has to be configured. */
export interface ContextOptions {
  /** Request headers that carry the correlation id; the first usable one counts. Default: `x-correlation-id`, `x-request-id`. */
  readonly correlationHeaders?: readonly string[] | undefined;
  /** Makes a correlation id (a UUID) for a request that brought none. Default: false. */
  readonly generateCorrelationId?: boolean | undefined;
  /** Response header that tells the caller the request's correlation id. Default: none. */
  readonly correlationResponseHeader?: string | null | undefined;
  /** Reads the client's address from `forwardedHeader`, through `trustedProxies` only. Default: false. */
  readonly useForwardedHeaders?: boolean | undefined;
  /** The header that your proxies write, the only one that is read. Default: `x-forwarded-for`. See `createClientAddressReader`. */
  readonly forwardedHeader?: string | undefined;
  /** Addresses, CIDR ranges (`10.0.0.0/8`, `fd00::/8`), or `unix` for servers that listen on a Unix domain socket. Default: none. */
  readonly trustedProxies?: readonly string[] | undefined;
  /** Sources of `actor.userId`, asked in order. What the application says with `setContext` goes first. Default: none. */
  readonly userId?: ActorSource | readonly ActorSource[] | undefined;
  /** Sources of `actor.sessionId`, asked in order. Default: none. */
  readonly sessionId?: ActorSource | readonly ActorSource[] | undefined;
  /** Baggage entries that become tags. Default: none. */
  readonly baggageTags?: readonly string[] | undefined;
  readonly logger?: Logger | undefined;
}

/**
 * Where a user or session id comes from: `header:x-user-id`, `baggage:user.id`, `request:user.id` (a property path of
 * Node's request object, for what Express middleware such as passport puts on it), or a function of that request, which is
 * `undefined` outside of one. Fastify and Koa keep the user on objects of their own: call `setContext` in a hook there.
 * A function answers with a string, number or bigint, else the value is not known; one that throws is named once in the log.
 */
export type ActorSource = string | ((request: unknown) => unknown);
