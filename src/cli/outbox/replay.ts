import { consoleLogger } from '../../observe/logger.ts';
import { printable, printableJson } from '../../observe/printable.ts';
import { replayOutbox } from '../../start/outbox/use-outbox.ts';
import { createProgress } from '../progress.ts';
import { onRequest } from '../recovery/recovery-output.ts';
import { WrongUse } from '../wrong-use.ts';
import { listRows } from './change-rows.ts';
import { sendingConfig } from './outbox-config.ts';
import { filterOf, type OutboxOptions } from './outbox-options.ts';
import { eventsOf } from './row-output.ts';
import { sayStopping, stoppable } from './stoppable.ts';

/** As that of `POST /actuator/svc-outbox`. */
const defaultLimit = 1_000;

/** `svc outbox replay`: events are sent again to their topics, whatever their status, and stay as they are. */
export async function runReplay(options: OutboxOptions): Promise<number> {
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
