import type { Command, OptionValues } from 'commander';
import { formatProblem, type Problem } from '../config/check/check.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/read/load.ts';
import { optionNamed, targetsName } from '../config/schema/schema.ts';
import { nextTurn } from '../ground/builtins.ts';
import { SvcError } from '../ground/errors.ts';
import { consoleLogger, logger, printable, printableJson, useLogger } from '../observe/logger.ts';
import { pagesOf } from '../outbox/batches.ts';
import { erasesRows } from '../outbox/insert-row.ts';
import {
  type OutboxStore,
  type RowFilter,
  type RowStatus,
  rowStatuses,
  type StoredRow,
} from '../outbox/outbox-store.ts';
import { adapterModules } from '../start/adapters.ts';
import { inspectOutbox, type TablesReport } from '../start/commands/inspect.ts';
import { relayAlone, replayOutbox, useOutbox } from '../start/commands/outbox.ts';
import { attributeHeadersOf } from '../start/settings.ts';
import { type Dialect, dialectOf } from '../transaction/driver.ts';
import { brokerOption, onRequest, recoveryConfig, repeated, sinceText, timeOf } from './recovery.ts';
import {
  counted,
  createColumns,
  createProgress,
  does,
  group,
  onStopSignal,
  reportFailure,
  settingsInCode,
  WrongUse,
  warnOnly,
} from './terminal.ts';

async function runStats(options: OutboxOptions): Promise<number> {
  const config = outboxConfig(options);
  const found = await useOutbox(config, (store) => store.statistics());
  const { total, pending, published, failed, oldestPendingMs } = found;
  const avgProcessingTimeMs = found.avgProcessingTimeMs ?? 0;
  if (options.json) {
    const document = { total, pending, published, failed, avgProcessingTimeMs, oldestPendingMs };
    process.stdout.write(`${printableJson(document, 2)}\n`);
    return 0;
  }
  const oldest = oldestPendingMs === null ? '' : `, the oldest for ${Math.round(oldestPendingMs / 1_000)} s`;
  process.stdout.write(
    [
      `total      ${total}`,
      `pending    ${pending}${oldest}`,
      `published  ${published}${published > 0 ? `, after ${Math.round(avgProcessingTimeMs)} ms on average` : ''}`,
      `failed     ${failed}`,
      '',
    ].join('\n'),
  );
  return 0;
}

const dryRun = ['--dry-run', 'list the affected events, and change nothing'] as const;

/** `svc outbox …`, and `svc relay`, which sends its events. */
export function addOutbox(svc: Command): void {
  addTables(svc);
  addRelay(svc);
}

function addTables(svc: Command): void {
  const outbox = group(svc, 'outbox')
    .description('the table of the outbox: stats, list, replay, migrate, …')
    .addHelpText(
      'after',
      `
Exit codes: 0 done, 1 something is left or wrong, 2 wrong usage.
Ctrl-C stops after the current batch, and prints a summary.`,
    );
  const add = (name: string, text: string): Command => outbox.command(name).description(text);
  const runs = <O extends OptionValues>(command: Command, run: (options: O) => Promise<number>): Command =>
    does(command, (options: O) => run(options).catch(reportFailure));
  runs(add('stats', 'count the events in the table of the outbox, by status'), runStats);
  runs(withFilters(add('list', 'list events, oldest first, without their content')), runList);
  runs(
    withFilters(
      add(
        'replay',
        'send events to their topics again, whatever their status (needs --since); rows do not change',
      ),
    )
      .option('--after <number>', 'continue after this number, which a stopped replay prints', afterOf)
      .option(...dryRun)
      .option(...brokerOption),
    runReplay,
  );
  runs(
    withFilters(add('retry-failed', 'make FAILED events PENDING again, with all their tries')).option(
      ...dryRun,
    ),
    runRetryFailed,
  );
  runs(
    withFilters(add('discard', 'delete events: FAILED ones, unless --status is given'))
      .option('--all', 'every event, PENDING ones too; otherwise a filter is required')
      .option(...dryRun),
    runDiscard,
  );
  const partitioned = [
    '--partitioned',
    'create new tables with a partition for each day (PostgreSQL)',
  ] as const;
  runs(
    add('ddl', 'print the tables as SQL, with the permissions of two users; makes no connection')
      .option('--dialect <name>', 'postgres, mysql or sqlite (default: of svc.outbox.datasource.url)')
      .option('--table <name>', 'instead of svc.outbox.table')
      .option('--from <version>', 'print only what tables of this version lack', versionOf)
      .option(...partitioned)
      .option(
        '--role <app=user,relay=user>',
        'the user of the application, which inserts, and the user of svc.outbox.datasource.url',
        repeated,
      ),
    runDdl,
  );
  runs(
    add('migrate', 'create or update the tables, as the user of svc.outbox.datasource.url').option(
      ...partitioned,
    ),
    runMigrate,
  );
  runs(add('check', 'check the tables, and the permissions of a relay'), runTableCheck);
  runs(
    add(
      'debezium',
      "print the configuration of Debezium's connector, or the SQL it needs; makes no connection",
    )
      .option('--sql', 'print its SQL for the database instead of its configuration')
      .option('--name <name>', 'of the connector (default: svc-outbox)')
      .option(
        '--topic-prefix <prefix>',
        'prefix of its own topics, none of which holds events (default: its name)',
      )
      .option('--slot <name>', 'in PostgreSQL (default: svc_outbox)')
      .option('--publication <name>', 'in PostgreSQL (default: svc_outbox)')
      .option('--connector <kind>', 'postgres, mysql or mariadb (default: of svc.outbox.datasource.url)')
      .option('--user <user>', 'user with the right to replicate (default: the user of that URL)')
      .option(
        '--password <reference>',
        `where Kafka Connect finds the password (default: ${passwordReference})`,
      )
      .option('--header <name>', 'also this header, of targets in code; repeatable', repeated),
    runDebezium,
  );
}

