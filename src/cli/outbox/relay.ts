import { parseArgs } from 'node:util';
import { SvcError } from '../../ground/errors.ts';
import { consoleLogger } from '../../observe/logger.ts';
import { relayAlone } from '../../start/outbox/relay-alone.ts';
import { WrongUse } from '../recovery-options.ts';
import { relayConfig } from './outbox-config.ts';

export const relayUsage = `svc relay: sends the events of the outbox to their topics, without the application

Usage: svc relay [options]

It runs until SIGTERM or Ctrl-C, then finishes the batch under way within svc.shutdown.timeout-ms and gives its rows back to
other relays. Outages of the database and the broker it waits out. Set svc.outbox.publisher-enabled: false for the application
that leaves the sending to it. Health and metrics are on the management port.

Options
  --broker <host:port,...>   instead of svc.broker.bootstrap-servers
  --config <file>            configuration file (default: svc.config.* of the project, from the working directory up)
  --help, -h                 this text

Exit codes: 0 stopped in order, 1 it cannot begin or sends were under way at the end, 2 the outbox is off or the configuration wrong.
`;

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
