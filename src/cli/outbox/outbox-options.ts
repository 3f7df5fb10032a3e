import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { type RowFilter, type RowStatus, rowStatuses } from '../../outbox/outbox-store.ts';
import { timeOf, WrongUse } from '../recovery-options.ts';

const filterOptions = {
  type: { type: 'string' },
  topic: { type: 'string' },
  'aggregate-type': { type: 'string' },
  'aggregate-id': { type: 'string' },
  status: { type: 'string', multiple: true },
  since: { type: 'string' },
  before: { type: 'string' },
  limit: { type: 'string' },
} as const satisfies ParseArgsOptionsConfig;

export const commonOptions = {
  config: { type: 'string' },
  json: { type: 'boolean' },
} as const satisfies ParseArgsOptionsConfig;

const ownOptions = {
  'dry-run': { type: 'boolean' },
  all: { type: 'boolean' },
  broker: { type: 'string' },
  after: { type: 'string' },
  dialect: { type: 'string' },
  table: { type: 'string' },
  role: { type: 'string', multiple: true },
  from: { type: 'string' },
  partitioned: { type: 'boolean' },
} as const satisfies ParseArgsOptionsConfig;

export type OwnOption = keyof typeof ownOptions;

export interface OutboxOptions {
  readonly config: string | undefined;
  readonly isJson: boolean;
  readonly isDryRun: boolean;
  readonly isAll: boolean;
  readonly broker: string | undefined;
  readonly dialect: string | undefined;
  readonly table: string | undefined;
  readonly roles: readonly string[];
  /** The version that the tables have already. */
  readonly from: number;
  readonly isPartitioned: boolean;
  readonly filter: RowFilter;
  /** Whether a filter was given; a limit is none. */
  readonly isFiltered: boolean;
  /** Only rows with a larger id; 0: all. */
  readonly after: number;
  /** Rows at most. */
  readonly limit: number | undefined;
}

/**
 * What a command of `svc outbox` understands: `--config` and `--json` always, filters where it has them, and `own`.
 *
 * @throws WrongUse
 */
export function parseOutboxOptions(
  args: readonly string[],
  { hasFilters, own = [] }: { readonly hasFilters: boolean; readonly own?: readonly OwnOption[] },
): OutboxOptions {
  const values = valuesOf(args, {
    ...commonOptions,
    ...(hasFilters ? filterOptions : {}),
    ...Object.fromEntries(own.map((name) => [name, ownOptions[name]])),
  });
  const text = (name: string): string | undefined => values[name] as string | undefined;
  const texts = (name: string): readonly string[] => (values[name] as string[] | undefined) ?? [];
  const filter = filterOf(text, texts('status'));
  return {
    config: text('config'),
    isJson: values.json === true,
    isDryRun: values['dry-run'] === true,
    isAll: values.all === true,
    broker: text('broker'),
    dialect: text('dialect'),
    table: text('table'),
    roles: texts('role'),
    from: versionOf(text('from')),
    isPartitioned: values.partitioned === true,
    filter,
    isFiltered: Object.keys(filter).length > 0,
    after: afterOf(text('after')),
    limit: limitOf(text('limit')),
  };
}

/** @throws WrongUse */
export function valuesOf(args: readonly string[], options: ParseArgsOptionsConfig): Record<string, unknown> {
  try {
    return parseArgs({ args: [...args], options }).values;
  } catch (error) {
    throw new WrongUse((error as Error).message);
  }
}

function filterOf(text: (name: string) => string | undefined, statuses: readonly string[]): RowFilter {
  const [eventType, topic] = [text('type'), text('topic')];
  const [aggregateType, aggregateId] = [text('aggregate-type'), text('aggregate-id')];
  const [since, before] = [timeOf('since', text('since')), timeOf('before', text('before'))];
  if (since !== undefined && before !== undefined && since >= before)
    throw new WrongUse('--since is not before --before');
  return {
    ...(eventType !== undefined && { eventType }),
    ...(topic !== undefined && { topic }),
    ...(aggregateType !== undefined && { aggregateType }),
    ...(aggregateId !== undefined && { aggregateId }),
    ...(statuses.length > 0 && { statuses: statuses.map(statusOf) }),
    ...(since !== undefined && { since }),
    ...(before !== undefined && { before }),
  };
}

function statusOf(text: string): RowStatus {
  const status = rowStatuses.find((each) => each === text.toUpperCase());
  if (status === undefined) throw new WrongUse(`--status takes ${rowStatuses.join(', ')}`);
  return status;
}

function versionOf(text: string | undefined): number {
  if (text === undefined) return 0;
  if (!/^[1-9]\d{0,5}$/.test(text))
    throw new WrongUse('--from takes the version that the tables have, which svc outbox check says');
  return Number(text);
}

function afterOf(text: string | undefined): number {
  const after = Number(text ?? 0);
  if (!Number.isSafeInteger(after) || after < 0)
    throw new WrongUse('--after takes the number that a replay which was stopped has named');
  return after;
}

function limitOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const limit = Number(text);
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw new WrongUse('--limit takes a number of events, an integer from 1');
  return limit;
}
