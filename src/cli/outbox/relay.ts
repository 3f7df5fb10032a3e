import { parseArgs } from 'node:util';
import { SvcError } from '../../ground/errors.ts';
import { consoleLogger } from '../../observe/logger.ts';
import { relayAlone } from '../../start/outbox/relay-alone.ts';
import { WrongUse } from '../recovery-options.ts';
import { relayConfig } from './outbox-config.ts';

/** `svc relay`. */
export async function runRelayCommand(args: readonly string[]): Promise<number> {
  const { config: file, broker } = optionsOf(args);
  const config = relayConfig({ config: file, broker });
  const logger = consoleLogger(config.log.level, config.log.format);
  const stopping = new AbortController();
  const stop = (): void => stopping.abort();
  // A second time ends the process: what is under way is then sent again, when the leases have ended.
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
  try {
    return (await relayAlone(config, logger, stopping.signal)) ? 0 : 1;
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    logger.error(`relay: ${error.message}`, { code: error.code });
    return 1;
  }
}

function optionsOf(args: readonly string[]): { config: string | undefined; broker: string | undefined } {
  try {
    const options = { config: { type: 'string' }, broker: { type: 'string' } } as const;
    const { config, broker } = parseArgs({ args: [...args], options }).values;
    return { config, broker };
  } catch (error) {
    throw new WrongUse((error as Error).message);
  }
}
