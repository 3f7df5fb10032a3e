import assert from 'node:assert/strict';
import type { Controls } from '../../src/manage/controls.ts';
import { type ManagementServer, startManagementServer } from '../../src/manage/server.ts';
import type { Logger } from '../../src/observe/logger.ts';
import { useLogger } from '../support/log.ts';
import { fakeControls } from './fake-controls.ts';

type ManagementOptions = Parameters<typeof startManagementServer>[0];
type LogFields = Parameters<Logger['warn']>[1];

export const defaultOptions: ManagementOptions = {
  port: 0,
  address: '127.0.0.1',
  token: undefined,
  exposure: ['*'],
  showDetails: 'always',
};

export interface ServerHarness {
  readonly logger: Logger;
  /** Everything logged in this test. */
  readonly lines: [string, LogFields][];
  /** Starts a server and returns its port; the one before it is stopped. */
  start(options?: Partial<ManagementOptions>, controls?: Controls): Promise<number>;
  stop(): Promise<void>;
}

/** For use inside `describe`: servers end with their test. */
export function serverHarness(): ServerHarness {
  let server: ManagementServer | undefined;
  const lines: [string, LogFields][] = [];
  const log = (message: string, fields?: LogFields): void => void lines.push([message, fields]);
  const logger: Logger = { debug: log, info: log, warn: log, error: log };
  const stop = async (): Promise<void> => {
    await server?.close();
    server = undefined;
  };
  afterEach(async () => {
    await stop();
    lines.length = 0;
  });
  return {
    logger,
    lines,
    stop,
    async start(options = {}, controls = fakeControls()) {
      await stop();
      useLogger(logger);
      server = await startManagementServer({ ...defaultOptions, ...options }, controls, true);
      assert.ok(server, lines.join());
      return server.port;
    },
  };
}