const listLimit = 1_000;

async function runList(options: OutboxOptions): Promise<number> {
  return listRows(options, filterOf(options), options.limit ?? listLimit);
}

/** `svc outbox retry-failed`: makes FAILED rows PENDING, with all their tries. */
async function runRetryFailed(options: OutboxOptions): Promise<number> {
  if (options.status?.some((status) => status !== 'FAILED'))
    throw new WrongUse('svc outbox retry-failed handles FAILED events only: remove --status');
  const filter: RowFilter = { ...filterOf(options), statuses: ['FAILED'] };
  return changeRows(options, filter, (store, rows) => store.retry(rows), 'will be sent again', 'retried');
}

/** `svc outbox discard`: deletes rows; FAILED ones unless `--status` is given. */
async function runDiscard(options: OutboxOptions): Promise<number> {
  const { all } = options;
  const given = filterOf(options);
  const isFiltered = Object.keys(given).length > 0;
  if (all && isFiltered) throw new WrongUse('--all means every event: remove the filter');
  if (!all && !isFiltered) throw new WrongUse('svc outbox discard needs a filter, or --all for every event');
  const filter: RowFilter = all ? {} : { statuses: ['FAILED'], ...given };
  return changeRows(options, filter, (store, rows) => store.discard(rows), 'deleted', 'discarded');
}

async function changeRows(
  options: OutboxOptions,
  filter: RowFilter,
  change: (store: OutboxStore, rows: RowFilter) => Promise<number>,
  done: string,
  field: string,
): Promise<number> {
  const { limit = Number.POSITIVE_INFINITY } = options;
  if (options.dryRun) return listRows(options, filter, limit);
  const config = outboxConfig(options);
  const counter = createProgress(process.stderr);
  let count = 0;
  const isInterrupted = await stoppable(async (isStopped) => {
    try {
      await useOutbox(config, async (store) => {
        for await (const rows of pagesOf(store, filter, limit)) {
          await nextTurn();
          if (isStopped()) return;
          count += await change(store, { ...filter, ids: rows.map(({ id }) => id) });
          counter.show(count, undefined, done);
        }
      });
    } catch (error) {
      counter.end();
      process.stderr.write(`svc: ${counted(count)} ${done} before this:\n`);
      throw error;
    }
    return isStopped();
  }, sayStopping);
  counter.end();
  const stopped = isInterrupted ? onRequest : null;
  if (options.json) process.stdout.write(`${printableJson({ dryRun: false, [field]: count, stopped }, 2)}\n`);
  else
    process.stderr.write(
      `${counted(count)} ${done}\n${isInterrupted ? `${onRequest}: there may be more\n` : ''}`,
    );
  return isInterrupted ? 1 : 0;
}

