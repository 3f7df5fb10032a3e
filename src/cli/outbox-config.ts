import { formatProblem, type Problem } from '../config/check/validate.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/read/load.ts';
import { optionNamed, targetsName } from '../config/schema/schema.ts';
import { SvcError } from '../ground/errors.ts';
import { consoleLogger } from '../observe/logger.ts';
import { erasesRows } from '../outbox/erase-row.ts';
import { relayAlone } from '../start/outbox/relay-alone.ts';
import { dialectOf } from '../transaction/driver.ts';
import { onStopSignal } from './progress.ts';
import { recoveryConfig } from './recovery.ts';
import { settingsInCode, WrongUse } from './wrong-use.ts';

const noOutbox = `no outbox: set svc.outbox.enabled: true, and svc.outbox.datasource.url or the variable DATABASE_URL. ${settingsInCode}`;

/**
 * The configuration for an outbox command. Problems elsewhere in it are ignored.
 *
 * @throws WrongUse
 */
export function outboxConfig({ config: file }: { readonly config?: string | undefined }): Config {
  const { config, problems } = loadConfig({ file });
  refuse(problems.filter(isOfOutbox));
  if (config.outbox.datasource.url === undefined) throw new WrongUse(noOutbox);
  sayFile(config);
  return config;
}

/**
 * The same, with the broker.
 *
 * @throws WrongUse
 */
export function sendingConfig(options: {
  readonly config?: string | undefined;
  readonly broker?: string | undefined;
}): Config {
  outboxConfig(options);
  const { config, checkBroker } = recoveryConfig(options);
  checkBroker();
  return config;
}

/**
 * The configuration for `svc relay`: log, management server and shutdown must also be valid, and the outbox enabled.
 *
 * @throws WrongUse
 */
function relayConfig(options: {
  readonly config?: string | undefined;
  readonly broker?: string | undefined;
}): Config {
  const { config, problems, notFound } = loadConfig({ file: options.config });
  if (!config.enabled) throw new WrongUse('svc.enabled is false: there is nothing to relay');
  refuse(problems.filter(({ name }) => /^(svc\.(log|shutdown)|management)\./.test(name)));
  if (notFound !== undefined) throw new WrongUse(`${notFound} ${settingsInCode}`);
  if (!config.outbox.enabled) throw new WrongUse('the outbox is off: set svc.outbox.enabled: true');
  if (erasesRows(config.outbox) && dialectOf(config.outbox.datasource.url ?? '') !== 'sqlite')
    throw new WrongUse(
      'svc.outbox.publisher-enabled: false with svc.outbox.retention-days: 0 is for Debezium, and deletes rows in the transaction that wrote them. For svc relay, set svc.outbox.retention-days to 1 or more',
    );
  return sendingConfig(options);
}

function isOfOutbox({ name }: Problem): boolean {
  return name !== targetsName && (name.startsWith('svc.outbox.') || optionNamed(name) === undefined);
}

function refuse(wrong: readonly Problem[]): void {
  if (wrong.length > 0) throw new WrongUse(wrong.map(formatProblem).join('\nsvc: '));
}

function sayFile({ file }: Config): void {
  if (file !== undefined) process.stderr.write(`svc: configuration ${file}\n`);
}

/** Runs work that the first Ctrl-C stops in order. The second Ctrl-C ends the process. */
export async function stoppable<T>(
  work: (isStopped: () => boolean) => Promise<T>,
  onStop: () => void,
): Promise<T> {
  let isStopped = false;
  const forget = onStopSignal(() => {
    isStopped = true;
    onStop();
  });
  try {
    return await work(() => isStopped);
  } finally {
    forget();
  }
}

export function sayStopping(): void {
  process.stderr.write('\nsvc: stopping after the current batch\n');
}

interface RelayOptions {
  readonly config?: string;
  readonly broker?: string;
}

export async function runRelayCommand(options: RelayOptions): Promise<number> {
  const config = relayConfig(options);
  const logger = consoleLogger(config.log.level, config.log.format);
  const stopping = new AbortController();
  // A second signal ends the process. Rows in flight are then sent again after the leases expire.
  onStopSignal(() => stopping.abort());
  try {
    return (await relayAlone(config, logger, stopping.signal)) ? 0 : 1;
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    logger.error(`relay: ${error.message}`, { code: error.code });
    return 1;
  }
}
