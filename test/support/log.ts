import type { Logger } from '../../src/observe/logger.ts';

/** For what has nothing to say that its test asks for. */
export const silentLog: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** Adds each line: `warn the broker is away`, or its text alone. */
export function logInto(lines: string[], hasLevel = true): Logger {
  const at = (level: string) => (message: string) =>
    void lines.push(hasLevel ? `${level} ${message}` : message);
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}
