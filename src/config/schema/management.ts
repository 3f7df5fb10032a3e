import { actionIds, endpointIds, showDetails, usualPorts } from '../../ground/management.ts';
import { flag, integer, oneOf, type Rows, secret, text } from './option.ts';

/** The management server. */
export const managementOptions = {
  /** Port of the management server. 0 takes a free one, -1 starts no server. One that is named here and taken by others is a warning, and there is no server; processes of node:cluster and of pm2 take the next free one. */
  'management.server.port': integer(-1, 65_535, {
    defaultText: `${usualPorts.first}, or the next free one up to ${usualPorts.first + usualPorts.count - 1}`,
  }),
  /** Address that the management server listens on. Any other than loopback needs management.server.token. */
  'management.server.address': text('listen-address', { default: '127.0.0.1' }),
  /** Bearer token that callers must send: 16 characters or more. */
  'management.server.token': secret('management-token'),
  /** Bearer token for the endpoints that change or send something, such as a replay of the outbox: 16 characters or more. It reads as well; with it, management.server.token reads only. Without either, nothing acts. */
  'management.server.action-token': secret('management-token', { defaultText: 'management.server.token' }),
  /** How people and their tools reach the management server behind a proxy that speaks TLS: requests to its host and from its origin are taken. Every request then needs management.server.token, from this machine too, as behind a proxy everybody looks local; the bare status of health, liveness and readiness and the files of the console need none. */
  'management.server.public-url': text('url'),
  /** Actions that nobody may do over HTTP, whatever token they have. */
  'management.actions.exclude': { type: 'list', values: actionIds, default: [] },
  /** Endpoints that are served. `*` is all of them, an empty list starts no server. svc-console is the page for people, `/actuator/svc`. */
  'management.endpoints.web.exposure.include': {
    type: 'list',
    values: [...endpointIds, '*'],
    default: undefined,
    defaultText: 'all of them, svc-console only on loopback',
  },
  /** Who sees the details of the health endpoint. */
  'management.endpoint.health.show-details': oneOf(showDetails, 'always'),
  /** Whether `/actuator/health/readiness` is DOWN wherever `/actuator/health` is. false: only where this instance itself does not do its work, so that an outage of Kafka takes no instance out of service. */
  'management.endpoint.health.readiness-needs-broker': flag(false),
} as const satisfies Rows;
