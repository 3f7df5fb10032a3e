import { actionIds, endpointIds, showDetails, usualPorts } from '../../ground/management.ts';
import { flag, integer, oneOf, type Rows, secret, text } from './option.ts';

/** The management server. */
export const managementOptions = {
  /** Port of the management server. 0 takes a free port, -1 starts no server. If a configured port is in use, svc logs a warning and starts no server. Processes of `node:cluster` and pm2 take the next free port. */
  'management.server.port': integer(-1, 65_535, {
    defaultText: `${usualPorts.first}, or the next free one up to ${usualPorts.first + usualPorts.count - 1}`,
  }),
  /** Address to listen on. Any other than loopback needs `management.server.token`. */
  'management.server.address': text('listen-address', { default: '127.0.0.1' }),
  /** Bearer token for callers. */
  'management.server.token': secret('management-token'),
  /** Bearer token for endpoints that change or send something, such as a replay. It can read as well. If set, `management.server.token` can only read. Without either token, actions are off. */
  'management.server.action-token': secret('management-token', { defaultText: 'management.server.token' }),
  /** Address of the management server behind a TLS proxy: svc accepts requests to its host and from its origin. Every request then needs `management.server.token`, local ones too, because behind a proxy all clients look local. The bare status of health, liveness and readiness and the console's files need no token. */
  'management.server.public-url': text('url'),
  /** Actions that are switched off over HTTP for every token. */
  'management.actions.exclude': { type: 'list', values: actionIds, default: [] },
  /** Endpoints to serve. `*` serves all, an empty list starts no server. `svc-console` is the page `/actuator/svc`. */
  'management.endpoints.web.exposure.include': {
    type: 'list',
    values: [...endpointIds, '*'],
    default: undefined,
    defaultText: 'all of them, svc-console only on loopback',
  },
  /** When the health endpoint shows its details. */
  'management.endpoint.health.show-details': oneOf(showDetails, 'always'),
  /** true: `/actuator/health/readiness` is DOWN whenever `/actuator/health` is. false: only if this instance can't do its work, so that a Kafka outage takes no instance out of service. */
  'management.endpoint.health.readiness-needs-broker': flag(false),
} as const satisfies Rows;
