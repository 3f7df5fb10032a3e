// outbox/: the commands of `svc outbox`.

import { SvcError } from '../../ground/errors.ts';
import { consoleLogger } from '../../observe/logger.ts';
import { printable, printableJson } from '../../observe/printable.ts';
import { useOutbox } from '../../start/outbox/use-outbox.ts';
import { outboxConfig } from './outbox-config.ts';
import type { OutboxOptions } from './outbox-options.ts';

/** What a database or broker answers is no fault of svc: its message, and exit code 1. */
export async function answered(command: () => Promise<number>): Promise<number> {
  try {
    return await command();
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    process.stderr.write(`svc: ${printable(error.message)}\n`);
    return 1;
  }
}

/** `svc outbox stats`. */
export async function runStats(options: OutboxOptions): Promise<number> {
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
