import { flag, integer, ms, oneOf, type Rows, text } from './option.ts';

/** Switches, identity, logging, end of the process, event ids. */
export const serviceOptions = {
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