/** Lists rows. Exit code 1: it was interrupted. */
async function listRows(options: OutboxOptions, filter: RowFilter, limit: number): Promise<number> {
  const config = outboxConfig(options);
  const documents: object[] = [];
  let count = 0;
  let hasMore = false;
  let isInterrupted = false;
  const table = createColumns(rowHead, (text) => process.stdout.write(text));
  await stoppable(
    async (isStopped) => {
      await useOutbox(config, async (store) => {
        // One row more than shown tells whether there are more.
        for await (const rows of pagesOf(store, filter, limit + 1, options.after)) {
          // With SQLite everything is synchronous, so signals arrive only between pages.
          await nextTurn();
          if (isStopped()) break;
          for (const row of rows) {
            if (count === limit) hasMore = true;
            else if (options.json) documents.push(rowDocument(row));
            else table.add(rowColumns(row));
            if (!hasMore) count++;
          }
        }
        isInterrupted = isStopped();
      });
    },
    () => {},
  );
  if (options.json) {
    const stopped = isInterrupted ? onRequest : null;
    const document = { dryRun: true, matched: count, more: hasMore, stopped, events: documents };
    process.stdout.write(`${printableJson(document, 2)}\n`);
  } else {
    table.end();
    const more = hasMore ? ', and there are more: use a larger --limit' : '';
    process.stderr.write(
      `${counted(count)}${more}\n${isInterrupted ? `${onRequest}: there may be more\n` : ''}`,
    );
  }
  return isInterrupted ? 1 : 0;
}

/** As in `POST /actuator/svc-outbox`. */
const defaultLimit = 1_000;

/** `svc outbox replay`: sends events again, whatever their status. Rows do not change. */
async function runReplay(options: OutboxOptions): Promise<number> {
  const { since: sinceMs, ...filter } = filterOf(options);
  const { limit = defaultLimit, after: afterId = 0 } = options;
  if (sinceMs === undefined)
    throw new WrongUse('svc outbox replay needs --since <time>, the start of the replay');
  if (options.dryRun) return listRows(options, filterOf(options), limit);
  const config = sendingConfig(options);
  const counter = createProgress(process.stderr);
  let isInterrupted = false;
  warnOnly(config);
  const running = replayOutbox(
    config,
    { since: new Date(sinceMs).toISOString(), limit, after: afterId, filter },
    (sentCount, failedCount) =>
      counter.show(sentCount + failedCount, undefined, failedCount > 0 ? `${failedCount} failed` : undefined),
  );
  const result = await stoppable(
    () => running.result,
    () => {
      isInterrupted = true;
      sayStopping();
      running.stop();
    },
  ).finally(counter.end);
  const { since, total, success, failed, failedEventIds, after } = result;
  // Everything was sent before the stop took effect.
  const isStopped = isInterrupted && after !== undefined;
  if (options.json) {
    const stopped = isStopped ? onRequest : null;
    process.stdout.write(`${printableJson({ dryRun: false, ...result, stopped }, 2)}\n`);
  } else {
    const lines = [`${success} of ${counted(total)} since ${since} sent again to their topics`];
    for (const eventId of failedEventIds) lines.push(`not sent: ${eventId}`);
    if (after !== undefined)
      lines.push(
        `${isStopped ? onRequest : 'stopped: the broker is unreachable'}. --since ${since} --after ${after} continues from here; without --after all are sent again`,
      );
    process.stderr.write(`${lines.map(printable).join('\n')}\n`);
  }
  return failed > 0 || after !== undefined ? 1 : 0;
}

const dayMs = 86_400_000;

