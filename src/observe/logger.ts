import { writeSync } from 'node:fs';
import {
  jsonLine,
  type LineLevel,
  type LogFields,
  type LogFormat,
  type LogLevel,
  type LogLines,
  textLine,
} from './log-line.ts';
import { tellOwnLogger } from './own-logger.ts';

export type { LogFields, LogFormat, LogLevel, LogLines } from './log-line.ts';
export { inLines } from './log-line.ts';

/**
 * PORT: where svc's own lines go. Never throws, never holds payload values. Synchronous, unless the application's is not.
 * A message is one line, whatever stands in it: what may steer a terminal is escaped, and of more than 1,000 characters the middle
 * is left out. `inLines` is for texts of several.
 */
export interface Logger {
  debug(message: string, fields?: LogFields | LogLines): void;
  info(message: string, fields?: LogFields | LogLines): void;
  warn(message: string, fields?: LogFields | LogLines): void;
  error(message: string, fields?: LogFields | LogLines): void;
}

const order: Record<LogLevel, number> = { debug: 0, info: 1, warn: 2, error: 3, off: 4 };

/** Writes to the logger that the application has set, else to standard error. */
export function consoleLogger(
  level: LogLevel,
  format: LogFormat = 'text',
  write: (line: string) => void = writeToStderr,
): Logger {
  const console = stderrLogger(level, format, write);
  const at = (lineLevel: LineLevel): Logger['info'] => {
    if (order[lineLevel] < order[level]) return () => {};
    return (message, fields) => {
      const instead = (isFirst: boolean): void => {
        if (isFirst) console.warn('the logger given to setLogger failed: its lines stand here');
        console[lineLevel](message, fields);
      };
      if (!tellOwnLogger(lineLevel, message, fields, instead)) console[lineLevel](message, fields);
    };
  };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** To standard error alone: for what is said right before the process is ended. */
export function stderrLogger(
  level: LogLevel,
  format: LogFormat,
  write: (line: string) => void = writeToStderr,
): Logger {
  const lineOf = format === 'json' ? jsonLine : textLine;
  const at = (lineLevel: LineLevel): Logger['info'] =>
    order[lineLevel] < order[level]
      ? () => {}
      : (message, fields) => write(lineOf(lineLevel, message, fields));
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** Not through `process.stderr`: when whoever reads it is gone, that ends the process with an error that nobody handles. */
function writeToStderr(line: string): void {
  try {
    writeSync(2, line);
  } catch {
    // A closed standard error must not become the application's problem.
  }
}
