import type { Option } from './option.ts';

/** How the connection to the brokers is encrypted, and how svc signs in. */
export const brokerSecurityOptions = [
  {
    name: 'svc.broker.tls.enabled',
    type: 'boolean',
    default: false,
    description: 'Encrypts the connection to the brokers.',
  },
  {
    name: 'svc.broker.tls.ca-file',
    type: 'string',
    format: 'path',
    defaultText: 'the authorities that Node trusts',
    description: 'PEM file with the authorities to trust instead.',
  },
  {
    name: 'svc.broker.tls.cert-file',
    type: 'string',
    format: 'path',
    description: 'PEM file with the client certificate. Needs svc.broker.tls.key-file.',
  },
  {
    name: 'svc.broker.tls.key-file',
    type: 'string',
    format: 'path',
    description: 'PEM file with the key of the client certificate.',
  },
  {
    name: 'svc.broker.tls.server-name',
    type: 'string',
    format: 'text',
    defaultText: 'the host of the broker',
    description: 'Name that the certificate of the broker must bear.',
  },
  {
    name: 'svc.broker.sasl.mechanism',
    type: 'enum',
    values: ['plain', 'scram-sha-256', 'scram-sha-512', 'oauthbearer'],
    description:
      'How svc signs in to the brokers. `oauthbearer` takes a token, the others username and password.',
  },
  {
    name: 'svc.broker.sasl.username',
    type: 'string',
    format: 'text',
    description: 'Name to sign in with.',
  },
  {
    name: 'svc.broker.sasl.password',
    type: 'string',
    secret: true,
    description: 'Password to sign in with. Better as an environment variable than in a file.',
  },
  {
    name: 'svc.broker.sasl.oauthbearer.token-endpoint-url',
    type: 'string',
    format: 'url',
    description:
      'Where svc gets its tokens (OAuth client credentials), and new ones before they expire. Needs client-id and client-secret.',
  },
  {
    name: 'svc.broker.sasl.oauthbearer.client-id',
    type: 'string',
    format: 'text',
    description: 'Client id at the token endpoint.',
  },
  {
    name: 'svc.broker.sasl.oauthbearer.client-secret',
    type: 'string',
    secret: true,
    description: 'Client secret at the token endpoint. Better as an environment variable than in a file.',
  },
  {
    name: 'svc.broker.sasl.oauthbearer.scope',
    type: 'string',
    format: 'text',
    description: 'Scope to ask the token endpoint for.',
  },
  {
    name: 'svc.broker.sasl.oauthbearer.token-file',
    type: 'string',
    format: 'path',
    description:
      'File with the token, instead of an endpoint. Read again for each connection, as Kubernetes renews it.',
  },
  {
    name: 'svc.broker.sasl.oauthbearer.token',
    type: 'string',
    secret: true,
    description: 'The token itself, instead of an endpoint. It is not renewed.',
  },
  {
    name: 'svc.broker.sasl.oauthbearer.extensions',
    type: 'list',
    format: 'name-and-value',
    default: [],
    description: 'SASL extensions that go with the token, each name=value, such as logicalCluster=lkc-1.',
  },
] as const satisfies readonly Option[];
