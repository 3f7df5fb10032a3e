import { flag, list, type Rows, text } from './option.ts';

/** What an event knows of the request that caused it. */
export const contextOptions = {
  /** Takes the client address from `svc.security.forwarded-header`, if the proxies in `svc.security.trusted-proxies` vouch for it. */
  'svc.security.use-forwarded-headers': flag(false),
  /** Header that your proxies write: `x-forwarded-for`, `forwarded` (RFC 7239), or one with a single address, such as `cf-connecting-ip` or `x-real-ip`. svc reads no other. */
  'svc.security.forwarded-header': text('header-name', { default: 'x-forwarded-for' }),
  /** Addresses and ranges of trusted proxies. `unix` trusts all clients of a server on a Unix domain socket. */
  'svc.security.trusted-proxies': list('trusted-proxy', []),
  /** Request headers that may carry a correlation id. The first one present counts. */
  'svc.context.correlation-id.headers': list('header-name', ['x-correlation-id', 'x-request-id']),
  /** Generates a correlation id for requests without one. */
  'svc.context.correlation-id.generate': flag(false),
  /** Response header that returns the correlation id. */
  'svc.context.correlation-id.response-header': text('header-name'),
  /** Source of `metadata.actor.userId`: `header:x-user-id`, `baggage:user.id`, `request:user.id`, or a function of the request. */
  'svc.context.actor.user-id': text('actor-source', { orFunction: true }),
  /** Source of `metadata.actor.sessionId`, in the same forms. */
  'svc.context.actor.session-id': text('actor-source', { orFunction: true }),
  /** Keys of baggage entries that become `metadata.tags`. */
  'svc.context.tags.baggage': list('text', []),
} as const satisfies Rows;
