import { nextTurn } from '../../ground/builtins.ts';
import { consoleLogger } from '../../observe/logger.ts';
import { printableJson } from '../../observe/printable.ts';
import { pagesOf } from '../../outbox/batches.ts';
import type { OutboxStore, RowFilter } from '../../outbox/outbox-store.ts';
import { useOutbox } from '../../start/outbox/use-outbox.ts';
import { createColumns } from '../columns.ts';
import { createProgress } from '../progress.ts';
import { onRequest } from '../recovery/recovery-output.ts';
import { WrongUse } from '../wrong-use.ts';
import { outboxConfig } from './outbox-config.ts';
import { filterOf, type OutboxOptions } from './outbox-options.ts';
import { eventsOf, rowColumns, rowDocument, rowHead } from './row-output.ts';
import { sayStopping, stoppable } from './stoppable.ts';

const listLimit = 1_000;

/** `svc outbox list`. */
export async function runList(options: OutboxOptions): Promise<number> {
  return listRows(options, filterOf(options), options.limit ?? listLimit);
}

/** `svc outbox retry-failed`: FAILED events are tried anew, with all their tries. */
export async function runRetryFailed(options: OutboxOptions): Promise<number> {
  if (options.status?.some((status) => status !== 'FAILED'))
    throw new WrongUse('svc outbox retry-failed takes FAILED events only: leave --status out');
  const filter: RowFilter = { ...filterOf(options), statuses: ['FAILED'] };
  return changeRows(options, filter, (store, rows) => store.retry(rows), 'will be sent again', 'retried');
}

/** `svc outbox discard`: events are deleted, as if they had never been. FAILED ones, where no status is named. */
export async function runDiscard(options: OutboxOptions): Promise<number> {
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
export async function listRows(options: OutboxOptions, filter: RowFilter, limit: number): Promise<number> {
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
