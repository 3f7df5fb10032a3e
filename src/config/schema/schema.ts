// schema/: the list of everything that can be set; documentation, types and JSON Schema are made from it.

import { readTrustedProxy, trustedProxyForm } from '../../ground/addresses.ts';
import { nodeNet } from '../../ground/builtins.ts';
import { topicNameForm, topicNamePattern } from '../../ground/event-fields.ts';
import {
  actionIds,
  compressions,
  endpointIds,
  minTokenLength,
  saslMechanisms,
  showDetails,
  usualPorts,
} from '../../ground/management.ts';

/** What an option takes, and how it is written: a row of the tables beside this file. */
export interface Row {
  /**
   * - `integer`, `number`: within `min` and `max`, both accepted;
   * - `enum`: one of `values`, upper or lower case, or a name as `own-parts.ts` has them where there is `registeredBy`;
   * - `list`: of strings, each in `format` or one of `values`; a text with commas is taken apart;
   * - `rules`: rules for personal data , `keys`: encryption keys, `names`: of keys.
   */
  readonly type: 'boolean' | 'integer' | 'number' | 'string' | 'enum' | 'list' | 'rules' | 'keys' | 'names';
  /** Left out: unset. */
  readonly default?: boolean | number | string | readonly string[] | undefined;
  /** In words, where the default is no fixed value. */
  readonly defaultText?: string;
  readonly unit?: 'ms' | 's' | 'days' | 'events' | 'sends' | 'rows' | 'files' | 'bytes' | 'events/s';
  readonly min?: number;
  readonly max?: number;
  /** The message names both bounds, as the specification does. */
  readonly namesBothBounds?: true;
  readonly values?: readonly string[];
  /** The function with which an application adds values of its own. */
  readonly registeredBy?: string;
  /** Values that will be accepted by a later version, and why not by this one. */
  readonly laterValues?: Readonly<Record<string, string>>;
  /** Form of a string, or of each item of a list. */
  readonly format?: FormatName | undefined;
  /** A function is accepted as well (from code, `.mjs` and `.ts`). */
  readonly orFunction?: true;
  /** A password or key: its value is in no message. */
  readonly secret?: true;
  /** Further environment variables, asked after the derived one. */
  readonly aliases?: readonly string[];
  /** A variable that belongs to the application as well: asked last of all, and only while that switch is true. */
  readonly shared?: { readonly variable: string; readonly switch: string };
}

/**
 * Options by their names as users write them: `svc.broker.request-timeout-ms`. The comment of each is its text in docs, JSON
 * Schema and types (`scripts/option-words.ts`).
 */
type Rows = Readonly<Record<string, Row>>;

/** One configuration option: all that the check knows about it. */
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

/** Longest wait of a Node timer: one more, and it fires at once. */
const maxTimerMs = 2_147_483_647;

/** A wait, as long as a timer of Node can. */
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

/** `svc.broker.request-timeout-ms` -> `requestTimeoutMs`, as messages name it. */
export function shortName(name: string): string {
  return camelCase(name.slice(name.lastIndexOf('.') + 1));
}

export interface Format {
  /** Also in the JSON Schema, so no flags. */
  readonly pattern: RegExp;
  /** What the pattern cannot say. */
  readonly check?: (text: string) => boolean;
  /** Ends the sentence "topic …". */
  readonly says: string;
}

const headerName = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/;

