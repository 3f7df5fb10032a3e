import { SvcError } from '../ground/errors.ts';
import { consoleLogger } from '../observe/logger.ts';
import { relayAlone } from '../start/outbox/relay-alone.ts';
import { relayConfig } from './outbox-config.ts';
import { onStopSignal } from './progress.ts';

interface RelayOptions {
  readonly config?: string;
  readonly broker?: string;
}

/** `svc relay`. */
export async function runRelayCommand(options: RelayOptions): Promise<number> {
  const config = relayConfig(options);
  const logger = consoleLogger(config.log.level, config.log.format);
  const stopping = new AbortController();
  // A second time ends the process: what is under way is then sent again, when the leases have ended.
  onStopSignal(() => stopping.abort());
  try {
    return (await relayAlone(config, logger, stopping.signal)) ? 0 : 1;
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    logger.error(`relay: ${error.message}`, { code: error.code });
    return 1;
  }
}
