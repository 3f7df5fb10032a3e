import { flag, list, type Rows, text } from './option.ts';

/** What an event knows of the request that caused it. */
export const contextOptions = {
  /** Takes the client address from svc.security.forwarded-header, as far as the proxies in svc.security.trusted-proxies vouch for it. */
  'svc.security.use-forwarded-headers': flag(false),
  /** The header that your proxies write: `x-forwarded-for`, `forwarded` (RFC 7239), or one that holds an address, such as `cf-connecting-ip` or `x-real-ip`. No other is read. */
  'svc.security.forwarded-header': text('header-name', { default: 'x-forwarded-for' }),
  /** Addresses and ranges of proxies whose forwarding header is believed; `unix` for whoever connects to a server that listens on a Unix domain socket. */
  'svc.security.trusted-proxies': list('trusted-proxy', []),
  /** Request headers that may bring a correlation id; the first one present counts. */
  'svc.context.correlation-id.headers': list('header-name', ['x-correlation-id', 'x-request-id']),
  /** Makes a correlation id for requests that bring none. */
  'svc.context.correlation-id.generate': flag(false),
  /** Response header that returns the correlation id. */
  'svc.context.correlation-id.response-header': text('header-name'),
  /** Where `metadata.actor.userId` comes from: `header:x-user-id`, `baggage:user.id`, `request:user.id`, or a function of the request. */
  'svc.context.actor.user-id': text('actor-source', { orFunction: true }),
  /** Where `metadata.actor.sessionId` comes from, in the same forms. */
  'svc.context.actor.session-id': text('actor-source', { orFunction: true }),
  /** Keys of baggage entries that become `metadata.tags`. */
  'svc.context.tags.baggage': list('text', []),
} as const satisfies Rows;
