// outbox/: the commands of `svc outbox`.

import { SvcError } from '../../ground/errors.ts';
import { consoleLogger } from '../../observe/logger.ts';
import { printable, printableJson } from '../../observe/printable.ts';
import { useOutbox } from '../../start/outbox/use-outbox.ts';
import { WrongUse } from '../recovery-options.ts';
import { runDiscard, runList, runRetryFailed } from './change-rows.ts';
import { runDebezium } from './debezium.ts';
import { outboxConfig } from './outbox-config.ts';
import { parseOutboxOptions } from './outbox-options.ts';
import { runReplay } from './replay.ts';
import { runDdl, runMigrate, runTableCheck } from './tables.ts';

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
