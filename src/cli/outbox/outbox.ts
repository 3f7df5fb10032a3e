// outbox/: the commands of `svc outbox`.

import { SvcError } from '../../ground/errors.ts';
import { consoleLogger } from '../../observe/logger.ts';
import { printable, printableJson } from '../../observe/printable.ts';
import { useOutbox } from '../../start/outbox/use-outbox.ts';
import { WrongUse } from '../recovery-options.ts';
import { runDiscard, runList, runRetryFailed } from './change-rows.ts';
import { passwordReference, runDebezium } from './debezium.ts';
import { outboxConfig } from './outbox-config.ts';
import { parseOutboxOptions } from './outbox-options.ts';
import { runReplay } from './replay.ts';
import { runDdl, runMigrate, runTableCheck } from './tables.ts';

export const outboxUsage = `svc outbox: the events that wait in the table of the outbox, or were sent from there

Usage: svc outbox <command> [options]

Commands
  stats          how many events there are, by status
  list           list events, oldest first, never their content
  replay         send events again to their topics, whatever their status (needs --since); the rows stay as they are
  retry-failed   FAILED events become PENDING again, with all their tries
  discard        delete events: FAILED ones, unless --status names others
  ddl            print the tables as SQL, with the rights of two users; connects to nothing
  migrate        make or update the tables, as the user of svc.outbox.datasource.url
  check          whether the tables are there, and that user may do what a relay does
  debezium       print the configuration of Debezium's connector, or the SQL it needs; connects to nothing

Filters of list, replay, retry-failed and discard
  --type <event type>        only these
  --topic <topic>            only events for this topic
  --aggregate-type <type>    only events of such aggregates
  --aggregate-id <id>        only events of this aggregate
  --status <status>          PENDING, PUBLISHED or FAILED; may be given several times
  --since, --before <time>   only events stored in this time: 2026-03-04T10:00:00Z, or 90m for that long ago
  --limit <number>           so many at most (list and replay: 1000 by default)

Options
  --dry-run                  replay, retry-failed, discard: list what would be taken, and change nothing
  --all                      discard: every event, PENDING ones as well; without it a filter is needed
  --after <number>           replay: go on behind what a replay that was stopped has sent, which names the number
  --broker <host:port,...>   replay: instead of svc.broker.bootstrap-servers
  --dialect <name>           ddl: postgres, mysql or sqlite (default: of svc.outbox.datasource.url)
  --table <name>             ddl: instead of svc.outbox.table
  --from <version>           ddl: only what tables of that version lack
  --partitioned              ddl, migrate: new tables have a partition for each day (PostgreSQL)
  --role app=<user>,relay=<user>
                             ddl: the user of the application, who inserts, and that of svc.outbox.datasource.url
  --sql                      debezium: what it needs in the database, in place of its configuration
  --name <name>              debezium: of the connector (default: svc-outbox)
  --topic-prefix <prefix>    debezium: of its own topics, none of which are those of events (default: its name)
  --slot, --publication <name>
                             debezium: in PostgreSQL (default: svc_outbox)
  --connector <kind>         debezium: postgres, mysql or mariadb (default: of svc.outbox.datasource.url)
  --user <user>              debezium: who may replicate (default: the user of that URL)
  --password <reference>     debezium: where Kafka Connect finds the password (default: ${passwordReference})
  --header <name>            debezium: also this header, of targets in code; may be given several times
  --config <file>            configuration file (default: svc.config.* of the project, from the working directory up)
  --json                     one JSON document on standard output, for scripts
  --help, -h                 this text

Exit codes: 0 done, 1 something is left or wrong, 2 called wrongly. Ctrl-C ends after the batch under way, and says what was done.
`;

const commands: Readonly<Record<string, (args: readonly string[]) => Promise<number>>> = {
  stats: runStats,
  list: runList,
  replay: runReplay,
  'retry-failed': runRetryFailed,
  discard: runDiscard,
  ddl: runDdl,
  migrate: runMigrate,
  check: runTableCheck,
  debezium: runDebezium,
};

/** `svc outbox <command>`. */
export async function runOutbox([name = '', ...args]: readonly string[]): Promise<number> {
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined)
    throw new WrongUse(
      `svc outbox takes ${Object.keys(commands).slice(0, -1).join(', ')} or ${Object.keys(commands).at(-1)}`,
    );
  try {
    return await command(args);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    process.stderr.write(`svc: ${printable(error.message)}\n`);
    return 1;
  }
}

async function runStats(args: readonly string[]): Promise<number> {
  const options = parseOutboxOptions(args, { hasFilters: false });
  const config = outboxConfig(options);
  const found = await useOutbox(config, consoleLogger('warn'), (store) => store.statistics());
  const { total, pending, published, failed, oldestPendingMs } = found;
  const avgProcessingTimeMs = found.avgProcessingTimeMs ?? 0;
  if (options.isJson) {
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