/** `svc outbox ddl`: prints the tables as SQL, without a connection. */
async function runDdl(options: OutboxOptions): Promise<number> {
  // Problems of the file are ignored: it only provides the default URL and table.
  const { outbox } = loadConfig({ file: options.config }).config;
  const dialect = dialectNamed(options) ?? dialectOf(outbox.datasource.url ?? '');
  if (dialect === undefined)
    throw new WrongUse(
      'svc outbox ddl needs --dialect postgres, mysql or sqlite, unless a configuration names a database',
    );
  const table = options.table ?? outbox.table;
  const { role = [], from = 0, partitioned } = options;
  const grants = rolesOf(role);
  if (dialect === 'sqlite' && role.length > 0) throw new WrongUse('SQLite has no roles: remove --role');
  if (partitioned) refusePartitions(dialect);
  try {
    const sql = (await adapterModules.sqlSchema()).ddl(dialect, table, {
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
      `--partitioned is for PostgreSQL: ${dialect === 'sqlite' ? 'SQLite has no partitions' : 'svc makes no partitions in MySQL and MariaDB'}; remove it`,
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

/** `svc outbox migrate`: creates or updates the tables, and the partitions of the next days. */
async function runMigrate(options: OutboxOptions): Promise<number> {
  const config = outboxConfig(options);
  const { table, datasource, cleanupEnabled, retentionDays } = config.outbox;
  if (options.partitioned) refusePartitions(dialectOf(datasource.url ?? '') ?? 'postgres');
  let isChanged = false;
  // The store logs at this level only if it has created or dropped something.
  const info = (): void => {
    isChanged = true;
  };
  useLogger({ ...consoleLogger('warn'), info });
  const keepMs = cleanupEnabled ? retentionDays * dayMs : Number.POSITIVE_INFINITY;
  const isPartitioned = await useOutbox(
    config,
    async (store) => {
      await store.prepare();
      sayUnguarded(table, await store.missingGuard());
      return store.partition(keepMs);
    },
    { makesTables: true, partitioned: options.partitioned ?? false },
  );
  if (options.partitioned && !isPartitioned) {
    process.stderr.write(
      `svc: ${table} already exists without partitions, and stays so. Name another table in svc.outbox.table, and let svc relay send the rest of this one\n`,
    );
    return 1;
  }
  if (options.json)
    process.stdout.write(`${printableJson({ table, changed: isChanged, partitioned: isPartitioned }, 2)}\n`);
  else
    process.stderr.write(
      isChanged
        ? `the tables of ${table} were created for this version of svc\n`
        : `the tables of ${table} already fit this version of svc: nothing to do\n`,
    );
  return 0;
}

/** `svc outbox check`: checks that the tables exist and fit the settings, and that the user has the rights of a relay. */
async function runTableCheck(options: OutboxOptions): Promise<number> {
  const { guard, ...report } = await inspectOutbox(outboxConfig(options));
  const { table, problem } = report;
  const ok = problem === undefined;
  if (options.json) process.stdout.write(`${printableJson({ ok, ...report, ...(ok && { guard }) }, 2)}\n`);
  else process.stdout.write(formatTables(report));
  sayUnguarded(table, guard);
  return ok ? 0 : 1;
}

export const inClearText = (address: string): string =>
  `the connection to the database at ${address} is not encrypted: rows and passwords can be read on the way`;

/** Also for `svc check --online`. */
export function formatTables({ table, pending, warning, problem, inClearTo }: TablesReport): string {
  if (problem !== undefined) return `error: ${printable(problem)}\n`;
  const remark = [warning, inClearTo && inClearText(inClearTo)]
    .map((each) => (each === undefined ? '' : `warning: ${each}\n`))
    .join('');
  if (pending === undefined) return remark;
  return `outbox: the tables of ${table} fit this version of svc, and its user has the permissions; ${counted(pending)} pending\n${remark}`;
}

/** MySQL and MariaDB copy the table for the guard, so svc does not add it to a large table in use. */
export function sayUnguarded(table: string, guard: string | undefined): void {
  if (guard === undefined) return;
  process.stderr.write(
    `svc: warn: ${table} accepts rows that svc never writes and no relay finds. At a quiet time, when there are no such rows, run: ${guard}\n`,
  );
}

interface DebeziumOptions {
  readonly config?: string;
  readonly json?: true;
  readonly sql?: true;
  readonly name?: string;
  readonly topicPrefix?: string;
  readonly slot?: string;
  readonly publication?: string;
  readonly connector?: string;
  readonly user?: string;
  readonly password?: string;
  readonly header?: readonly string[];
}

const topicPattern = /^[A-Za-z0-9._-]{1,200}$/;
const slotPattern = /^[a-z0-9_]{1,63}$/;
const publicationPattern = /^[a-z_][a-z0-9_]{0,62}$/;
const headerPattern = /^[A-Za-z0-9._-]+$/;

/** `svc outbox debezium`: prints the connector's configuration, or the SQL that it needs. */
async function runDebezium(options: DebeziumOptions): Promise<number> {
  const text = (name: string, given: string, pattern: RegExp): string => {
    if (pattern.test(given)) return given;
    throw new WrongUse(`--${name} takes a name, of the form ${pattern.source}`);
  };
  const config = outboxConfig(options);
  const { outbox, broker } = config;
  const { kind, ...database } = databaseOf(outbox.datasource.url ?? '', options.connector, options.user);
  const { table } = outbox;
  const headers = headersOf(config, options.header ?? []);
  const publication = text('publication', options.publication ?? 'svc_outbox', publicationPattern);
  const { debezium } = await adapterModules.debezium();
  if (options.sql) {
    const dialect = kind === 'postgres' ? kind : 'mysql';
    const sql = debezium.sql({ dialect, table, headers, publication, erases: erasesRows(outbox) });
    process.stdout.write(options.json ? `${printableJson({ dialect, table, sql }, 2)}\n` : sql);
    return 0;
  }
  const name = text('name', options.name ?? 'svc-outbox', topicPattern);
  const { bootstrapServers } = broker;
  if (kind !== 'postgres' && bootstrapServers.length === 0)
    throw new WrongUse(
      `a connector of ${kind} keeps its schema history in Kafka: set svc.broker.bootstrap-servers`,
    );
  if (outbox.publisherEnabled)
    process.stderr.write(
      'svc: svc.outbox.publisher-enabled is true: relays also send each event, until you set it to false\n',
    );
  const password = options.password ?? passwordReference;
  if (!/^\$\{[^{}]+\}$/.test(password))
    throw new WrongUse(
      `--password takes a reference for Kafka Connect, such as ${passwordReference}, never the password itself`,
    );
  const connector = debezium.connector({
    ...{ kind, table, headers, publication, bootstrapServers, name },
    database: { ...database, password },
    topicPrefix: text('topic-prefix', options.topicPrefix ?? name, topicPattern),
    slot: text('slot', options.slot ?? 'svc_outbox', slotPattern),
  });
  process.stdout.write(`${printableJson(connector, 2)}\n`);
  return 0;
}

/** Headers of configured targets, of `--header` for targets in code, and CloudEvents attributes. */
function headersOf(config: Config, given: readonly string[]): readonly string[] {
  const ofTargets = config.targets
    .filter(({ outbox }) => outbox !== undefined)
    .flatMap(({ headers }) => Object.keys(headers ?? {}));
  const headers = [...new Set([...ofTargets, ...given, ...attributeHeadersOf(config)])];
  for (const header of headers)
    if (!headerPattern.test(header))
      throw new WrongUse(
        `Debezium cannot add the header ${JSON.stringify(header)}: its name must be of letters, digits, ".", "_" and "-"`,
      );
  return headers;
}

type ConnectorKind = 'postgres' | 'mysql' | 'mariadb';

interface ConnectorDatabase {
  readonly kind: ConnectorKind;
  readonly host: string;
  readonly port: string;
  readonly name: string;
  readonly user: string;
}

const ports: Readonly<Record<ConnectorKind, string>> = { postgres: '5432', mysql: '3306', mariadb: '3306' };

/**
 * Reads the URL of the outbox. `mysql://` may also be MariaDB, so `--connector` overrides it.
 *
 * @throws WrongUse
 */
function databaseOf(url: string, connector?: string, user?: string): ConnectorDatabase {
  const kind = connector === undefined ? kindOf(url) : kindNamed(connector);
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const name = decodeURIComponent(parsed?.pathname.slice(1) ?? '');
  if (parsed === undefined || parsed.hostname === '' || name === '')
    throw new WrongUse(
      'a connector needs the host and the name of the database in svc.outbox.datasource.url: postgres://user@host/database',
    );
  if ((dialectOf(url) === 'postgres') !== (kind === 'postgres'))
    throw new WrongUse(`--connector ${kind} does not fit the database of svc.outbox.datasource.url`);
  return {
    ...{ kind, name, host: parsed.hostname.replace(/^\[|\]$/g, '') },
    port: parsed.port || ports[kind],
    user: user ?? decodeURIComponent(parsed.username),
  };
}

function kindOf(url: string): ConnectorKind {
  const dialect = dialectOf(url);
  if (dialect === 'sqlite') throw new WrongUse('Debezium has no connector for SQLite');
  if (dialect !== 'mysql') return 'postgres';
  return /^mariadb:/i.test(url) ? 'mariadb' : 'mysql';
}

function kindNamed(text: string): ConnectorKind {
  if (Object.hasOwn(ports, text)) return text as ConnectorKind;
  throw new WrongUse('--connector takes postgres, mysql or mariadb');
}

/** A reference in the syntax of Kafka Connect's `config.providers`. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: Kafka Connect has references so.
const passwordReference = '${env:SVC_OUTBOX_PASSWORD}';

interface OutboxOptions {
  readonly config?: string;
  readonly json?: true;
  readonly dryRun?: true;
  readonly all?: true;
  readonly broker?: string;
  readonly dialect?: string;
  readonly table?: string;
  readonly role?: readonly string[];
  /** The version of the existing tables. */
  readonly from?: number;
  readonly partitioned?: true;
  readonly type?: string;
  readonly topic?: string;
  readonly aggregateType?: string;
  readonly aggregateId?: string;
  readonly status?: readonly RowStatus[];
  readonly since?: number;
  readonly before?: number;
  /** Only rows with a larger id; default: all. */
  readonly after?: number;
  /** Limit of rows. */
  readonly limit?: number;
}

function withFilters(command: Command): Command {
  return command
    .option('--type <event type>', 'only these')
    .option('--topic <topic>', 'only events for this topic')
    .option('--aggregate-type <type>', 'only events of aggregates of this type')
    .option('--aggregate-id <id>', 'only events of this aggregate')
    .option(
      '--status <status>',
      'PENDING, PUBLISHED or FAILED; repeatable',
      (text: string, before: readonly RowStatus[] = []) => [...before, statusOf(text)],
    )
    .option('--since <time>', sinceText, timeOf('since'))
    .option('--before <time>', 'only events stored before', timeOf('before'))
    .option('--limit <number>', 'at most this many (list and replay: 1000 by default)', limitOf);
}

/** @throws WrongUse */
function filterOf(options: OutboxOptions): RowFilter {
  const { type: eventType, topic, aggregateType, aggregateId, status: statuses, since, before } = options;
  if (since !== undefined && before !== undefined && since >= before)
    throw new WrongUse('--since is not before --before');
  const all = { eventType, topic, aggregateType, aggregateId, statuses, since, before };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

function statusOf(text: string): RowStatus {
  const status = rowStatuses.find((each) => each === text.toUpperCase());
  if (status === undefined) throw new WrongUse(`--status takes ${rowStatuses.join(', ')}`);
  return status;
}

function versionOf(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text))
    throw new WrongUse('--from takes the version of the tables, which svc outbox check prints');
  return Number(text);
}

function afterOf(text: string): number {
  const after = Number(text);
  if (!Number.isSafeInteger(after) || after < 0)
    throw new WrongUse('--after takes the number that a stopped replay printed');
  return after;
}

function limitOf(text: string): number {
  const limit = Number(text);
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw new WrongUse('--limit takes a number of events, an integer from 1');
  return limit;
}

/** A row in a list, without its content, in the order of the columns. */
function rowDocument(row: StoredRow): object {
  const { eventId, eventType, aggregateType, aggregateId, status, topic, retryCount, lastError } = row;
  return {
    occurredAt: new Date(row.occurredAt).toISOString(),
    ...{ eventId, status, retryCount, eventType, aggregateType, aggregateId, topic, lastError },
    nextRetryInMs: status === 'PENDING' && row.waitMs > 0 ? row.waitMs : null,
  };
}

const rowHead = ['OCCURRED', 'EVENT', 'STATUS', 'TRIES', 'TYPE', 'AGGREGATE', 'TOPIC', 'REASON'];

function rowColumns(row: StoredRow): readonly string[] {
  const { eventId, eventType, aggregateType, aggregateId, status, topic, retryCount, lastError } = row;
  const time = new Date(row.occurredAt).toISOString();
  const aggregate = `${aggregateType} ${aggregateId}`;
  return [time, eventId, status, String(retryCount), eventType, aggregate, topic, lastError ?? '-'];
}

const noOutbox = `no outbox: set svc.outbox.enabled: true, and svc.outbox.datasource.url or the variable DATABASE_URL. ${settingsInCode}`;

/**
 * The configuration for an outbox command. Problems elsewhere in it are ignored.
 *
 * @throws WrongUse
 */
function outboxConfig({ config: file }: { readonly config?: string | undefined }): Config {
  const { config, problems } = loadConfig({ file });
  refuse(problems.filter(isOfOutbox));
  if (config.outbox.datasource.url === undefined) throw new WrongUse(noOutbox);
  sayFile(config);
  return config;
}

/**
 * The same, with the broker.
 *
 * @throws WrongUse
 */
function sendingConfig(options: {
  readonly config?: string | undefined;
  readonly broker?: string | undefined;
}): Config {
  outboxConfig(options);
  const { config, checkBroker } = recoveryConfig(options);
  checkBroker();
  return config;
}

/**
 * The configuration for `svc relay`: log, management server and shutdown must also be valid, and the outbox enabled.
 *
 * @throws WrongUse
 */
function relayConfig(options: {
  readonly config?: string | undefined;
  readonly broker?: string | undefined;
}): Config {
  const { config, problems, notFound } = loadConfig({ file: options.config });
  if (!config.enabled) throw new WrongUse('svc.enabled is false: there is nothing to relay');
  refuse(problems.filter(({ name }) => /^(svc\.(log|shutdown)|management)\./.test(name)));
  if (notFound !== undefined) throw new WrongUse(`${notFound} ${settingsInCode}`);
  if (!config.outbox.enabled) throw new WrongUse('the outbox is off: set svc.outbox.enabled: true');
  if (erasesRows(config.outbox) && dialectOf(config.outbox.datasource.url ?? '') !== 'sqlite')
    throw new WrongUse(
      'svc.outbox.publisher-enabled: false with svc.outbox.retention-days: 0 is for Debezium, and deletes rows in the transaction that wrote them. For svc relay, set svc.outbox.retention-days to 1 or more',
    );
  return sendingConfig(options);
}

function isOfOutbox({ name }: Problem): boolean {
  return name !== targetsName && (name.startsWith('svc.outbox.') || optionNamed(name) === undefined);
}

function refuse(wrong: readonly Problem[]): void {
  if (wrong.length > 0) throw new WrongUse(wrong.map(formatProblem).join('\nsvc: '));
}

function sayFile({ file }: Config): void {
  if (file !== undefined) process.stderr.write(`svc: configuration ${file}\n`);
}

/** Runs work that the first Ctrl-C stops in order. The second Ctrl-C ends the process. */
async function stoppable<T>(work: (isStopped: () => boolean) => Promise<T>, onStop: () => void): Promise<T> {
  let isStopped = false;
  const forget = onStopSignal(() => {
    isStopped = true;
    onStop();
  });
  try {
    return await work(() => isStopped);
  } finally {
    forget();
  }
}

function sayStopping(): void {
  process.stderr.write('\nsvc: stopping after the current batch\n');
}

interface RelayOptions {
  readonly config?: string;
  readonly broker?: string;
}

async function runRelayCommand(options: RelayOptions): Promise<number> {
  const config = relayConfig(options);
  useLogger(consoleLogger(config.log.level, config.log.format));
  const stopping = new AbortController();
  // A second signal ends the process. Rows in flight are then sent again after the leases expire.
  onStopSignal(() => stopping.abort());
  try {
    return (await relayAlone(config, stopping.signal)) ? 0 : 1;
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    logger.error(`relay: ${error.message}`, { code: error.code });
    return 1;
  }
}

function addRelay(svc: Command): void {
  const relay = svc
    .command('relay')
    .description('send the events of the outbox without the application')
    .option(...brokerOption)
    .addHelpText(
      'after',
      `
It runs until SIGTERM or Ctrl-C, then finishes the batch under way within
svc.shutdown.timeout-ms and gives its rows back to other relays. Outages of the
database and the broker it waits out. Set svc.outbox.publisher-enabled: false
for the application that leaves the sending to it. Health and metrics are on
the management port.

Exit codes: 0 stopped in order, 1 it cannot begin or sends were under way at
the end, 2 the outbox is off or the configuration wrong.`,
    );
  does(relay, runRelayCommand, { json: false });
}
