import { endpointIds } from '../../ground/management.ts';
import type { Option } from './option.ts';

/** The management server. */
export const managementOptions = [
  {
    name: 'management.server.port',
    type: 'integer',
    min: -1,
    max: 65_535,
    defaultText: '9464, or the next free one up to 9473',
    description:
      'Port of the management server. 0 takes a free one, -1 starts no server. One that is named here and taken by others is a warning, and there is no server; processes of node:cluster and of pm2 take the next free one.',
  },
  {
    name: 'management.server.address',
    type: 'string',
    format: 'listen-address',
    default: '127.0.0.1',
    description:
      'Address that the management server listens on. Any other than loopback needs management.server.token.',
  },
  {
    name: 'management.server.token',
    type: 'string',
    format: 'management-token',
    secret: true,
    description: 'Bearer token that callers must send: 16 characters or more.',
  },
  {
    name: 'management.server.action-token',
    type: 'string',
    format: 'management-token',
    secret: true,
    defaultText: 'management.server.token',
    description:
      'Bearer token for the endpoints that change or send something, such as a replay of the outbox: 16 characters or more. It reads as well; with it, management.server.token reads only. Without either, nothing acts.',
  },
  {
    name: 'management.endpoints.web.exposure.include',
    type: 'list',
    values: [...endpointIds, '*'],
    default: endpointIds,
    description: 'Endpoints that are served. `*` is all of them, an empty list starts no server.',
  },
  {
    name: 'management.endpoint.health.show-details',
    type: 'enum',
    values: ['always', 'never', 'when-authorized'],
    default: 'always',
    description: 'Who sees the details of the health endpoint.',
  },
  {
    name: 'management.endpoint.health.readiness-needs-broker',
    type: 'boolean',
    default: false,
    description:
      'Whether `/actuator/health/readiness` is DOWN wherever `/actuator/health` is. false: only where this instance itself does not do its work, so that an outage of Kafka takes no instance out of service.',
  },
] as const satisfies readonly Option[];
