import { Command, type OptionValues } from 'commander';
import { version } from '../ground/version.ts';
import { runCheck } from './check/check.ts';
import { runDecrypt } from './decrypt.ts';
import { runManifest } from './manifest.ts';
import { runDiscard, runList, runRetryFailed } from './outbox/change-rows.ts';
import { runDebezium } from './outbox/debezium.ts';
import { answered, runStats } from './outbox/outbox.ts';
import { afterOf, versionOf, withFilters } from './outbox/outbox-options.ts';
import { passwordReference } from './outbox/password-reference.ts';
import { runRelayCommand } from './outbox/relay.ts';
import { runReplay } from './outbox/replay.ts';
import { runDdl, runMigrate, runTableCheck } from './outbox/tables.ts';
import { repeated, withRecoveryOptions } from './recovery-options.ts';
import { runBackup, runDlq } from './recovery-places.ts';
import { runBreakerReset } from './running/breaker.ts';
import { withProcess } from './running/find-process.ts';
import { runStatus } from './running/status.ts';
import { program } from './wrong-use.ts';

const broker = ['--broker <host:port,...>', 'instead of svc.broker.bootstrap-servers'] as const;
const dryRun = ['--dry-run', 'list what would be taken, and change nothing'] as const;

/**
 * All commands with their options: what is parsed, what `--help` shows, and what shells complete. Errors are thrown, and
 * `process.exitCode` is that of the command.
 */
export function commandTree(): Command {
  const svc = new Command(program)
    .description(`svc ${version}: function calls of a Node application as events in Kafka`)
    .version(version, '-v, --version', 'the version')
    .helpOption('-h, --help', 'this text, or that of a command')
    .helpCommand(false)
    .configureHelp({ subcommandTerm: (command) => command.name() })
    .configureOutput({ outputError: () => {} })
    .exitOverride()
    .addHelpText(
      'after',
      `
Examples:
  ${program} check --online            may the application start here?
  ${program} status                    do events flow?
  ${program} dlq list --since 2h       what did not reach its topic, and why
  ${program} outbox --help             the commands of the outbox`,
    );
  addCheck(svc);
  addRunning(svc);
  addRecovery(svc);
  addOutbox(svc);
  addRelay(svc);
  addDecrypt(svc);
  return svc;
}

/** What a command does, and the options that all have. */
function does<O extends OptionValues>(
  command: Command,
  run: (options: O, ...rest: string[]) => Promise<number>,
  { json = true } = {},
): Command {
  command.option(
    '--config <file>',
    'configuration file (default: svc.config.* of the project, from the working directory up)',
  );
  if (json) command.option('--json', 'one JSON document on standard output, for scripts');
  return command.helpOption('-h, --help', 'this text').action(async (...all: unknown[]) => {
    const [options, ...rest] = all.slice(0, -1).reverse();
    process.exitCode = await run(options as O, ...(rest.reverse().flat() as string[]));
  });
}

/** `svc <name> <command>`. */
const group = (svc: Command, name: string): Command => svc.command(name).helpCommand(false);

function addCheck(svc: Command): void {
  const check = svc
    .command('check')
    .summary('which targets can be captured; --online: what services allow')
    .description('Reports which publish targets of svc.config.* can be patched.')
    .argument('[command...]', 'behind --: how the application is started')
    .usage('[options] [-- node <file>]')
    .option(
      '--online',
      'also what broker, bucket, schema registry and the database of the outbox would let the application do; writes no event',
    )
    .option(
      '--bundle <paths...>',
      'whether the source maps of these built files, or folders of them, lead to the targets',
    )
    .addHelpText(
      'after',
      `
Behind -- stands how the application is started (default: scripts.start of
package.json): its imports are followed, and exit 1 says that it loads a file
which is compiled from the one that a target names.`,
    );
  does(check, (options, ...command) => runCheck(options, command));
  const manifest = svc
    .command('manifest')
    .summary('lists where the targets are, so that a start parses nothing')
    .description(
      'Writes svc.manifest.json beside the configuration: where the targets are in the\nfiles of a build. Run it after each build, and ship it with the configuration.',
    )
    .argument('[paths...]', 'built files, or folders of them (dist, .next/server)');
  does(manifest, (options, ...paths) => runManifest(options, paths));
}

function addRunning(svc: Command): void {
  const status = withProcess(
    svc.command('status').description('a running process: rates, backlog, breakers, health'),
  ).option('--once', 'once, over one second, and not until Ctrl-C');
  does(status, runStatus);
  const reset = withProcess(
    group(svc, 'breaker')
      .description('the circuit breakers of a running process: reset')
      .command('reset')
      .description('close the circuit breakers of a running process'),
  ).option('--dry-run', 'show how they are, and change nothing');
  does(reset, runBreakerReset);
}

function addRecovery(svc: Command): void {
  const toTopics = 'send them to the topics they were meant for';
  const dlq = group(svc, 'dlq').description('dead letters: list, recover');
  for (const [action, text] of [
    ['list', 'list the events in the dead letter topic'],
    ['recover', toTopics],
  ] as const) {
    const command = withRecoveryOptions(dlq.command(action).description(text))
      .option('--dlq-topic <topic>', 'instead of svc.broker.dlq-topic')
      .option(
        '--group <name>',
        'consumer group that remembers what is recovered (default: svc-dlq-recovery)',
      );
    does(command, (options) => runDlq(options, action === 'list' ? 'list' : 'send'));
  }
  const backup = group(svc, 'backup').description('events in the backup, local or in S3: list, restore');
  for (const [action, text] of [
    ['list', 'list the events in the local backup, with --s3 in the bucket'],
    ['restore', toTopics],
  ] as const) {
    const command = withRecoveryOptions(backup.command(action).description(text))
      .option('--dir <folder>', 'instead of svc.broker.dlq-backup-path')
      .option('--file <file>', 'this file alone')
      .option('--s3', 'the bucket of svc.broker.backup.s3-bucket');
    does(command, (options) => runBackup(options, action === 'list' ? 'list' : 'send'));
  }
}

function addOutbox(svc: Command): void {
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

function addRelay(svc: Command): void {
  const relay = svc
    .command('relay')
    .description('send the events of the outbox without the application')
    .option(...broker)
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

function addDecrypt(svc: Command): void {
  const decrypt = svc
    .command('decrypt')
    .summary('show envelopes with their encrypted fields readable')
    .description('Shows envelopes with their encrypted fields readable; exit 1 when a field or line fails.')
    .argument(
      '[file]',
      'one envelope, or record of the file broker, a line, or one JSON document (default: standard input)',
    )
    .option(
      '--keys-file <file>',
      'JSON, { "keys": [{ "id": "…", "key": "<Base64>" }] }, besides the key in PII_ENCRYPTION_KEY; instead of the configuration, unless --config names one',
    )
    .option(
      '--key-id <id>',
      'a key to ask the service of svc.pii.kms for, besides those that the configuration names; may be given several times',
      repeated,
    )
    .option(
      '--field <path>',
      'a field to decrypt, as rules write it (customer.email, **.iban); may be given several times (default: format v1 wherever it stands, v0 where the rules of the configuration encrypt)',
      repeated,
    )
    .option('--any-field', 'format v0 wherever it stands. It opens where others have copied it to as well');
  does(decrypt, runDecrypt);
}
