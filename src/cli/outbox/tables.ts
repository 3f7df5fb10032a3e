import { loadConfig } from '../../config/read/load.ts';
import { SvcError } from '../../ground/errors.ts';
import { consoleLogger, type Logger } from '../../observe/logger.ts';
import { printable, printableJson } from '../../observe/printable.ts';
import { outboxDdl } from '../../start/adapters.ts';
import { inspectOutbox, type TablesReport } from '../../start/commands/inspect-outbox.ts';
import { useOutbox } from '../../start/outbox/use-outbox.ts';
import { type Dialect, dialectOf } from '../../transaction/dialect.ts';
import { WrongUse } from '../wrong-use.ts';
import { outboxConfig } from './outbox-config.ts';
import type { OutboxOptions } from './outbox-options.ts';
import { eventsOf } from './row-output.ts';

const dayMs = 86_400_000;

/** `svc outbox ddl`: the tables as SQL, without a connection. */
export async function runDdl(options: OutboxOptions): Promise<number> {
  // Whatever is wrong in the file: the URL and the table of it are but defaults.
  const { outbox } = loadConfig({ file: options.config }).config;
  const dialect = dialectNamed(options) ?? dialectOf(outbox.datasource.url ?? '');
  if (dialect === undefined)
    throw new WrongUse(
      'svc outbox ddl needs --dialect postgres, mysql or sqlite, where no file names a database',
    );
  const table = options.table ?? outbox.table;
  const { role = [], from = 0, partitioned } = options;
  const grants = rolesOf(role);
  if (dialect === 'sqlite' && role.length > 0) throw new WrongUse('SQLite has no roles: leave --role out');
  if (partitioned) refusePartitions(dialect);
  try {
    const sql = await outboxDdl(dialect, table, {
      ...{ grants, from },
      ...(partitioned && { partitionedFrom: Date.now() }),
    });
    process.stdout.write(options.json ? `${printableJson({ dialect, table, sql }, 2)}\n` : sql);
    return 0;
  } catch (error) {
    if (error instanceof SvcError && error.code === 'SVC_OUTBOX_URL') throw new WrongUse(error.message);
    throw error;
  }
}

function refusePartitions(dialect: Dialect): void {
  if (dialect !== 'postgres')
    throw new WrongUse(
      `--partitioned is for PostgreSQL: ${dialect === 'sqlite' ? 'SQLite has no partitions' : 'svc makes none in MySQL and MariaDB'}; leave it out`,
    );
}

function dialectNamed({ dialect }: OutboxOptions): Dialect | undefined {
  if (dialect === undefined) return undefined;
  const named = dialectOf(`${dialect}:`);
  if (named === undefined) throw new WrongUse('--dialect takes postgres, mysql or sqlite');
  return named;
}

function rolesOf(texts: readonly string[]): { application?: string; relay?: string } {
  const roles: { application?: string; relay?: string } = {};
  for (const text of texts.flatMap((each) => each.split(','))) {
    const [, role, name] = /^(app|relay)=(.+)$/.exec(text) ?? [];
    if (role === undefined || name === undefined)
      throw new WrongUse('--role takes app=<user>, relay=<user>, or both with a comma');
    roles[role === 'app' ? 'application' : 'relay'] = name;
  }
  return roles;
}

/** `svc outbox migrate`: makes or updates the tables, as a user who may; in partitions those of the next days as well. */
export async function runMigrate(options: OutboxOptions): Promise<number> {
  const config = outboxConfig(options);
  const { table, datasource, cleanupEnabled, retentionDays } = config.outbox;
  if (options.partitioned) refusePartitions(dialectOf(datasource.url ?? '') ?? 'postgres');
  let isChanged = false;
  // What a store has made or dropped, and nothing else of it, it says at this level.
  const info = (): void => {
    isChanged = true;
  };
  const logger: Logger = { ...consoleLogger('warn'), info };
  const keepMs = cleanupEnabled ? retentionDays * dayMs : Number.POSITIVE_INFINITY;
  const isPartitioned = await useOutbox(
    config,
    logger,
    async (store) => {
      await store.prepare();
      sayUnguarded(table, await store.missingGuard());
      return store.partition(keepMs);
    },
    { makesTables: true, partitioned: options.partitioned ?? false },
  );
  if (options.partitioned && !isPartitioned) {
    process.stderr.write(
      `svc: ${table} is there without partitions, and stays as it is: name another in svc.outbox.table, and let svc relay send what is left in this one\n`,
    );
    return 1;
  }
  if (options.json)
    process.stdout.write(`${printableJson({ table, changed: isChanged, partitioned: isPartitioned }, 2)}\n`);
  else
    process.stderr.write(
      isChanged
        ? `the tables of ${table} were made, as this version of svc needs them\n`
        : `the tables of ${table} are as this version of svc needs them: nothing to do\n`,
    );
  return 0;
}

/** `svc outbox check`: whether the tables are there, fit the settings, and the user of the configuration may do what a relay does. */
export async function runTableCheck(options: OutboxOptions): Promise<number> {
  const { guard, ...report } = await inspectOutbox(outboxConfig(options));
  const { table, problem } = report;
  const ok = problem === undefined;
  if (options.json) process.stdout.write(`${printableJson({ ok, ...report, ...(ok && { guard }) }, 2)}\n`);
  else process.stdout.write(formatTables(report));
  sayUnguarded(table, guard);
  return ok ? 0 : 1;
}

/** As `svc check --online` shows it, too. */
export function formatTables({ table, pending, warning, problem }: TablesReport): string {
  if (problem !== undefined) return `error: ${printable(problem)}\n`;
  const remark = warning === undefined ? '' : `warning: ${warning}\n`;
  if (pending === undefined) return remark;
  return `outbox: the tables of ${table} are as this version of svc needs them, and its user may use them; ${eventsOf(pending)} pending\n${remark}`;
}

/** MySQL and MariaDB make it by copying the table, which is not done to one of many rows while an application writes. */
export function sayUnguarded(table: string, guard: string | undefined): void {
  if (guard === undefined) return;
  process.stderr.write(
    `svc: warn: ${table} takes rows that no relay finds, which svc never writes; at a quiet time, when there are none, run: ${guard}\n`,
  );
}
