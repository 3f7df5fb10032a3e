import { flag, integer, ms, oneOf, type Rows, text } from './option.ts';

/** Switches, identity, logging, end of the process, event ids. */
export const serviceOptions = {
  /** Switches svc on. If false, svc patches and loads nothing. */
  'svc.enabled': flag(true),
  /** If true, the process doesn't start without svc: it ends with exit code 78 and logs why. Reasons: an invalid configuration, an old Node, or a target that can't be patched or whose compiled file is loaded in its place. In the environment, it applies even if the configuration file can't be read. */
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
      database: 'leases worker ids in the database of the outbox, and is not yet available in this version',
    },
  }),
  /** Kafka group whose members share out the worker ids. Needs the Read permission. */
  'svc.id-generator.group': text('text', { default: 'svc-workers' }),
} as const satisfies Rows;