/** The forms that strings can be asked to have. */
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
  // A line end is what a key or certificate has that stands in the place of its file.
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
    says: 'must be an IP address or a host name, without a port',
  },
  token: {
    pattern: /^[!-~]+$/,
    says: 'must be visible ASCII characters without spaces, as a bearer token is',
  },
  'management-token': {
    pattern: new RegExp(`^[!-~]{${minTokenLength},}$`),
    says: `must be ${minTokenLength} or more visible ASCII characters without spaces: shorter ones can be guessed`,
  },
  url: {
    pattern: /^https?:\/\/[^\s]+$/,
    check: isBareUrl,
    says: 'must be an http or https URL, without user and password',
  },
  'uri-reference': {
    // RFC 3986: without a scheme, no colon in the first part of the path.
    pattern:
      /^(?=.)([A-Za-z][A-Za-z0-9+.-]*:|(?![^/?#]*:))(\/\/([A-Za-z0-9._~!$&'()*+,;=:%-]*@)?\[[0-9A-Fa-f:.]+\](:[0-9]*)?(?=[/?#]|$))?([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*(\?([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?(#([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?$/,
    says: 'must be a URI-reference (RFC 3986), such as https://example.com/orders or /orders, other characters percent-encoded',
  },
  'datasource-url': {
    // Not `sqlite://name`: a host for some, a path for others. A database in memory is seen by its own connection only.
    pattern:
      /^((postgres|postgresql|mysql|mariadb):\/\/[^\s]+|sqlite:(?!\/\/[^/]|:memory:)[^\0\n\r]*[^\s\0])$/,
    check: (text) => text.startsWith('sqlite:') || URL.canParse(text),
    says: 'must be a URL that begins with postgres://, postgresql://, mysql:// or mariadb://, special characters of the password percent-encoded, or sqlite: and the path of a file',
  },
  table: {
    pattern: /^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$/,
    says: 'must be the name of a table, with or without its schema and a dot: each of 1 to 63 letters, digits and _, and no digit first',
  },
} as const satisfies Record<string, Format>;

export type FormatName = keyof typeof formats;

/** True for what stands in the form that is asked for. */
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
  /** Switches svc on. When false nothing is patched and nothing is loaded. */
  'svc.enabled': flag(true),
  /** When true the process does not start where svc cannot work: it ends with exit code 78 and a line that says why (a wrong configuration, a Node that is too old, a target that cannot be patched, or whose compiled file is loaded in its place). In the environment it counts even where the file cannot be read. */
  'svc.required': flag(false),
  /** Captures calls. When false only what the application publishes itself with publish() becomes an event. */
  'svc.aop.enabled': flag(true),
  /** Name of the service in `metadata.source.serviceName`. */
  'svc.service.name': text('text', {
    defaultText:
      'OTEL_SERVICE_NAME, service.name of OTEL_RESOURCE_ATTRIBUTES, name in package.json of the application',
  }),
  /** Version of the service in `metadata.source.serviceVersion`. In YAML in quotes when it looks like a number. */
  'svc.service.version': text('text', {
    defaultText: 'service.version of OTEL_RESOURCE_ATTRIBUTES, version in package.json of the application',
  }),
  /** `node`: svc starts `@opentelemetry/sdk-node`, as the variables `OTEL_*` say, with the application's instrumentations. `none`: spans and metrics go to the SDK that the application starts, if any. */
  'svc.telemetry.sdk': oneOf(['none', 'node'], 'none'),
  /** Least level of svc's own lines on standard error. */
  'svc.log.level': oneOf(['debug', 'info', 'warn', 'error', 'off'], 'info'),
  /** Form of svc's own lines on standard error: `text`, or `json`, one object a line. */
  'svc.log.format': oneOf(['text', 'json'], 'text'),
  /** Longest wait at the end of the process for events under way. 0 waits for none. */
  'svc.shutdown.timeout-ms': ms(0, 10_000),
  /** How event ids are made: `snowflake` numbers, or `uuidv7`: UUIDs of version 7, which need no worker ids. */
  'svc.id-generator.type': oneOf(['snowflake', 'uuidv7'], 'snowflake'),
  /** Worker id inside Snowflake ids. Must differ between all processes that publish. */
  'svc.id-generator.worker-id': integer(0, 1023, {
    namesBothBounds: true,
    defaultText: 'derived, then leased, so that no two processes of a host share one',
  }),
  /** Folder in which processes of one host lease their worker ids. */
  'svc.id-generator.lease-path': text('path', {
    defaultText: 'a folder under the temporary folder of the system',
  }),
  /** Where a worker id is leased: in Kafka, so that no two processes of any hosts share one, or on the host. `auto`: in Kafka where events go to Kafka. */
  'svc.id-generator.lease': oneOf(['auto', 'host', 'kafka'], 'auto', {
    laterValues: {
      database: 'leases worker ids in the database of the outbox, and is not yet available in this version',
    },
  }),
  /** Group in Kafka whose members share the worker ids out among them. Needs the Read permission. */
  'svc.id-generator.group': text('text', { default: 'svc-workers' }),
} as const satisfies Rows;

/** Where events go, how they get there, and what becomes of those that their topic did not take. */
const brokerOptions = {
  /** What sends the events: `kafkajs` or `platformatic` (package `@platformatic/kafka`) to Kafka, `file` to a file per topic on this machine, `memory` keeps them for tests. */
  'svc.broker.client': oneOf(['kafkajs', 'platformatic', 'file', 'memory'], undefined, {
    registeredBy: 'registerBroker',
    defaultText: 'kafkajs where svc.broker.bootstrap-servers is set, else file',
  }),
  /** Addresses of Kafka brokers, each host:port. */
  'svc.broker.bootstrap-servers': list('host-and-port', [], { aliases: ['KAFKA_BROKERS'] }),
  /** Topic of every event whose target names none. */
  'svc.broker.topic': text('topic', { defaultText: 'none: required' }),
  /** Client id as the brokers see it in their logs, metrics and quotas. */
  'svc.broker.client-id': text('text', { default: 'svc' }),
  /** false: an async function resolves when its event is acknowledged, after `svc.broker.max-wait-ms` at the latest. true: nothing waits. Synchronous functions never wait. */
  'svc.broker.async-mode': flag(false),
  /** Longest wait of a captured call for the outcome of its event. Then the call returns what it returned, and the event goes on in the background; with `failOnError` it fails with `TimeoutException` (`SVC_PUBLISH_TIMEOUT`), and the event may still arrive. */
  'svc.broker.max-wait-ms': ms(1, 2_000),
  /** Longest wait for the answer of a broker to one request. */
  'svc.broker.request-timeout-ms': ms(1, 30_000),
  /** Longest wait for a connection to a broker. */
  'svc.broker.connection-timeout-ms': ms(1, 3_000),
  /** Who confirms an event before it counts as published: `all` replicas in sync, the leader alone (`1`), or nobody (`0`). Less than `all` loses events when a broker fails, and nothing tells of those lost. */
  'svc.broker.acks': oneOf(['all', '1', '0'], 'all'),
  /** Each batch has a number by which Kafka stores it once, however often it is sent (an idempotent producer). Needs `svc.broker.acks: all`. false: a batch whose answer was lost may be stored twice. */
  'svc.broker.idempotence': flag(true),
  /** How a send is compressed. `snappy` and `lz4` only with client `platformatic`; recovery reads all of them. */
  'svc.broker.compression': oneOf(compressions, 'none'),
  /** Sends to the broker at once, each a batch for one partition. Further events wait in the buffer. */
  'svc.broker.max-in-flight': integer(1, 1_000, { unit: 'sends', default: 8 }),
  /** Events in memory until they are acknowledged. One more goes to the next tier at once. */
  'svc.broker.buffer.max-events': integer(1, 1_000_000, { unit: 'events', default: 10_000 }),
  /** Bytes of events in memory until they are acknowledged. What exceeds them goes to the next tier at once. */
  'svc.broker.buffer.max-bytes': integer(1024 ** 2, 1024 ** 3, { unit: 'bytes', default: 32 * 1024 ** 2 }),
  /** Events in one send. */
  'svc.broker.batch.max-events': integer(1, 5_000, { unit: 'events', default: 500 }),
  /** Bytes in one send; a larger event is sent alone. Keep it below message.max.bytes of the brokers (1 MB by default). */
  'svc.broker.batch.max-bytes': integer(1024, 100 * 1024 ** 2, { unit: 'bytes', default: 900_000 }),
  /** How long an event waits at most for others to share its send, where its partition is busy or was sent to within that time; 5 ms where the last send was of one event. Then small sends to several partitions of a topic leave one after the other, within as long again. None waits where the partition has rested, or where 100 events or 128 KiB are there. With svc.broker.async-mode false: 2 ms where the last send was of 10 events or more, otherwise none. */
  'svc.broker.batch.linger-ms': integer(0, 60_000, { unit: 'ms', default: 20 }),
  /** What an event may take in all, retries among it. The last two seconds (a quarter of less than eight) are for the dead letter topic and the backup, where it goes when its topic has not acknowledged it by then. */
  'svc.broker.delivery-timeout-ms': ms(1, 30_000),
  /** Folder of the topic files of client `file`: `<path>/<topic>.ndjson`, one record a line. */
  'svc.broker.file.path': text('path', { default: './svc-topics' }),
  /** Encrypts the connection to the brokers. */
  'svc.broker.tls.enabled': flag(false),
  /** PEM file with the authorities to trust instead. */
  'svc.broker.tls.ca-file': text('path', { defaultText: 'the authorities that Node trusts' }),
  /** PEM file with the client certificate. Needs svc.broker.tls.key-file. */
  'svc.broker.tls.cert-file': text('path'),
  /** PEM file with the key of the client certificate. */
  'svc.broker.tls.key-file': text('path'),
  /** Name that the certificate of the broker must bear. */
  'svc.broker.tls.server-name': text('text', { defaultText: 'the host of the broker' }),
  /** How svc signs in to the brokers. `oauthbearer` takes a token, the others username and password. */
  'svc.broker.sasl.mechanism': oneOf(saslMechanisms),
  /** Name to sign in with. */
  'svc.broker.sasl.username': text('text'),
  /** Password to sign in with. Better as an environment variable than in a file. */
  'svc.broker.sasl.password': secret(),
  /** Where svc gets its tokens (OAuth client credentials), and new ones before they expire. Needs client-id and client-secret. */
  'svc.broker.sasl.oauthbearer.token-endpoint-url': text('url'),
  /** Client id at the token endpoint. */
  'svc.broker.sasl.oauthbearer.client-id': text('text'),
  /** Client secret at the token endpoint. Better as an environment variable than in a file. */
  'svc.broker.sasl.oauthbearer.client-secret': secret(),
  /** Scope to ask the token endpoint for. */
  'svc.broker.sasl.oauthbearer.scope': text('text'),
  /** File with the token, instead of an endpoint. Read again for each connection, as Kubernetes renews it. */
  'svc.broker.sasl.oauthbearer.token-file': text('path'),
  /** The token itself, instead of an endpoint. It is not renewed. */
  'svc.broker.sasl.oauthbearer.token': secret(),
  /** SASL extensions that go with the token, each name=value, such as logicalCluster=lkc-1. */
  'svc.broker.sasl.oauthbearer.extensions': list('name-and-value', []),
  /** Retries failed sends. When false a failed event goes to the next tier at once. */
  'svc.retry.enabled': flag(true),
  /** Retries after the first try, which is immediate. Events behind wait, so that their order is kept. */
  'svc.retry.max-attempts': integer(1, 100, { default: 3 }),
  /** Wait before the first retry. */
  'svc.retry.initial-interval': ms(1, 1_000),
  /** Growth of the wait from one retry to the next: 1 s, 2 s, 4 s by default. */
  'svc.retry.multiplier': { type: 'number', min: 1, max: 100, default: 2 },
  /** Longest wait between retries. */
  'svc.retry.max-interval': ms(1, 10_000),
  /** Makes each wait up to 20 % shorter or longer, so that many processes do not come back at once. */
  'svc.retry.jitter': flag(false),
  /** Dead letter topic of events that could not be sent. */
  'svc.broker.dlq-topic': text('topic', { defaultText: 'none: events go to the backup' }),
  /** Form of a dead letter: `operations` holds the event as a text, `recovery` as an object. `svc dlq` reads both. */
  'svc.broker.dlq-format': oneOf(['operations', 'recovery'], 'operations'),
  /** Folder of local backup files. Made when it is needed, open to its owner only (0700). */
  'svc.broker.dlq-backup-path': text('path', { default: './dlq-backup' }),
  /** Backup to local files, after S3 where that is enabled too. */
  'svc.broker.backup.local-enabled': flag(true),
  /** Backup to S3 or a compatible object store. Needs the package @aws-sdk/client-s3. */
  'svc.broker.backup.s3-enabled': flag(false),
  /** Bucket of the S3 backup. */
  'svc.broker.backup.s3-bucket': text('text'),
  /** Prefix of the object keys: `<prefix>/yyyy/MM/dd/<eventId>.json`. */
  'svc.broker.backup.s3-prefix': { type: 'string', default: 'dlq-backup' },
  /** Region of the bucket. Credentials are found by the AWS SDK as well. */
  'svc.broker.backup.s3-region': text('text', {
    defaultText: 'as the AWS SDK finds it (AWS_REGION, profile)',
  }),
  /** Address of a compatible store such as MinIO or Ceph; buckets are then named in the path. */
  'svc.broker.backup.s3-endpoint': text('url', { defaultText: 'AWS' }),
  /** What the local backup is written as. `journal`: segments, that many events share and that keep their order. `event`, `record`: a file an event, as long as few come at once: the event itself (`<eventId>.json`), or the event with reason and time (`<epoch_millis>.json`); no order is kept then. */
  'svc.broker.backup.format': oneOf(['journal', 'event', 'record'], 'journal'),
  /** Event files in the folder, with `format: event` or `record`. Further events are appended to segments. */
  'svc.broker.backup.max-files': integer(0, 1_000_000, { unit: 'files', default: 10_000 }),
  /** Most that the local backup may hold. Further events are lost, with the alert. */
  'svc.broker.backup.max-bytes': integer(1, 1024 ** 5, { unit: 'bytes', default: 10 * 1024 ** 3 }),
  /** When the cluster is back, a running process sends its local backup to the original topics by itself. */
  'svc.broker.backup.drain.enabled': flag(true),
  /** How many events of the backup are sent a second. With `drain.order: key` only those that a process left which is gone, and that no new event waits behind; the others are sent as fast as the cluster takes them. */
  'svc.broker.backup.drain.rate': integer(1, 1_000_000, { unit: 'events/s', default: 500 }),
  /** Whether events keep the order of their key over an outage. `key`: while events of a partition wait in the local backup, later ones of it go behind them. `none`: later ones go to the topic at once, and those in the backup arrive after them. */
  'svc.broker.backup.drain.order': oneOf(['key', 'none'], undefined, {
    defaultText: '`key`; `none` where `svc.broker.backup.format` is `event` or `record`',
  }),
} as const satisfies Rows;

/** What an event knows of the request that caused it. */
const contextOptions = {
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

/** The management server. */
const managementOptions = {
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

/** Events that wait in a table of the application's database, and what sends them from there. */
const outboxOptions = {
  /** Transactional outbox: targets with `outbox` store their events in the transaction of the call, and they are sent from there. */
  'svc.outbox.enabled': flag(false),
  /** Database of the outbox table, which is that of the application: svc opens connections of its own to it. */
  'svc.outbox.datasource.url': secret('datasource-url', {
    shared: { variable: 'DATABASE_URL', switch: 'svc.outbox.enabled' },
    defaultText: 'the variable `DATABASE_URL`',
  }),
  /** Table of the outbox; with its schema as in `app.svc_outbox_events`. */
  'svc.outbox.table': text('table', { default: 'svc_outbox_events' }),
  /** When svc makes the table where there is none: `embedded` in SQLite only, `always`, or `never`. Else a missing table is an error. */
  'svc.outbox.initialize-schema': oneOf(['embedded', 'always', 'never'], 'embedded'),
  /** What becomes of a call outside any transaction: `autocommit` stores its event by itself, right after the call, and says so once for each event type; `error` lets the call fail, though what it wrote stays. So of a call whose own transaction commits before what it returns is known. */
  'svc.outbox.on-no-transaction': oneOf(['error', 'autocommit'], 'autocommit'),
  /** Sends the rows from this process; false leaves that to `svc relay`, or to another tool such as Debezium. */
  'svc.outbox.publisher-enabled': flag(true),
  /** Wait between two looks at the table. */
  'svc.outbox.poll-interval-ms': ms(1, 1_000),
  /** Rows taken at once. */
  'svc.outbox.batch-size': integer(1, 1_000, { unit: 'rows', default: 100 }),
  /** More rows are taken at once while many wait. */
  'svc.outbox.dynamic-batching-enabled': flag(true),
  /** Tries of one row that may fail by its own fault; then it is FAILED. While the broker is away no row loses a try. */
  'svc.outbox.max-retries': integer(1, 1_000, { default: 3 }),
  /** What becomes of the later rows of an aggregate that has a FAILED one: `skip` sends them, `block` keeps them back until that row is retried or discarded. */
  'svc.outbox.on-failed': oneOf(['skip', 'block'], 'skip'),
  /** Longest wait for one send. */
  'svc.outbox.send-timeout-seconds': integer(1, 86_400, { unit: 's', default: 10 }),
  /** Stops sending while the broker is away. */
  'svc.outbox.circuit-breaker-enabled': flag(true),
  /** Deletes rows whose time is over: svc.outbox.retention-days, svc.outbox.failed-retention-days. */
  'svc.outbox.cleanup-enabled': flag(false),
  /** How long published rows are kept, with svc.outbox.cleanup-enabled. 0, also without it: a row is deleted as soon as it is sent; where svc.outbox.publisher-enabled is false, in the transaction that wrote it (docs/debezium.md). */
  'svc.outbox.retention-days': integer(0, 36_500, { unit: 'days', default: 7 }),
  /** How long rows are kept that are FAILED, with svc.outbox.cleanup-enabled. */
  'svc.outbox.failed-retention-days': integer(1, 36_500, { unit: 'days', default: 30 }),
} as const satisfies Rows;

/** Protection of personal data: which fields, with which keys. */
const piiOptions = {
  /** Protects what is marked, by rules here and by `@PiiField`. When false everything is published as it is. */
  'svc.pii.enabled': flag(true),
  /** Rules for fields of all payloads: `customer.email`, `items[*].phone`, `**.ssn` (at any depth), each as a path, as `path=TYPE:STRATEGY:LEVEL`, or as `{ path, type, strategy, level, keyId, masker }`. */
  'svc.pii.fields': { type: 'rules', default: [] },
  /** `report` warns once of each path whose values look like personal data (e-mail, phone, card, IBAN) and carry no mark. Costs time: for tests and staging. */
  'svc.pii.detect': oneOf(['off', 'report'], 'off'),
  /** Key of ENCRYPT: Base64 of 32 bytes (or 32 characters). Its id is `default`. */
  'svc.pii.crypto.default-key': secret('text', { aliases: ['PII_ENCRYPTION_KEY'] }),
  /** Further keys, for rotation: a list of `{ id, key, status }`. The one with status `primary` encrypts; those with `decrypt` encrypt nothing any more. */
  'svc.pii.crypto.keys': { type: 'keys', secret: true },
  /** Key of HASH: 16 random bytes or more. */
  'svc.pii.crypto.salt': secret('text', {
    aliases: ['PII_HASH_SALT'],
    defaultText: 'a public text, with a security warning; none in production',
  }),
  /** Refuses to start when a rule hashes and no salt is configured. */
  'svc.pii.crypto.require-salt': flag(undefined, { defaultText: '`true` where NODE_ENV is `production`' }),
  /** Layout of ciphertexts. `specification` is read by other languages; `v1` adds the key id, and opens only in the field it was written to. */
  'svc.pii.crypto.format': oneOf(['specification', 'v1'], 'specification'),
  /** Takes the keys of ENCRYPT from a key management service instead of `svc.pii.crypto`. */
  'svc.pii.kms.enabled': flag(false),
  /** AWS KMS (install `@aws-sdk/client-kms`), or HashiCorp Vault and OpenBao. */
  'svc.pii.kms.type': oneOf(['aws', 'vault'], undefined, { registeredBy: 'registerKeyProvider' }),
  /** What becomes of events while their key cannot be had: `refuse`, or `hold` in memory until it can, as many as `svc.broker.buffer.max-events` and each for `svc.broker.delivery-timeout-ms`; later events wait behind them. Events of the outbox are refused, as their transaction cannot wait. */
  'svc.pii.kms.on-unavailable': oneOf(['refuse', 'hold'], 'refuse'),
  /** What the service calls each key, by the `keyId` of rules: `{ customer: arn:… }`. Of a list the first makes new keys. Default: the same name. */
  'svc.pii.kms.keys': { type: 'names' },
  /** Region of the keys. */
  'svc.pii.kms.aws.region': text('text', { defaultText: 'as the AWS SDK finds it' }),
  /** A VPC endpoint, or a test server. */
  'svc.pii.kms.aws.endpoint': text('url'),
  /** Key of rules without `keyId`: ARN, key id or `alias/…`. */
  'svc.pii.kms.aws.default-key-arn': text('text'),
  /** Bound to each data key and shown in CloudTrail; readers must give the same. Not secret. */
  'svc.pii.kms.aws.encryption-context': { type: 'names' },
  /** How long a key is used before it is replaced, in the background. */
  'svc.pii.kms.aws.dek-cache-ttl-ms': integer(1_000, 86_400_000, { unit: 'ms', default: 300_000 }),
  /** Keys that are kept; the oldest one goes first. */
  'svc.pii.kms.aws.dek-cache-max-size': integer(1, 10_000, { default: 100 }),
  /** Address of the server. `http:` only on loopback. */
  'svc.pii.kms.vault.address': text('url', { aliases: ['VAULT_ADDR'], default: 'https://127.0.0.1:8200' }),
  /** Token to read keys with. */
  'svc.pii.kms.vault.token': secret('token', { aliases: ['VAULT_TOKEN'] }),
  /** File that holds the token, read at each call: an agent may renew it. */
  'svc.pii.kms.vault.token-file': text('path'),
  /** Namespace of the server. */
  'svc.pii.kms.vault.namespace': text('text', { aliases: ['VAULT_NAMESPACE'] }),
  /** `kv` (as `kv-v2`) and `kv-v1`: a K/V store holds the keys. `transit`: the server makes data keys (envelope encryption). */
  'svc.pii.kms.vault.mode': oneOf(['kv', 'kv-v1', 'kv-v2', 'transit'], 'kv'),
  /** Where the engine is mounted. */
  'svc.pii.kms.vault.mount-path': text('text', { defaultText: '`secret`, for Transit `transit`' }),
  /** Key of rules without `keyId`: path of the secret below the mount, or name of the Transit key. */
  'svc.pii.kms.vault.default-key-path': text('text'),
  /** Field of the secret that holds the key: Base64 of 32 bytes. */
  'svc.pii.kms.vault.field': text('text', { default: 'key' }),
  /** PEM file of the authorities to trust. */
  'svc.pii.kms.vault.ca-file': text('path', { defaultText: 'the authorities that Node trusts' }),
  /** How long a key is used before it is replaced, in the background. */
  'svc.pii.kms.vault.dek-cache-ttl-ms': integer(1_000, 86_400_000, { unit: 'ms', default: 300_000 }),
  /** Keys that are kept; the oldest one goes first. */
  'svc.pii.kms.vault.dek-cache-max-size': integer(1, 10_000, { default: 100 }),
} as const satisfies Rows;

/** The form of record values. */
const serdeOptions = {
  /** Form of the record value: `JSON`, or `AVRO` in the wire format of Confluent, with schemas in a registry (install `avsc`). */
  'svc.serde.type': oneOf(['JSON', 'AVRO'], 'JSON'),
  /** What surrounds the payload: `svc`, the envelope of svc, or `cloudevents`: CloudEvents 1.0, the payload as their `data`. */
  'svc.serde.envelope': oneOf(['svc', 'cloudevents'], 'svc'),
  /** Mode of the Kafka protocol binding of CloudEvents: `binary`, attributes in headers and the payload as value, or `structured`, all in the value. */
  'svc.serde.cloudevents.mode': oneOf(['binary', 'structured'], 'binary'),
  /** Attribute `source` of CloudEvents: a URI-reference, such as `https://example.com/orders`. */
  'svc.serde.cloudevents.source': text('uri-reference', { defaultText: '`/` and the name of the service' }),
  /** Schema registry with the API of Confluent, such as `https://registry.example.com:8081`. Required for `AVRO`. */
  'svc.serde.schema-registry-url': text('url', { aliases: ['SCHEMA_REGISTRY_URL'] }),
  /** User of the registry, or its API key (basic authentication). */
  'svc.serde.schema-registry-username': text('text'),
  /** Password of that user, or the secret of the API key. */
  'svc.serde.schema-registry-password': secret(),
  /** Token for the registry (bearer authentication). */
  'svc.serde.schema-registry-token': secret('token'),
  /** File that holds the token, read at each request: an agent may renew it. */
  'svc.serde.schema-registry-token-file': text('path'),
  /** PEM file of the authorities to trust. */
  'svc.serde.schema-registry-ca-file': text('path', { defaultText: 'the authorities that Node trusts' }),
  /** Files with the Avro schema of the payload, by event type: `{ ORDER_CREATED: schemas/order.avsc }`. The payload of other types is JSON in a string. */
  'svc.serde.schemas': { type: 'names' },
  /** Subject of a schema: `topic` (`<topic>-value`, for topics with one event type), `record` (its full name), or both. */
  'svc.serde.subject-name-strategy': oneOf(['topic', 'record', 'topic-record'], 'topic-record'),
  /** Registers schemas that the registry lacks. When false they must be there. */
  'svc.serde.auto-register': flag(true),
  /** Where events go whose schema id is not known yet, while the registry is away: `wait` in memory while `svc.retry` tries again, then in the backup, or straight in the `backup`: as JSON, which is encoded once the registry answers. */
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

/** As it stands there, for the types of the values. */
export type OptionTable = typeof table;

/** Every option there is, `svc.targets` apart: the only list, read by validation, documentation and JSON Schema. */
export const options: readonly Option[] = Object.entries<Row>(table).map(([name, row]) => ({ name, ...row }));

/** The list of publish targets: a name like the options', with checks of its own (`target.ts`). */
export const targetsName = 'svc.targets';

const byName: ReadonlyMap<string, Option> = new Map(options.map((option) => [option.name, option]));

const sections: ReadonlySet<string> = sectionsOf(options);

export function optionNamed(name: string): Option | undefined {
  return byName.get(name);
}

/** True for `svc.broker`, which holds options but is none. */
export function isSection(name: string): boolean {
  return sections.has(name);
}

/** Whatever a user can write a name for: options, sections and `svc.targets`. */
export function knownNames(): string[] {
  return [...byName.keys(), targetsName, ...sections];
}

/** Each process makes them as it starts: the loop costs a tenth of what splitting all names does. */
function sectionsOf(all: readonly Option[]): Set<string> {
  const found = new Set<string>();
  for (const { name } of all)
    for (let dot = name.indexOf('.'); dot > 0; dot = name.indexOf('.', dot + 1))
      found.add(name.slice(0, dot));
  return found;
}
