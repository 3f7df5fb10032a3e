import type { Command } from 'commander';
import { createInbox, inboxTable } from '../consume/inbox.ts';
import { SvcError } from '../ground/errors.ts';
import { printableJson } from '../observe/logger.ts';
import { partsOfTable } from '../outbox/insert-row.ts';
import { useConnection } from '../start/commands/outbox.ts';
import { type Dialect, dialectOf } from '../transaction/driver.ts';
import { repeated } from './recovery.ts';
import { does, group, reportFailure, WrongUse } from './terminal.ts';

interface InboxOptions {
  readonly json?: true;
  readonly dialect?: string;
  readonly table?: string;
  readonly url?: string;
  readonly consumer?: readonly string[];
  readonly retentionDays?: number;
}

export function addInbox(svc: Command): void {
  const inbox = group(svc, 'inbox').description('the inbox table of consumers: ddl, cleanup');
  const ofTable = ['--table <name>', `the table (default: ${inboxTable.defaultName})`] as const;
  does<InboxOptions>(
    inbox
      .command('ddl')
      .description('print the table as SQL; makes no connection')
      .requiredOption('--dialect <name>', 'postgres, mysql or sqlite')
      .option(...ofTable),
    runInboxDdl,
    { config: false },
  );
  does<InboxOptions>(
    inbox
      .command('cleanup')
      .description('delete old rows of handled events')
      .requiredOption('--consumer <name>', 'as in createInbox(); repeatable', repeated)
      .option('--retention-days <days>', 'days to keep (default: 30)', Number)
      .option('--url <url>', 'URL of the database (default: the variable DATABASE_URL)')
      .option(...ofTable),
    runCleanup,
    { config: false },
  );
}

async function runInboxDdl({
  dialect: name,
  table = inboxTable.defaultName,
  json,
}: InboxOptions): Promise<number> {
  const dialect = dialectOf(`${name}:`);
  if (dialect === undefined) throw new WrongUse('--dialect takes postgres, mysql or sqlite');
  if (partsOfTable(table) === undefined)
    throw new WrongUse('--table takes a name of letters, digits and _, with or without schema and dot');
  const sql = inboxTable.ddl(dialect, table).map((statement) => `${statement};\n`);
  process.stdout.write(
    json ? `${printableJson({ dialect, table, sql: sql.join('') }, 2)}\n` : sql.join('\n'),
  );
  return 0;
}

/** Exit codes: 0 done, 1 the database cannot be used. */
async function runCleanup(options: InboxOptions): Promise<number> {
  const { url = process.env.DATABASE_URL, consumer = [], table, retentionDays, json } = options;
  const dialect: Dialect | undefined = dialectOf(url ?? '');
  if (url === undefined || dialect === undefined)
    throw new WrongUse(
      'svc inbox cleanup needs --url, or the variable DATABASE_URL: postgres://…, mysql://… or sqlite:<file>',
    );
  const forgotten: Record<string, number> = {};
  try {
    await useConnection(url, dialect, async (pool) => {
      for (const name of consumer) {
        const given = {
          ...(table !== undefined && { table }),
          ...(retentionDays !== undefined && { retentionDays }),
        };
        forgotten[name] = (await createInbox({ pool, consumer: name, ...given }).cleanup()) ?? 0;
      }
    });
  } catch (error) {
    if (error instanceof SvcError && error.code === 'SVC_CONSUME_OPTIONS') throw new WrongUse(error.message);
    return reportFailure(error);
  }
  if (json) process.stdout.write(`${printableJson({ forgotten }, 2)}\n`);
  else
    for (const [name, count] of Object.entries(forgotten))
      process.stderr.write(`${name}: ${count} forgotten\n`);
  return 0;
}
