import type { Config } from '../../config/config.ts';
import { printableJson } from '../../observe/printable.ts';
import { erasesRows } from '../../outbox/erase-row.ts';
import { debeziumConnector, debeziumSql } from '../../start/adapters.ts';
import { attributeHeadersOf } from '../../start/serde/attribute-headers.ts';
import { WrongUse } from '../wrong-use.ts';
import { databaseOf } from './debezium-database.ts';
import { outboxConfig } from './outbox-config.ts';
import { passwordReference } from './password-reference.ts';

export interface DebeziumOptions {
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
