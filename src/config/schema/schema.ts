// schema/: the table of all options. Documentation, types and JSON Schema are generated from it.

import { readTrustedProxy, trustedProxyForm } from '../../ground/addresses.ts';
import { nodeNet } from '../../ground/builtins.ts';
import { topicNameForm, topicNamePattern } from '../../ground/event-fields.ts';
import {
  actionIds,
  clientNames,
  compressions,
  endpointIds,
  minTokenLength,
  passwordMechanisms,
  showDetails,
  usualPorts,
} from '../../ground/management.ts';

/** A row of the option table: type, default and form. */
export interface Row {
  /**
   * - `integer`, `number`: within `min` and `max`, inclusive;
   * - `enum`: one of `values`, in any case, or with `registeredBy` a registered name (`own-parts.ts`);
   * - `list`: of strings, each in `format` or one of `values`; a text is split at commas;
   * - `rules`: rules for personal data, `keys`: encryption keys, `names`: names of keys.
   */
  readonly type: 'boolean' | 'integer' | 'number' | 'string' | 'enum' | 'list' | 'rules' | 'keys' | 'names';
  /** Omitted: unset. */
  readonly default?: boolean | number | string | readonly string[] | undefined;
  /** The documented default, if it is not a fixed value. */
  readonly defaultText?: string;
  readonly unit?: 'ms' | 's' | 'days' | 'events' | 'sends' | 'rows' | 'files' | 'bytes' | 'events/s';
  readonly min?: number;
  readonly max?: number;
  /** The message names both bounds, as the specification requires. */
  readonly namesBothBounds?: true;
  readonly values?: readonly string[];
  /** The function that registers further values. */
  readonly registeredBy?: string;
  /** Values of later versions, with the reason why they are not supported yet. */
  readonly laterValues?: Readonly<Record<string, string>>;
  /** Format of a string, or of each item of a list. */
  readonly format?: FormatName | undefined;
  /** Accepts a function (from code, `.mjs` and `.ts`). */
  readonly orFunction?: true;
  /** A password or key: messages never contain its value. */
  readonly secret?: true;
  /** Further environment variables, in order of precedence after the derived name. */
  readonly aliases?: readonly string[];
  /** A variable that the application may use itself. It has the lowest precedence, and is read only if `switch` is true. */
  readonly shared?: { readonly variable: string; readonly switch: string };
}

/**
 * Options by their documented names: `svc.broker.request-timeout-ms`. The comment of each is its text in documentation, JSON
 * Schema and types (`scripts/option-words.ts`).
 */
type Rows = Readonly<Record<string, Row>>;

export interface Option extends Row {
  readonly name: string;
}

type More = Omit<Row, 'type'>;
type None = Record<never, never>;

const flag = <const Default extends boolean | undefined, const M extends More = None>(
  byDefault: Default,
  more?: M,
) => ({ type: 'boolean', default: byDefault, ...(more as M) }) as const;

const integer = <const M extends More = None>(min: number, max: number, more: M) =>
  ({ type: 'integer', min, max, ...more }) as const;

/** The longest delay of a Node timer. A longer one fires at once. */
const maxTimerMs = 2_147_483_647;

/** A duration up to the longest delay of a timer. */
const ms = (min: number, byDefault: number) => integer(min, maxTimerMs, { unit: 'ms', default: byDefault });

const text = <const M extends More = None>(format: FormatName, more?: M) =>
  ({ type: 'string', format, ...(more as M) }) as const;

const secret = <const M extends More = None>(format?: FormatName, more?: M) =>
  ({ type: 'string', format, secret: true, ...(more as M) }) as const;

const oneOf = <
  const Values extends readonly string[],
  const Default extends string | undefined = undefined,
  const M extends More = None,
>(
  values: Values,
  byDefault?: Default,
  more?: M,
) => ({ type: 'enum', values, default: byDefault as Default, ...(more as M) }) as const;

const list = <const M extends More = None>(format: FormatName, byDefault: readonly string[], more?: M) =>
  ({ type: 'list', format, default: byDefault, ...(more as M) }) as const;

/** `svc.broker.request-timeout-ms` -> `SVC_BROKER_REQUEST_TIMEOUT_MS` */
export function variableOf(name: string): string {
  return name.replace(/[.-]/g, '_').toUpperCase();
}

