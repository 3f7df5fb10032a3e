import { isMainThread } from 'node:worker_threads';
import type { Config } from '../config/config.ts';
import { logger } from '../observe/logger.ts';
import type { Managed } from './management.ts';

const managementAfterMs = 50;

/** The server of an earlier start releases its port before the next server opens it. */
let closing: Promise<void> | undefined;

/** Starts the management server after the application's own start. A script that ends earlier starts no server. */
export function manageLater(config: Config, managed: Managed) {
  const open = async () => {
    await closing;
    return (await import('./management.ts')).startManagement(config, managed);
  };
  let opening: ReturnType<typeof open> | undefined;
  let opened: Awaited<ReturnType<typeof open>>;
  // A server without endpoints is not even loaded.
  const { server, endpoints } = config.management;
  const isOff = server.port === -1 || endpoints.web.exposure.include?.length === 0;
  if (!isMainThread || isOff)
    return { isRunning: () => false, stopRuns: async (_deadlineMs: number) => {}, close: async () => {} };
  const timer = setTimeout(() => {
    opening = open();
    opening.then(
      (it) => {
        opened = it;
      },
      (error: Error) => logger.warn(`management server not started: ${error.message}`),
    );
  }, managementAfterMs);
  timer.unref();
  return {
    /** Whether a recovery runs. It does not keep the process alive, and must be stopped in order. */
    isRunning: () => opened?.isRunning() ?? false,
    stopRuns: async (deadlineMs: number): Promise<void> =>
      (await opening?.catch(() => undefined))?.stopRuns(deadlineMs),
    close(): Promise<void> {
      clearTimeout(timer);
      const ending = async () => (await opening?.catch(() => undefined))?.close();
      closing = ending();
      return closing;
    },
  };
}
