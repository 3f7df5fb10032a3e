/** Facts beside a log line: ids, counts, codes. Never a value of a payload, nor a name that each JSON line has. */
export type LogFields = Record<string, string | number | boolean | null | undefined> & {
  readonly [name in 'timestamp' | 'severity' | 'logger' | 'message' | 'details']?: never;
};

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'off';
export type LineLevel = Exclude<LogLevel, 'off'>;
export type LogFormat = 'text' | 'json';

/** What a reader of lines other than svc gets beside a message. */
export interface LineFields {
  readonly logger: 'svc';
  /** Further lines of the message: those of a report. */
  readonly details?: readonly string[];
  readonly [name: string]: string | number | boolean | null | readonly string[] | undefined;
}

/** Python, for one, ends a line at these as well. */
const otherLineEnds = /[\u0085\u2028\u2029]/g;

/** `svc: message key=value …`; further lines of a message follow its fields. */
export function textLine(level: LineLevel, message: string, fields?: LogFields): string {
  const label = level === 'info' ? '' : `${level}: `;
  const [first = '', ...more] = message.split('\n');
  return `svc: ${label}${[first + formatFields(fields), ...more].join('\n')}\n`;
}

/** One JSON object on one line, whatever the message holds. */
export function jsonLine(level: LineLevel, text: string, fields?: LogFields): string {
  const { message, fields: others } = structured(text, fields);
  const timestamp = new Date().toISOString();
  const json = JSON.stringify({ timestamp, severity: level.toUpperCase(), message, ...others });
  return `${json.replace(otherLineEnds, (end) => `\\u${end.charCodeAt(0).toString(16).padStart(4, '0')}`)}\n`;
}

/** A message of one line, and all else as fields. */
export function structured(text: string, fields?: LogFields): { message: string; fields: LineFields } {
  const [message = '', ...more] = text.split('\n');
  const details = more.map((line) => line.trim()).filter((line) => line !== '');
  const known = Object.fromEntries(Object.entries(fields ?? {}).filter(([, value]) => value !== undefined));
  return { message, fields: { logger: 'svc', ...known, ...(details.length > 0 && { details }) } };
}

function formatFields(fields: LogFields | undefined): string {
  let text = '';
  for (const [key, value] of Object.entries(fields ?? {})) {
    if (value !== undefined) text += ` ${key}=${typeof value === 'string' ? JSON.stringify(value) : value}`;
  }
  return text;
}