/** `request-timeout-ms` -> `requestTimeoutMs` */
export function camelCase(text: string): string {
  return text.replace(/-([a-z0-9])/g, (_, next: string) => next.toUpperCase());
}

/** `requestTimeoutMs` -> `request-timeout-ms` */
export function kebabCase(text: string): string {
  return text.replace(/[A-Z]/g, (capital) => `-${capital.toLowerCase()}`);
}

interface Format {
  /** Also used in the JSON Schema, so without flags. */
  readonly pattern: RegExp;
  /** Checks beyond the pattern. */
  readonly check?: (text: string) => boolean;
  /** Continues the sentence "topic …". */
  readonly says: string;
}

const headerName = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/;

export const formats = {
  text: { pattern: /[^\s]/, says: 'must not be empty' },
  topic: {
    pattern: topicNamePattern,
    says: `must be a topic name that Kafka accepts: ${topicNameForm}`,
  },
  'host-and-port': {
    pattern: /^(\[[0-9A-Fa-f:.]+\]|[^\s:/@]+):[0-9]{1,5}$/,
    check: (text) => isPort(text.slice(text.lastIndexOf(':') + 1)),
    says: 'must be host:port with a port from 1 to 65535, without a protocol',
  },
  'name-and-value': {
    pattern: /^[A-Za-z]+=[!-~]+$/,
    says: 'must be name=value: letters, and visible ASCII characters without spaces',
  },
  // A line break means that a key or certificate was given instead of its file.
  path: { pattern: /^[^\0\n\r]*[^\s\0][^\0\n\r]*$/, says: 'must be a path' },
  'header-name': { pattern: headerName, says: 'must be the name of an HTTP header' },
  'actor-source': {
    pattern: /^(header:[A-Za-z0-9!#$%&'*+.^_`|~-]+|(baggage|request):[^\s]+)$/,
    says: 'must be header:<name>, baggage:<key> or request:<path of a property>',
  },
  'trusted-proxy': {
    pattern: /^(unix|[0-9A-Fa-f:.]+(\/[0-9]{1,3})?)$/,
    check: (text) => readTrustedProxy(text) !== undefined,
    says: `must be ${trustedProxyForm}`,
  },
  'listen-address': {
    pattern: /^[0-9A-Za-z:._-]+$/,
    check: (text) => nodeNet().isIP(text) !== 0 || (!text.includes(':') && !/^[0-9.]+$/.test(text)),
    says: 'must be an IP address or a hostname, without a port',
  },
  token: {
    pattern: /^[!-~]+$/,
    says: 'must be visible ASCII characters without spaces, as in a bearer token',
  },
  'management-token': {
    pattern: new RegExp(`^[!-~]{${minTokenLength},}$`),
    says: `must be ${minTokenLength} or more visible ASCII characters without spaces, because shorter ones can be guessed`,
  },
  url: {
    pattern: /^https?:\/\/[^\s]+$/,
    check: isBareUrl,
    says: 'must be an http or https URL, without user and password',
  },
  'uri-reference': {
    // RFC 3986: without a scheme, the first segment has no colon.
    pattern:
      /^(?=.)([A-Za-z][A-Za-z0-9+.-]*:|(?![^/?#]*:))(\/\/([A-Za-z0-9._~!$&'()*+,;=:%-]*@)?\[[0-9A-Fa-f:.]+\](:[0-9]*)?(?=[/?#]|$))?([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*(\?([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?(#([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?$/,
    says: 'must be a URI-reference (RFC 3986), such as https://example.com/orders or /orders, other characters percent-encoded',
  },
  'datasource-url': {
    // Not `sqlite://name`, which is a host for some and a path for others. A database in memory is visible to its own connection only.
    pattern:
      /^((postgres|postgresql|mysql|mariadb):\/\/[^\s]+|sqlite:(?!\/\/[^/]|:memory:)[^\0\n\r]*[^\s\0])$/,
    check: (text) => text.startsWith('sqlite:') || URL.canParse(text),
    says: 'must be a postgres://, postgresql://, mysql:// or mariadb:// URL with percent-encoded special characters in the password, or sqlite: and a file path',
  },
  table: {
    pattern: /^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$/,
    says: 'must be a table name, with or without schema and dot: each 1 to 63 letters, digits and _, not beginning with a digit',
  },
} as const satisfies Record<string, Format>;

type FormatName = keyof typeof formats;

export function hasFormat(name: FormatName, text: string): boolean {
  const format: Format = formats[name];
  return format.pattern.test(text) && (format.check?.(text) ?? true);
}

function isBareUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { username, password } = new URL(text);
  return username === '' && password === '';
}

function isPort(text: string): boolean {
  const port = Number(text);
  return port >= 1 && port <= 65_535;
}

/** Switches, identity, logging, end of the process, event ids. */
const serviceOptions = {
  /** Switches svc on. If false, svc patches and loads nothing. */
  'svc.enabled': flag(true),
  /** If true, the process doesn't start without svc: it ends with exit code 78 and logs why. Reasons: an invalid configuration, an old Node, or a target that can't be patched or whose build is loaded in its place. In the environment, it applies even if the file can't be read. */
  'svc.required': flag(false),
  /** Captures calls. If false, only `publish()` makes events. */
  'svc.aop.enabled': flag(true),
  /** Service name in `metadata.source.serviceName`. */
  'svc.service.name': text('text', {
    defaultText:
      'OTEL_SERVICE_NAME, service.name of OTEL_RESOURCE_ATTRIBUTES, name in package.json of the application',
  }),
  /** Service version in `metadata.source.serviceVersion`. Quote it in YAML if it looks like a number. */
  'svc.service.version': text('text', {
    defaultText: 'service.version of OTEL_RESOURCE_ATTRIBUTES, version in package.json of the application',
  }),
  /** `node`: svc starts `@opentelemetry/sdk-node` with the `OTEL_*` variables and the application's instrumentations. `none`: spans and metrics go to the SDK that the application starts, if any. */
  'svc.telemetry.sdk': oneOf(['none', 'node'], 'none'),
  /** Lowest level of svc's log lines on standard error. */
  'svc.log.level': oneOf(['debug', 'info', 'warn', 'error', 'off'], 'info'),
  /** Format of svc's log lines on standard error: `text`, or `json` with one object a line. */
  'svc.log.format': oneOf(['text', 'json'], 'text'),
  /** Longest wait for in-flight events at the end of the process. 0 doesn't wait. */
  'svc.shutdown.timeout-ms': ms(0, 10_000),
  /** Type of event ids: `snowflake` numbers, or `uuidv7`, which needs no worker ids. */
  'svc.id-generator.type': oneOf(['snowflake', 'uuidv7'], 'snowflake'),
  /** Worker id in Snowflake ids. It must be unique among all processes that publish. */
  'svc.id-generator.worker-id': integer(0, 1023, {
    namesBothBounds: true,
    defaultText: 'derived, then leased, so that no two processes of a host share one',
  }),
  /** Folder in which the processes of a host lease worker ids. */
  'svc.id-generator.lease-path': text('path', {
    defaultText: 'a folder under the temporary folder of the system',
  }),
  /** Place where worker ids are leased: in `kafka` for all hosts, or on the `host`. `auto` uses Kafka if events go to Kafka. */
  'svc.id-generator.lease': oneOf(['auto', 'host', 'kafka'], 'auto', {
    laterValues: {
      database: 'leases worker ids in the database of the outbox, which this version does not support yet',
    },
  }),
  /** Kafka group whose members share out the worker ids. Needs the Read permission. */
  'svc.id-generator.group': text('text', { default: 'svc-workers' }),
} as const satisfies Rows;

/** Where events go, how they get there, and what becomes of those that their topic did not take. */
const brokerOptions = {
  /** Client that sends the events. `kafkajs` and `platformatic` send to Kafka. `file` writes a file per topic. `memory` keeps events for tests. */
  'svc.broker.client': oneOf(clientNames, undefined, {
    registeredBy: 'registerBroker',
    defaultText: 'kafkajs if svc.broker.bootstrap-servers is set, otherwise file',
  }),
  /** Addresses of Kafka brokers, as host:port. */
  'svc.broker.bootstrap-servers': list('host-and-port', [], { aliases: ['KAFKA_BROKERS'] }),
  /** Topic of events whose target doesn't name one. */
  'svc.broker.topic': text('topic', { defaultText: 'none: required' }),
  /** Client id in the logs, metrics and quotas of the brokers. */
  'svc.broker.client-id': text('text', { default: 'svc' }),
  /** false: a captured async function resolves once its event is acknowledged, or after `svc.broker.max-wait-ms`. true: calls don't wait. Synchronous functions never wait. */
  'svc.broker.async-mode': flag(false),
  /** Longest wait of a captured call for its event. After it, the call returns normally, or fails with `failOnError` (`SVC_PUBLISH_TIMEOUT`). The event may still arrive. */
  'svc.broker.max-wait-ms': ms(1, 2_000),
  /** Longest wait for a broker to answer a request. */
  'svc.broker.request-timeout-ms': ms(1, 30_000),
  /** Longest wait for a connection to a broker. */
  'svc.broker.connection-timeout-ms': ms(1, 3_000),
  /** Replicas that must confirm an event: `all` in-sync ones, the leader (`1`), or none (`0`). Less than `all` can lose events without notice. */
  'svc.broker.acks': oneOf(['all', '1', '0'], 'all'),
  /** Idempotent producer: Kafka stores each batch once, however often svc sends it. Needs `svc.broker.acks: all`. */
  'svc.broker.idempotence': flag(true),
  /** Compression of sends. `snappy` and `lz4` need the client `platformatic`. Recovery reads all of them. */
  'svc.broker.compression': oneOf(compressions, 'none'),
  /** Concurrent sends, each a batch for one partition. Further events wait in the buffer. */
  'svc.broker.max-in-flight': integer(1, 1_000, { unit: 'sends', default: 8 }),
  /** Events in memory that aren't acknowledged yet. Further events go to the next tier at once. */
  'svc.broker.buffer.max-events': integer(1, 1_000_000, { unit: 'events', default: 10_000 }),
  /** Bytes of events in memory that aren't acknowledged yet. Further events go to the next tier at once. */
  'svc.broker.buffer.max-bytes': integer(1024 ** 2, 1024 ** 3, { unit: 'bytes', default: 32 * 1024 ** 2 }),
  /** Events per send. */
  'svc.broker.batch.max-events': integer(1, 5_000, { unit: 'events', default: 500 }),
  /** Bytes per send. A larger event is sent alone. Stay below `message.max.bytes` of the brokers (1 MB by default). */
  'svc.broker.batch.max-bytes': integer(1024, 100 * 1024 ** 2, { unit: 'bytes', default: 900_000 }),
  /** Longest wait of an event for others to share its send, while its partition is busy. 5 ms if the last send had one event, none if the partition was idle, or from 100 events or 128 KiB on. With `svc.broker.async-mode: false`, 2 ms at most. */
  'svc.broker.batch.linger-ms': integer(0, 60_000, { unit: 'ms', default: 20 }),
  /** Total time for an event, retries included. The last two seconds (a quarter of less than eight) are reserved for the dead letter topic and the backup. */
  'svc.broker.delivery-timeout-ms': ms(1, 30_000),
  /** Folder of the topic files with client `file`: `<path>/<topic>.ndjson`, one record a line. */
  'svc.broker.file.path': text('path', { default: './svc-topics' }),
  /** Encrypts the connections to the brokers. */
  'svc.broker.tls.enabled': flag(false),
  /** PEM file of certificate authorities to trust. */
  'svc.broker.tls.ca-file': text('path', { defaultText: 'the authorities that Node trusts' }),
  /** PEM file of the client certificate. Needs `svc.broker.tls.key-file`. */
  'svc.broker.tls.cert-file': text('path'),
  /** PEM file of the client certificate's key. */
  'svc.broker.tls.key-file': text('path'),
  /** Name that the broker's certificate must have. */
  'svc.broker.tls.server-name': text('text', { defaultText: 'the host of the broker' }),
  /** SASL mechanism. `oauthbearer` uses a token, the others a username and password. */
  'svc.broker.sasl.mechanism': oneOf([...passwordMechanisms, 'oauthbearer']),
  /** SASL username. */
  'svc.broker.sasl.username': text('text'),
  /** SASL password. */
  'svc.broker.sasl.password': secret(),
  /** Endpoint that issues tokens (OAuth client credentials). Needs `client-id` and `client-secret`. */
  'svc.broker.sasl.oauthbearer.token-endpoint-url': text('url'),
  /** Client id for the token endpoint. */
  'svc.broker.sasl.oauthbearer.client-id': text('text'),
  /** Client secret for the token endpoint. */
  'svc.broker.sasl.oauthbearer.client-secret': secret(),
  /** Scope to request from the token endpoint. */
  'svc.broker.sasl.oauthbearer.scope': text('text'),
  /** File with the token, instead of an endpoint. svc reads it for each connection, as Kubernetes renews it. */
  'svc.broker.sasl.oauthbearer.token-file': text('path'),
  /** The token, instead of an endpoint. svc doesn't renew it. */
  'svc.broker.sasl.oauthbearer.token': secret(),
  /** SASL extensions for the token, as name=value, such as `logicalCluster=lkc-1`. */
  'svc.broker.sasl.oauthbearer.extensions': list('name-and-value', []),
  /** Retries failed sends. If false, a failed event goes to the next tier at once. */
  'svc.retry.enabled': flag(true),
  /** Retries after the first send. Later events wait, so that the order is kept. */
  'svc.retry.max-attempts': integer(1, 100, { default: 3 }),
  /** Wait before the first retry. */
  'svc.retry.initial-interval': ms(1, 1_000),
  /** Factor from one wait to the next: 1 s, 2 s, 4 s by default. */
  'svc.retry.multiplier': { type: 'number', min: 1, max: 100, default: 2 },
  /** Longest wait between retries. */
  'svc.retry.max-interval': ms(1, 10_000),
  /** Varies each wait by up to 20 %, so that many processes don't retry at once. */
  'svc.retry.jitter': flag(false),
  /** Dead letter topic for events that could not be sent. */
  'svc.broker.dlq-topic': text('topic', { defaultText: 'none: events go to the backup' }),
  /** Format of dead letters: `operations` holds the event as text, `recovery` as an object. `svc dlq` reads both. */
  'svc.broker.dlq-format': oneOf(['operations', 'recovery'], 'operations'),
  /** Folder of the local backup. svc creates it on demand, for its owner only (0700). */
  'svc.broker.dlq-backup-path': text('path', { default: './dlq-backup' }),
  /** Backup to local files; after S3, if S3 is enabled too. */
  'svc.broker.backup.local-enabled': flag(true),
  /** Backup to S3 or a compatible store. Needs the package `@aws-sdk/client-s3`. */
  'svc.broker.backup.s3-enabled': flag(false),
  /** Bucket of the S3 backup. */
  'svc.broker.backup.s3-bucket': text('text'),
  /** Prefix of object keys: `<prefix>/yyyy/MM/dd/<eventId>.json`. */
  'svc.broker.backup.s3-prefix': { type: 'string', default: 'dlq-backup' },
  /** Region of the bucket. The AWS SDK finds the credentials. */
  'svc.broker.backup.s3-region': text('text', {
    defaultText: 'as the AWS SDK finds it (AWS_REGION, profile)',
  }),
  /** Address of a compatible store, such as MinIO. The bucket name goes into the path. */
  'svc.broker.backup.s3-endpoint': text('url', { defaultText: 'AWS' }),
  /** Format of the local backup. `journal`: segments that many events share, in order. `event`: a file for each event. `record`: the same, with the reason and the time. `event` and `record` keep no order. */
  'svc.broker.backup.format': oneOf(['journal', 'event', 'record'], 'journal'),
  /** Event files in the folder, with `format: event` or `record`. Further events go to segments. */
  'svc.broker.backup.max-files': integer(0, 1_000_000, { unit: 'files', default: 10_000 }),
  /** Size limit of the local backup. Further events are lost, with an alert. */
  'svc.broker.backup.max-bytes': integer(1, 1024 ** 5, { unit: 'bytes', default: 10 * 1024 ** 3 }),
  /** A running process sends its local backup to the original topics when Kafka is back. */
  'svc.broker.backup.drain.enabled': flag(true),
  /** Events of the backup sent per second. With `drain.order: key`, this limits only events that an ended process left and that no new event waits behind. */
  'svc.broker.backup.drain.rate': integer(1, 1_000_000, { unit: 'events/s', default: 500 }),
  /** Order over an outage. `key`: later events of a partition queue behind those in the backup. `none`: later events go to the topic at once. */
  'svc.broker.backup.drain.order': oneOf(['key', 'none'], undefined, {
    defaultText: '`key`; `none` where `svc.broker.backup.format` is `event` or `record`',
  }),
} as const satisfies Rows;

/** What an event knows of the request that caused it. */
const contextOptions = {
  /** Takes the client address from `svc.security.forwarded-header`, if the proxies in `svc.security.trusted-proxies` vouch for it. */
  'svc.security.use-forwarded-headers': flag(false),
  /** Header that your proxies write: `x-forwarded-for`, `forwarded` (RFC 7239), or one with a single address, such as `x-real-ip`. svc reads no other. */
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

/** The management server. */
const managementOptions = {
  /** Port of the management server. 0 takes a free port, -1 starts no server. If a configured port is in use, svc logs a warning and starts no server. */
  'management.server.port': integer(-1, 65_535, {
    defaultText: `${usualPorts.first}, or the next free one up to ${usualPorts.first + usualPorts.count - 1}`,
  }),
  /** Address to listen on. Any other than loopback needs `management.server.token`. */
  'management.server.address': text('listen-address', { default: '127.0.0.1' }),
  /** Bearer token for callers. */
  'management.server.token': secret('management-token'),
  /** Bearer token for endpoints that change or send something, such as a replay. It can read as well. If set, `management.server.token` can only read. Without either token, actions are off. */
  'management.server.action-token': secret('management-token', { defaultText: 'management.server.token' }),
  /** Address of the management server behind a TLS proxy: svc accepts requests to its host and from its origin. Local requests then need a token too, because behind a proxy all clients look local. */
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

/** Events that wait in a table of the application's database, and what sends them from there. */
const outboxOptions = {
  /** Transactional outbox: targets with `outbox` store their events in the transaction of the call, and a relay sends them. */
  'svc.outbox.enabled': flag(false),
  /** Database of the outbox table, which is the application's database. svc opens its own connections. */
  'svc.outbox.datasource.url': secret('datasource-url', {
    shared: { variable: 'DATABASE_URL', switch: 'svc.outbox.enabled' },
    defaultText: 'the variable `DATABASE_URL`',
  }),
  /** Table of the outbox, with or without its schema: `app.svc_outbox_events`. */
  'svc.outbox.table': text('table', { default: 'svc_outbox_events' }),
  /** When svc creates a missing table: `embedded` in SQLite only, `always`, or `never`. Otherwise a missing table is an error. */
  'svc.outbox.initialize-schema': oneOf(['embedded', 'always', 'never'], 'embedded'),
  /** What happens to a call outside any transaction. `autocommit` stores its event separately, right after the call. `error` fails the call, but its writes stay. The same applies if the call's own transaction commits before its result is known. */
  'svc.outbox.on-no-transaction': oneOf(['error', 'autocommit'], 'autocommit'),
  /** Sends rows from this process. If false, `svc relay` or another tool such as Debezium sends them. */
  'svc.outbox.publisher-enabled': flag(true),
  /** Interval between polls of the table. */
  'svc.outbox.poll-interval-ms': ms(1, 1_000),
  /** Rows per batch. */
  'svc.outbox.batch-size': integer(1, 1_000, { unit: 'rows', default: 100 }),
  /** Takes larger batches while many rows wait. */
  'svc.outbox.dynamic-batching-enabled': flag(true),
  /** Tries of a row that fails by its own fault, before it is FAILED. Tries don't count while the broker is away. */
  'svc.outbox.max-retries': integer(1, 1_000, { default: 3 }),
  /** What happens to later rows of an aggregate with a FAILED row: `skip` sends them, `block` holds them until that row is retried or discarded. */
  'svc.outbox.on-failed': oneOf(['skip', 'block'], 'skip'),
  /** Longest wait for a send. */
  'svc.outbox.send-timeout-seconds': integer(1, 86_400, { unit: 's', default: 10 }),
  /** Pauses sending while the broker is away. */
  'svc.outbox.circuit-breaker-enabled': flag(true),
  /** Deletes rows after `svc.outbox.retention-days` and `svc.outbox.failed-retention-days`. */
  'svc.outbox.cleanup-enabled': flag(false),
  /** Time to keep published rows, with `svc.outbox.cleanup-enabled`. 0 needs no cleanup: each row is deleted once it is sent, or with `svc.outbox.publisher-enabled: false` in the transaction that wrote it (docs/debezium.md). */
  'svc.outbox.retention-days': integer(0, 36_500, { unit: 'days', default: 7 }),
  /** Time to keep FAILED rows, with `svc.outbox.cleanup-enabled`. */
  'svc.outbox.failed-retention-days': integer(1, 36_500, { unit: 'days', default: 30 }),
} as const satisfies Rows;

/** Protection of personal data: which fields, with which keys. */
const piiOptions = {
  /** Protects values that rules here or `@PiiField` mark. If false, everything is published unprotected. */
  'svc.pii.enabled': flag(true),
  /** Rules for all payloads: `customer.email`, `items[*].phone`, `**.ssn` (at any depth). Each is a path, `path=TYPE:STRATEGY:LEVEL`, or `{ path, type, strategy, level, keyId, masker }`. */
  'svc.pii.fields': { type: 'rules', default: [] },
  /** `report` warns once per path about unmarked values that look like personal data. It costs time: use it in tests and staging. */
  'svc.pii.detect': oneOf(['off', 'report'], 'off'),
  /** Key for ENCRYPT: 32 bytes in Base64 (or 32 characters). Its id is `default`. */
  'svc.pii.crypto.default-key': secret('text', { aliases: ['PII_ENCRYPTION_KEY'] }),
  /** Keys for rotation: a list of `{ id, key, status }`. The key with status `primary` encrypts. Keys with `decrypt` no longer encrypt. */
  'svc.pii.crypto.keys': { type: 'keys', secret: true },
  /** Key for HASH: 16 random bytes or more. */
  'svc.pii.crypto.salt': secret('text', {
    aliases: ['PII_HASH_SALT'],
    defaultText: 'a public text, with a security warning; none in production',
  }),
  /** Refuses to start if a rule hashes and no salt is configured. */
  'svc.pii.crypto.require-salt': flag(undefined, { defaultText: '`true` where NODE_ENV is `production`' }),
  /** Layout of ciphertexts. Other languages can read `specification`. `v1` adds the key id, and opens only in the field it was written for. */
  'svc.pii.crypto.format': oneOf(['specification', 'v1'], 'specification'),
  /** Takes the keys for ENCRYPT from a key management service instead of `svc.pii.crypto`. */
  'svc.pii.kms.enabled': flag(false),
  /** `aws`: AWS KMS (install `@aws-sdk/client-kms`). `vault`: HashiCorp Vault or OpenBao. */
  'svc.pii.kms.type': oneOf(['aws', 'vault'], undefined, { registeredBy: 'registerKeyProvider' }),
  /** What happens to events while their key is unavailable. `refuse`, or `hold` in memory: at most `svc.broker.buffer.max-events`, each for `svc.broker.delivery-timeout-ms`, and later events wait behind them. Outbox events are always refused. */
  'svc.pii.kms.on-unavailable': oneOf(['refuse', 'hold'], 'refuse'),
  /** The service's name of each key, by the `keyId` of rules: `{ customer: arn:… }`. The first of a list makes new keys. Default: the same name. */
  'svc.pii.kms.keys': { type: 'names' },
  /** Region of the keys. */
  'svc.pii.kms.aws.region': text('text', { defaultText: 'as the AWS SDK finds it' }),
  /** VPC endpoint or test server. */
  'svc.pii.kms.aws.endpoint': text('url'),
  /** Key for rules without `keyId`: ARN, key id or `alias/…`. */
  'svc.pii.kms.aws.default-key-arn': text('text'),
  /** Context bound to each data key and shown in CloudTrail. Readers must send the same. Not secret. */
  'svc.pii.kms.aws.encryption-context': { type: 'names' },
  /** Lifetime of a key before svc replaces it in the background. */
  'svc.pii.kms.aws.dek-cache-ttl-ms': integer(1_000, 86_400_000, { unit: 'ms', default: 300_000 }),
  /** Keys in the cache. The oldest is dropped first. */
  'svc.pii.kms.aws.dek-cache-max-size': integer(1, 10_000, { default: 100 }),
  /** Address of the server. `http:` is allowed on loopback only. */
  'svc.pii.kms.vault.address': text('url', { aliases: ['VAULT_ADDR'], default: 'https://127.0.0.1:8200' }),
  /** Token for reading keys. */
  'svc.pii.kms.vault.token': secret('token', { aliases: ['VAULT_TOKEN'] }),
  /** File with the token. svc reads it at each call, so an agent can renew it. */
  'svc.pii.kms.vault.token-file': text('path'),
  /** Namespace of the server. */
  'svc.pii.kms.vault.namespace': text('text', { aliases: ['VAULT_NAMESPACE'] }),
  /** `kv` (the same as `kv-v2`) and `kv-v1`: a K/V store holds the keys. `transit`: the server makes data keys (envelope encryption). */
  'svc.pii.kms.vault.mode': oneOf(['kv', 'kv-v1', 'kv-v2', 'transit'], 'kv'),
  /** Path where the engine is mounted. */
  'svc.pii.kms.vault.mount-path': text('text', { defaultText: '`secret`, for Transit `transit`' }),
  /** Key for rules without `keyId`: path of the secret below the mount, or name of the Transit key. */
  'svc.pii.kms.vault.default-key-path': text('text'),
  /** Field of the secret that holds the key: 32 bytes in Base64. */
  'svc.pii.kms.vault.field': text('text', { default: 'key' }),
  /** PEM file of certificate authorities to trust. */
  'svc.pii.kms.vault.ca-file': text('path', { defaultText: 'the authorities that Node trusts' }),
  /** Lifetime of a key before svc replaces it in the background. */
  'svc.pii.kms.vault.dek-cache-ttl-ms': integer(1_000, 86_400_000, { unit: 'ms', default: 300_000 }),
  /** Keys in the cache. The oldest is dropped first. */
  'svc.pii.kms.vault.dek-cache-max-size': integer(1, 10_000, { default: 100 }),
} as const satisfies Rows;

/** The form of record values. */
const serdeOptions = {
  /** Format of the record value: `JSON`, or `AVRO` in Confluent's wire format with a schema registry (install `avsc`). */
  'svc.serde.type': oneOf(['JSON', 'AVRO'], 'JSON'),
  /** Envelope around the payload: `svc`, or `cloudevents` (CloudEvents 1.0, with the payload as `data`). */
  'svc.serde.envelope': oneOf(['svc', 'cloudevents'], 'svc'),
  /** Content mode of CloudEvents. `binary`: attributes in headers, the payload as the value. `structured`: everything in the value. */
  'svc.serde.cloudevents.mode': oneOf(['binary', 'structured'], 'binary'),
  /** Attribute `source` of CloudEvents: a URI reference, such as `https://example.com/orders`. */
  'svc.serde.cloudevents.source': text('uri-reference', { defaultText: '`/` and the name of the service' }),
  /** Schema registry with Confluent's API, such as `https://registry.example.com:8081`. Required for `AVRO`. */
  'svc.serde.schema-registry-url': text('url', { aliases: ['SCHEMA_REGISTRY_URL'] }),
  /** User of the registry, or its API key (basic authentication). */
  'svc.serde.schema-registry-username': text('text'),
  /** Password of the user, or secret of the API key. */
  'svc.serde.schema-registry-password': secret(),
  /** Token for the registry (bearer authentication). */
  'svc.serde.schema-registry-token': secret('token'),
  /** File with the token. svc reads it at each request, so an agent can renew it. */
  'svc.serde.schema-registry-token-file': text('path'),
  /** PEM file of certificate authorities to trust. */
  'svc.serde.schema-registry-ca-file': text('path', { defaultText: 'the authorities that Node trusts' }),
  /** Files with the Avro schema of the payload, by event type: `{ ORDER_CREATED: schemas/order.avsc }`. Payloads of other types are JSON in a string. */
  'svc.serde.schemas': { type: 'names' },
  /** Subject of a schema: `topic` (`<topic>-value`, for topics with one event type), `record` (its full name), or both. */
  'svc.serde.subject-name-strategy': oneOf(['topic', 'record', 'topic-record'], 'topic-record'),
  /** Registers missing schemas. If false, the registry must have them. */
  'svc.serde.auto-register': flag(true),
  /** Where events with an unknown schema id go while the registry is away. `wait`: to memory during the retries, then to the backup. `backup`: there at once. */
  'svc.serde.on-registry-unavailable': oneOf(['wait', 'backup'], 'wait'),
} as const satisfies Rows;

const table = {
  ...serviceOptions,
  ...brokerOptions,
  ...outboxOptions,
  ...contextOptions,
  ...serdeOptions,
  ...piiOptions,
  ...managementOptions,
} as const satisfies Rows;

/** The literal type, from which the types of the values are derived. */
export type OptionTable = typeof table;

/** All options except `svc.targets`, for validation, documentation and JSON Schema. */
export const options: readonly Option[] = Object.entries<Row>(table).map(([name, row]) => ({ name, ...row }));

/** The list of publish targets. It has its own checks (`target.ts`). */
export const targetsName = 'svc.targets';

const byName: ReadonlyMap<string, Option> = new Map(options.map((option) => [option.name, option]));

export function optionNamed(name: string): Option | undefined {
  return byName.get(name);
}
