// recovery/: what operators do with dead letters and backups.

import type { Config } from '../../config/config.ts';
import { SvcError } from '../../ground/errors.ts';
import { consoleLogger } from '../../observe/logger.ts';
import { printable, printableJson } from '../../observe/printable.ts';
import { type RecoveryPlace, runRecovery } from '../../start/commands/recovery.ts';
import { createTopicRefusal } from '../../start/commands/written-topics.ts';
import { createProgress, onStopSignal } from '../progress.ts';
import { WrongUse } from '../wrong-use.ts';
import { createListing } from './listing.ts';
import { recoveryConfig } from './recovery-config.ts';
import { acceptOf, type RecoveryOptions } from './recovery-options.ts';
import { onRequest, summaryLines, summaryOf } from './recovery-output.ts';

export type Action = 'list' | 'send';

/** A list marks nothing, so that nobody has to wait for the batch under way. */
const listEndsWithinMs = 500;

function endList(): never {
  process.stderr.write(`svc: ${onRequest}: there may be more\n`);
  process.exit(1);
}

/**
 * Lists or sends. Exit codes: 0 done, 1 something is left that was asked for, 2 wrong use.
 *
 * @throws WrongUse
 */
export async function runRecoveryCommand(
  options: RecoveryOptions,
  action: Action,
  placeOf: (config: Config) => RecoveryPlace,
): Promise<number> {
  const accept = acceptOf(options);
  const { config, checkBroker } = recoveryConfig(options);
  if (config.file !== undefined) process.stderr.write(`svc: configuration ${config.file}\n`);
  const place = placeOf(config);
  const logger = consoleLogger(config.log.level === 'debug' ? 'debug' : 'warn');
  const isSending = action === 'send' && options.dryRun !== true;
  const isListing = action === 'list' || options.dryRun === true;
  if (isSending || place.kind === 'dlq') checkBroker();
  const refusalOf = createTopicRefusal(
    config,
    [...(options.topic ?? []), options.to],
    [config.broker.dlqTopic, place.kind === 'dlq' ? place.topic : undefined],
  );
  const bar = createProgress(process.stderr);
  // A list on the same terminal says by itself how far it is.
  const hasBar = isSending || options.json === true || process.stdout.isTTY !== true;
  let isStopped = false;
  const forget = onStopSignal(() => {
    // A second time ends the process: at most the batch under way is then sent again.
    isStopped = true;
    if (isSending) process.stderr.write('\nsvc: stopping after the batch under way\n');
    else setTimeout(endList, listEndsWithinMs).unref();
  });
  const listing = isListing
    ? createListing({ isJson: options.json === true, isSorted: place.kind === 'dlq' }, (text) =>
        process.stdout.write(text),
      )
    : undefined;
  try {
    const result = await runRecovery(config, logger, {
      place,
      isSending,
      accept,
      fallbackTopic: options.to,
      refusalOf: action === 'send' ? refusalOf : undefined,
      ratePerSecond: options.rate ?? 0,
      isStopped: () => isStopped,
      onProgress: (report, total) => {
        const { matched, skipped, failed } = report;
        if (hasBar) bar.show(matched + skipped, total, failed > 0 ? `${failed} failed` : undefined);
      },
      onEvent: (event) => listing?.add(event),
    });
    bar.end();
    const events = listing?.end();
    if (options.json) {
      const document = { dryRun: !isSending, ...summaryOf(result), ...(events !== undefined && { events }) };
      process.stdout.write(`${printableJson(document, 2)}\n`);
    } else process.stderr.write(summaryLines(result, isSending));
    const isLeft = result.failed > 0 || result.unreadable.length > 0 || result.isInterrupted;
    return isLeft ? 1 : 0;
  } catch (error) {
    bar.end();
    if (error instanceof WrongUse) throw error;
    if (!(error instanceof SvcError)) throw error;
    process.stderr.write(`svc: ${printable(error.message)}\n`);
    return 1;
  } finally {
    forget();
  }
}
