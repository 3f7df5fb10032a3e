import type { Command, OptionValues } from 'commander';
import { nextTurn } from '../ground/builtins.ts';
import { SvcError } from '../ground/errors.ts';
import { consoleLogger, printable, printableJson } from '../observe/logger.ts';
import { pagesOf } from '../outbox/batches.ts';
import type { OutboxStore, RowFilter } from '../outbox/outbox-store.ts';
import { replayOutbox, useOutbox } from '../start/outbox/use-outbox.ts';
import { createColumns } from './columns.ts';
import { outboxConfig, sayStopping, sendingConfig, stoppable } from './outbox-config.ts';
import {
  afterOf,
  eventsOf,
  filterOf,
  type OutboxOptions,
  rowColumns,
  rowDocument,
  rowHead,
  versionOf,
  withFilters,
} from './outbox-options.ts';
import { passwordReference, runDdl, runDebezium, runMigrate, runTableCheck } from './outbox-tables.ts';
import { createProgress } from './progress.ts';
import { onRequest, repeated } from './recovery.ts';
import { does, group, WrongUse } from './wrong-use.ts';

// the commands of `svc outbox`.

/** What a database or broker answers is no fault of svc: its message, and exit code 1. */
async function answered(command: () => Promise<number>): Promise<number> {
  try {
    return await command();
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    process.stderr.write(`svc: ${printable(error.message)}\n`);
    return 1;
  }
}

/** `svc outbox stats`. */
async function runStats(options: OutboxOptions): Promise<number> {
  const config = outboxConfig(options);
  const found = await useOutbox(config, consoleLogger('warn'), (store) => store.statistics());
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

const listLimit = 1_000;

/** `svc outbox list`. */
async function runList(options: OutboxOptions): Promise<number> {
  return listRows(options, filterOf(options), options.limit ?? listLimit);
}

/** `svc outbox retry-failed`: FAILED events are tried anew, with all their tries. */
async function runRetryFailed(options: OutboxOptions): Promise<number> {
  if (options.status?.some((status) => status !== 'FAILED'))
    throw new WrongUse('svc outbox retry-failed takes FAILED events only: leave --status out');
  const filter: RowFilter = { ...filterOf(options), statuses: ['FAILED'] };
  return changeRows(options, filter, (store, rows) => store.retry(rows), 'will be sent again', 'retried');
}

/** `svc outbox discard`: events are deleted, as if they had never been. FAILED ones, where no status is named. */
async function runDiscard(options: OutboxOptions): Promise<number> {
  const { all } = options;
  const given = filterOf(options);
  const isFiltered = Object.keys(given).length > 0;
  if (all && isFiltered) throw new WrongUse('--all means every event: give no filter');
  if (!all && !isFiltered)
    throw new WrongUse('svc outbox discard deletes what a filter names: give one, or --all for every event');
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
      await useOutbox(config, consoleLogger('warn'), async (store) => {
        for await (const rows of pagesOf(store, filter, limit)) {
          await nextTurn();
          if (isStopped()) return;
          count += await change(store, { ...filter, ids: rows.map(({ id }) => id) });
          counter.show(count, undefined, done);
        }
      });
    } catch (error) {
      counter.end();
      process.stderr.write(`svc: ${eventsOf(count)} ${done} before this:\n`);
      throw error;
    }
    return isStopped();
  }, sayStopping);
  counter.end();
  const stopped = isInterrupted ? onRequest : null;
  if (options.json) process.stdout.write(`${printableJson({ dryRun: false, [field]: count, stopped }, 2)}\n`);
  else
    process.stderr.write(
      `${eventsOf(count)} ${done}\n${isInterrupted ? `${onRequest}: there may be more\n` : ''}`,
    );
  return isInterrupted ? 1 : 0;
}

/** Changes nothing, so that nobody has to wait for what is under way. Exit code 1: it was interrupted. */
async function listRows(options: OutboxOptions, filter: RowFilter, limit: number): Promise<number> {
  const config = outboxConfig(options);
  const documents: object[] = [];
  let count = 0;
  let hasMore = false;
  let isInterrupted = false;
  const table = createColumns(rowHead, (text) => process.stdout.write(text));
  await stoppable(
    async (isStopped) => {
      await useOutbox(config, consoleLogger('warn'), async (store) => {
        // One more than is shown: whether there are more.
        for await (const rows of pagesOf(store, filter, limit + 1, options.after)) {
          // With SQLite all is done at once: a signal is heard of in between only.
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
    const more = hasMore ? ', and there are more: give a larger --limit' : '';
    process.stderr.write(
      `${eventsOf(count)}${more}\n${isInterrupted ? `${onRequest}: there may be more\n` : ''}`,
    );
  }
  return isInterrupted ? 1 : 0;
}

/** As that of `POST /actuator/svc-outbox`. */
const defaultLimit = 1_000;

/** `svc outbox replay`: events are sent again to their topics, whatever their status, and stay as they are. */
async function runReplay(options: OutboxOptions): Promise<number> {
  const { since: sinceMs, ...filter } = filterOf(options);
  const { limit = defaultLimit, after: afterId = 0 } = options;
  if (sinceMs === undefined)
    throw new WrongUse('svc outbox replay needs --since <time>: the start of the replay');
  if (options.dryRun) return listRows(options, filterOf(options), limit);
  const config = sendingConfig(options);
  const counter = createProgress(process.stderr);
  let isInterrupted = false;
  const running = replayOutbox(
    config,
    consoleLogger(config.log.level === 'debug' ? 'debug' : 'warn'),
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
  // Where all was sent by then, there is nothing to go on with.
  const isStopped = isInterrupted && after !== undefined;
  if (options.json) {
    const stopped = isStopped ? onRequest : null;
    process.stdout.write(`${printableJson({ dryRun: false, ...result, stopped }, 2)}\n`);
  } else {
    const lines = [`${success} of ${eventsOf(total)} since ${since} sent again to their topics`];
    for (const eventId of failedEventIds) lines.push(`not sent: ${eventId}`);
    if (after !== undefined)
      lines.push(
        `${isStopped ? onRequest : 'stopped: the broker is away'}. --since ${since} --after ${after} goes on from here; without --after all are sent again`,
      );
    process.stderr.write(`${lines.map(printable).join('\n')}\n`);
  }
  return failed > 0 || after !== undefined ? 1 : 0;
}
