import type { Option } from './option.ts';

/** What an event knows of the request that caused it. */
export const contextOptions = [
  {
    name: 'svc.security.use-forwarded-headers',
    type: 'boolean',
    default: false,
    description:
      'Takes the client address from `Forwarded` or `X-Forwarded-For`, as far as the proxies in svc.security.trusted-proxies vouch for it.',
  },
  {
    name: 'svc.security.trusted-proxies',
    type: 'list',
    format: 'trusted-proxy',
    default: [],
    description:
      'Addresses and ranges of proxies whose forwarding headers are believed; `unix` for whoever connects through a Unix domain socket.',
  },
  {
    name: 'svc.context.correlation-id.headers',
    type: 'list',
    format: 'header-name',
    default: ['x-correlation-id', 'x-request-id'],
    description: 'Request headers that may bring a correlation id; the first one present counts.',
  },
  {
    name: 'svc.context.correlation-id.generate',
    type: 'boolean',
    default: false,
    description: 'Makes a correlation id for requests that bring none.',
  },
  {
    name: 'svc.context.correlation-id.response-header',
    type: 'string',
    format: 'header-name',
    description: 'Response header that returns the correlation id.',
  },
  {
    name: 'svc.context.actor.user-id',
    type: 'string',
    format: 'actor-source',
    orFunction: true,
    description:
      'Where `metadata.actor.userId` comes from: `header:x-user-id`, `baggage:user.id`, `request:user.id`, or a function of the request.',
  },
  {
    name: 'svc.context.actor.session-id',
    type: 'string',
    format: 'actor-source',
    orFunction: true,
    description: 'Where `metadata.actor.sessionId` comes from, in the same forms.',
  },
  {
    name: 'svc.context.tags.baggage',
    type: 'list',
    format: 'text',
    default: [],
    description: 'Keys of baggage entries that become `metadata.tags`.',
  },
] as const satisfies readonly Option[];
