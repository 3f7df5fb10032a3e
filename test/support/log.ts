import { type Logger, useLogger as useInSvc } from '../../src/observe/logger.ts';

/** For what has nothing to say that its test asks for. */
export const silentLog: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** Adds each line: `warn the broker is away`, or its text alone. */
export function logInto(lines: string[], hasLevel = true): Logger {
  const at = (level: string) => (message: string) =>
    void lines.push(hasLevel ? `${level} ${message}` : message);
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** Where svc's log goes while no test has set another one. */
let usual = silentLog;

/** svc's log goes there until the test ends. What `target` leaves out says nothing. */
export function useLogger(target: Partial<Logger>): void {
  useInSvc({ ...silentLog, ...target });
}

/** The same for all tests, as for a service that several of them use. */
export function useLoggerInAll(target: Logger): void {
  usual = target;
  useInSvc(usual);
}

export function usualLogger(): void {
  useInSvc(usual);
}
