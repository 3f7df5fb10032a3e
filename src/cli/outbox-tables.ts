import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/read/load.ts';
import { SvcError } from '../ground/errors.ts';
import { consoleLogger, type Logger, printable, printableJson } from '../observe/logger.ts';
import { erasesRows } from '../outbox/erase-row.ts';
import { debeziumConnector, debeziumSql, outboxDdl } from '../start/adapters.ts';
import { inspectOutbox, type TablesReport } from '../start/commands/inspect.ts';
import { attributeHeadersOf } from '../start/open-cloudevents.ts';
import { useOutbox } from '../start/outbox/use-outbox.ts';
import { type Dialect, dialectOf } from '../transaction/driver.ts';
import { outboxConfig } from './outbox-config.ts';
import { eventsOf, type OutboxOptions } from './outbox-options.ts';
import { WrongUse } from './wrong-use.ts';

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

/** `svc outbox debezium`: what makes Debezium send the rows as a relay would. */
export async function runDebezium(options: DebeziumOptions): Promise<number> {
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
  if (options.sql) {
    const dialect = kind === 'postgres' ? kind : 'mysql';
    const sql = await debeziumSql({ dialect, table, headers, publication, erases: erasesRows(outbox) });
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
      'svc: svc.outbox.publisher-enabled is true: relays send each event as well, until it is false\n',
    );
  const password = options.password ?? passwordReference;
  if (!/^\$\{[^{}]+\}$/.test(password))
    throw new WrongUse(
      `--password takes a reference that Kafka Connect looks up, such as ${passwordReference}, never the password itself`,
    );
  const connector = await debeziumConnector({
    ...{ kind, table, headers, publication, bootstrapServers, name },
    database: { ...database, password },
    topicPrefix: text('topic-prefix', options.topicPrefix ?? name, topicPattern),
    slot: text('slot', options.slot ?? 'svc_outbox', slotPattern),
  });
  process.stdout.write(`${printableJson(connector, 2)}\n`);
  return 0;
}

/** Those of targets in the configuration, of the command line for those in code, and the attributes of CloudEvents. */
function headersOf(config: Config, given: readonly string[]): readonly string[] {
  const ofTargets = config.targets
    .filter(({ outbox }) => outbox !== undefined)
    .flatMap(({ headers }) => Object.keys(headers ?? {}));
  const headers = [...new Set([...ofTargets, ...given, ...attributeHeadersOf(config)])];
  for (const header of headers)
    if (!headerPattern.test(header))
      throw new WrongUse(
        `Debezium cannot be told of the header ${JSON.stringify(header)}: its name must be of letters, digits, ".", "_" and "-"`,
      );
  return headers;
}

type ConnectorKind = 'postgres' | 'mysql' | 'mariadb';

/** A database as a connector is told of it. */
interface ConnectorDatabase {
  readonly kind: ConnectorKind;
  readonly host: string;
  readonly port: string;
  readonly name: string;
  readonly user: string;
}

const ports: Readonly<Record<ConnectorKind, string>> = { postgres: '5432', mysql: '3306', mariadb: '3306' };

/**
 * Of the URL of the outbox; MariaDB may be meant by `mysql://` as well, so it can be given.
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

/** As the worker's `config.providers` of Kafka name it. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: Kafka Connect has references so.
export const passwordReference = '${env:SVC_OUTBOX_PASSWORD}';
