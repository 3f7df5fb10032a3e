import { maxTimerMs, type Option } from './option.ts';

/** Switches, identity, logging, end of the process, event ids. */
export const serviceOptions = [
  {
    name: 'svc.enabled',
    type: 'boolean',
    default: true,
    description: 'Switches svc on. When false nothing is patched and nothing is loaded.',
  },
  {
    name: 'svc.required',
    type: 'boolean',
    default: false,
    description:
      'When true the process does not start where svc cannot work: it ends with exit code 78 and a line that says why (a wrong configuration, a Node that is too old, a target that cannot be patched, or whose compiled file is loaded in its place). In the environment it counts even where the file cannot be read.',
  },
  {
    name: 'svc.aop.enabled',
    type: 'boolean',
    default: true,
    description:
      'Captures calls. When false only what the application publishes itself with publish() becomes an event.',
  },
  {
    name: 'svc.service.name',
    type: 'string',
    format: 'text',
    defaultText:
      'OTEL_SERVICE_NAME, service.name of OTEL_RESOURCE_ATTRIBUTES, name in package.json of the application',
    description: 'Name of the service in `metadata.source.serviceName`.',
  },
  {
    name: 'svc.service.version',
    type: 'string',
    format: 'text',
    defaultText: 'service.version of OTEL_RESOURCE_ATTRIBUTES, version in package.json of the application',
    description:
      'Version of the service in `metadata.source.serviceVersion`. In YAML in quotes when it looks like a number.',
  },
  {
    name: 'svc.telemetry.sdk',
    type: 'enum',
    values: ['none', 'node'],
    default: 'none',
    description:
      "`node`: svc starts `@opentelemetry/sdk-node`, as the variables `OTEL_*` say, with the application's instrumentations. `none`: spans and metrics go to the SDK that the application starts, if any.",
  },
  {
    name: 'svc.log.level',
    type: 'enum',
    values: ['debug', 'info', 'warn', 'error', 'off'],
    default: 'info',
    description: "Least level of svc's own lines on standard error.",
  },
  {
    name: 'svc.log.format',
    type: 'enum',
    values: ['text', 'json'],
    default: 'text',
    description: "Form of svc's own lines on standard error: `text`, or `json`, one object a line.",
  },
  {
    name: 'svc.shutdown.timeout-ms',
    type: 'integer',
    unit: 'ms',
    min: 0,
    max: maxTimerMs,
    default: 10_000,
    description: 'Longest wait at the end of the process for events under way. 0 waits for none.',
  },
  {
    name: 'svc.id-generator.type',
    type: 'enum',
    values: ['snowflake', 'uuidv7'],
    default: 'snowflake',
    description:
      'How event ids are made: `snowflake` numbers, or `uuidv7`: UUIDs of version 7, which need no worker ids.',
  },
  {
    name: 'svc.id-generator.worker-id',
    type: 'integer',
    min: 0,
    max: 1023,
    namesBothBounds: true,
    defaultText: 'derived, then leased, so that no two processes of a host share one',
    description: 'Worker id inside Snowflake ids. Must differ between all processes that publish.',
  },
  {
    name: 'svc.id-generator.lease-path',
    type: 'string',
    format: 'path',
    defaultText: 'a folder under the temporary folder of the system',
    description: 'Folder in which processes of one host lease their worker ids.',
  },
  {
    name: 'svc.id-generator.lease',
    type: 'enum',
    values: ['auto', 'host', 'kafka'],
    laterValues: {
      database: 'leases worker ids in the database of the outbox, and is not yet available in this version',
    },
    default: 'auto',
    description:
      'Where a worker id is leased: in Kafka, so that no two processes of any hosts share one, or on the host. `auto`: in Kafka where events go to Kafka.',
  },
  {
    name: 'svc.id-generator.group',
    type: 'string',
    format: 'text',
    default: 'svc-workers',
    description:
      'Group in Kafka whose members share the worker ids out among them. Needs the Read permission.',
  },
] as const satisfies readonly Option[];
