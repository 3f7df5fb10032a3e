import type { Command, OptionValues } from 'commander';
import { does, group } from '../does.ts';
import { repeated } from '../recovery/recovery-options.ts';
import { runDiscard, runList, runRetryFailed } from './change-rows.ts';
import { runDebezium } from './debezium.ts';
import { answered, runStats } from './outbox.ts';
import { afterOf, versionOf, withFilters } from './outbox-options.ts';
import { passwordReference } from './password-reference.ts';
import { runReplay } from './replay.ts';
import { runDdl, runMigrate, runTableCheck } from './tables.ts';

const dryRun = ['--dry-run', 'list what would be taken, and change nothing'] as const;

/** `svc outbox …`. */
export function addOutbox(svc: Command, broker: readonly [flags: string, text: string]): void {
  const outbox = group(svc, 'outbox')
    .description('the table of the outbox: stats, list, replay, migrate, …')
    .addHelpText(
      'after',
      `
Exit codes: 0 done, 1 something is left or wrong, 2 called wrongly.
Ctrl-C ends after the batch under way, and says what was done.`,
    );
  const add = (name: string, text: string): Command => outbox.command(name).description(text);
  const runs = <O extends OptionValues>(command: Command, run: (options: O) => Promise<number>): Command =>
    does(command, (options: O) => answered(() => run(options)));
  runs(add('stats', 'how many events there are in the table of the outbox, by status'), runStats);
  runs(withFilters(add('list', 'list events, oldest first, never their content')), runList);
  runs(
    withFilters(
      add(
        'replay',
        'send events again to their topics, whatever their status (needs --since); the rows stay as they are',
      ),
    )
      .option(
        '--after <number>',
        'go on behind what a replay that was stopped has sent, which names the number',
        afterOf,
      )
      .option(...dryRun)
      .option(...broker),
    runReplay,
  );
  runs(
    withFilters(add('retry-failed', 'FAILED events become PENDING again, with all their tries')).option(
      ...dryRun,
    ),
    runRetryFailed,
  );
  runs(
    withFilters(add('discard', 'delete events: FAILED ones, unless --status names others'))
      .option('--all', 'every event, PENDING ones as well; without it a filter is needed')
      .option(...dryRun),
    runDiscard,
  );
  const partitioned = ['--partitioned', 'new tables have a partition for each day (PostgreSQL)'] as const;
  runs(
    add('ddl', 'print the tables as SQL, with the rights of two users; connects to nothing')
      .option('--dialect <name>', 'postgres, mysql or sqlite (default: of svc.outbox.datasource.url)')
      .option('--table <name>', 'instead of svc.outbox.table')
      .option('--from <version>', 'only what tables of that version lack', versionOf)
      .option(...partitioned)
      .option(
        '--role <app=user,relay=user>',
        'the user of the application, who inserts, and that of svc.outbox.datasource.url',
        repeated,
      ),
    runDdl,
  );
  runs(
    add('migrate', 'make or update the tables, as the user of svc.outbox.datasource.url').option(
      ...partitioned,
    ),
    runMigrate,
  );
  runs(add('check', 'whether the tables are there, and that user may do what a relay does'), runTableCheck);
  runs(
    add(
      'debezium',
      "print the configuration of Debezium's connector, or the SQL it needs; connects to nothing",
    )
      .option('--sql', 'what it needs in the database, in place of its configuration')
      .option('--name <name>', 'of the connector (default: svc-outbox)')
      .option(
        '--topic-prefix <prefix>',
        'of its own topics, none of which are those of events (default: its name)',
      )
      .option('--slot <name>', 'in PostgreSQL (default: svc_outbox)')
      .option('--publication <name>', 'in PostgreSQL (default: svc_outbox)')
      .option('--connector <kind>', 'postgres, mysql or mariadb (default: of svc.outbox.datasource.url)')
      .option('--user <user>', 'who may replicate (default: the user of that URL)')
      .option(
        '--password <reference>',
        `where Kafka Connect finds the password (default: ${passwordReference})`,
      )
      .option(
        '--header <name>',
        'also this header, of targets in code; may be given several times',
        repeated,
      ),
    runDebezium,
  );
}
