import { writeSync } from 'node:fs';

/** Facts beside a log line: ids, counts, codes. Never a value of a payload. */
export type LogFields = Record<string, string | number | boolean | null | undefined>;

/** PORT: where svc's own lines go. Synchronous, never throws, never holds payload values. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'off';

const order: Record<LogLevel, number> = { debug: 0, info: 1, warn: 2, error: 3, off: 4 };

/** Writes `svc: message key=value …` to standard error, one line a call; further lines of a message follow its fields. */
export function consoleLogger(level: LogLevel, write: (line: string) => void = writeToStderr): Logger {
  const at = (lineLevel: LogLevel) => {
    const label = lineLevel === 'info' ? '' : `${lineLevel}: `;
    return order[lineLevel] < order[level]
      ? () => {}
      : (message: string, fields?: LogFields) => {
          const [first = '', ...more] = message.split('\n');
          write(`svc: ${label}${[first + formatFields(fields), ...more].join('\n')}\n`);
        };
  };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

function formatFields(fields: LogFields | undefined): string {
  let text = '';
  for (const [key, value] of Object.entries(fields ?? {})) {
    if (value !== undefined) text += ` ${key}=${typeof value === 'string' ? JSON.stringify(value) : value}`;
  }
  return text;
}

/** Not through `process.stderr`: when whoever reads it is gone, that ends the process with an error that nobody handles. */
function writeToStderr(line: string): void {
  try {
    writeSync(2, line);
  } catch {
    // A closed standard error must not become the application's problem.
  }
}
