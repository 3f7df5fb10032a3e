import { maxTimerMs, type Option } from './option.ts';

const noOutbox =
  'the transactional outbox is not yet available in this version, and a direct send would not be part of the transaction';

/** Known names whose feature comes with a later version. They are checked already, so that a file stays valid. */
export const laterOptions = [
  flag('svc.outbox.enabled', 'Transactional outbox.', {
    default: false,
    harmless: [false],
    refused: noOutbox,
  }),
  flag('svc.outbox.publisher-enabled', 'Publishes the rows; false leaves that to another tool.', {
    default: true,
  }),
  number('svc.outbox.poll-interval-ms', 'Wait between two looks at the table.', waits(1_000)),
  number('svc.outbox.batch-size', 'Rows taken at once.', { unit: 'rows', min: 1, max: 1_000, default: 100 }),
  number('svc.outbox.max-retries', 'Tries of one row.', { min: 1, max: 1_000, default: 3 }),
  number('svc.outbox.send-timeout-seconds', 'Longest wait for one send.', {
    unit: 's',
    min: 1,
    max: 86_400,
    default: 10,
  }),
  flag('svc.outbox.cleanup-enabled', 'Deletes old published rows.', { default: false, harmless: [false] }),
  number('svc.outbox.retention-days', 'Age at which published rows are deleted.', {
    unit: 'days',
    min: 1,
    max: 36_500,
    default: 7,
  }),
  flag('svc.outbox.dynamic-batching-enabled', 'Batch size follows the depth of the queue.', {
    default: true,
  }),
  flag('svc.outbox.circuit-breaker-enabled', 'Stops sending while the broker is away.', { default: true }),
  {
    ...text('svc.outbox.on-no-transaction', 'What an outbox call outside any transaction does.', {
      default: 'error',
    }),
    type: 'enum',
    values: ['error', 'autocommit'],
  },
  {
    ...text('svc.serde.type', 'Form of the record value.', { default: 'JSON', harmless: ['JSON'] }),
    type: 'enum',
    values: ['JSON'],
    laterValues: { AVRO: 'Avro is not yet available in this version' },
  },
  text('svc.serde.schema-registry-url', 'Schema registry for Avro.', { format: 'url' }),
] as const satisfies readonly Option[];

type Rest = Partial<Omit<Option, 'name' | 'type' | 'description' | 'status'>>;

function text(name: string, description: string, rest: Rest = {}): Option {
  return { name, type: 'string', description, status: 'later', ...rest };
}

function flag(name: string, description: string, rest: Rest = {}): Option {
  return { name, type: 'boolean', description, status: 'later', ...rest };
}

function number(name: string, description: string, rest: Rest): Option {
  return { name, type: 'integer', description, status: 'later', ...rest };
}

function waits(defaultMs: number): Rest {
  return { unit: 'ms', min: 1, max: maxTimerMs, default: defaultMs };
}
