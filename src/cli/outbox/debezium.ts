import type { Config } from '../../config/config.ts';
import { printableJson } from '../../observe/printable.ts';
import { erasesRows } from '../../outbox/erase-row.ts';
import { debeziumConnector, debeziumSql } from '../../start/adapters.ts';
import { WrongUse } from '../recovery-options.ts';
import { databaseOf } from './debezium-database.ts';
import { outboxConfig } from './outbox-config.ts';
import { commonOptions, valuesOf } from './outbox-options.ts';
import { passwordReference } from './password-reference.ts';

const ownOptions = {
  sql: { type: 'boolean' },
  name: { type: 'string' },
  'topic-prefix': { type: 'string' },
  slot: { type: 'string' },
  publication: { type: 'string' },
  connector: { type: 'string' },
  user: { type: 'string' },
  password: { type: 'string' },
  header: { type: 'string', multiple: true },
} as const;

const topicPattern = /^[A-Za-z0-9._-]{1,200}$/;
const slotPattern = /^[a-z0-9_]{1,63}$/;
const publicationPattern = /^[a-z_][a-z0-9_]{0,62}$/;
const headerPattern = /^[A-Za-z0-9._-]+$/;

/** `svc outbox debezium`: what makes Debezium send the rows as a relay would. */
export async function runDebezium(args: readonly string[]): Promise<number> {
  const values = valuesOf(args, { ...commonOptions, ...ownOptions });
  const text = (name: string, fallback: string, pattern: RegExp): string => {
    const given = (values[name] as string | undefined) ?? fallback;
    if (pattern.test(given)) return given;
    throw new WrongUse(`--${name} takes a name, of the form ${pattern.source}`);
  };
  const config = outboxConfig({ config: values.config as string | undefined });
  const { outbox, broker } = config;
  const { kind, ...database } = databaseOf(
    outbox.datasource.url ?? '',
    values.connector as string | undefined,
    values.user as string | undefined,
  );
  const { table } = outbox;
  const headers = headersOf(config, (values.header as string[] | undefined) ?? []);
  const publication = text('publication', 'svc_outbox', publicationPattern);
  if (values.sql === true) {
    const dialect = kind === 'postgres' ? kind : 'mysql';
    const sql = await debeziumSql({ dialect, table, headers, publication, erases: erasesRows(outbox) });
    process.stdout.write(values.json === true ? `${printableJson({ dialect, table, sql }, 2)}\n` : sql);
    return 0;
  }
  const name = text('name', 'svc-outbox', topicPattern);
  const { bootstrapServers } = broker;
  if (kind !== 'postgres' && bootstrapServers.length === 0)
    throw new WrongUse(
      `a connector of ${kind} keeps its schema history in Kafka: set svc.broker.bootstrap-servers`,
    );
  if (outbox.publisherEnabled)
    process.stderr.write(
      'svc: svc.outbox.publisher-enabled is true: relays send each event as well, until it is false\n',
    );
  const password = (values.password as string | undefined) ?? passwordReference;
  if (!/^\$\{[^{}]+\}$/.test(password))
    throw new WrongUse(
      `--password takes a reference that Kafka Connect looks up, such as ${passwordReference}, never the password itself`,
    );
  const connector = await debeziumConnector({
    ...{ kind, table, headers, publication, bootstrapServers, name },
    database: { ...database, password },
    topicPrefix: text('topic-prefix', name, topicPattern),
    slot: text('slot', 'svc_outbox', slotPattern),
  });
  process.stdout.write(`${printableJson(connector, 2)}\n`);
  return 0;
}

/** Those of targets in the configuration, and of the command line for those in code. */
function headersOf({ targets }: Config, given: readonly string[]): readonly string[] {
  const ofTargets = targets
    .filter(({ outbox }) => outbox !== undefined)
    .flatMap(({ headers }) => Object.keys(headers ?? {}));
  const headers = [...new Set([...ofTargets, ...given])];
  for (const header of headers)
    if (!headerPattern.test(header))
      throw new WrongUse(
        `Debezium cannot be told of the header ${JSON.stringify(header)}: its name must be of letters, digits, ".", "_" and "-"`,
      );
  return headers;
}
