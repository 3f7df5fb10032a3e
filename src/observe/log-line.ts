import { cutMiddle, printable, printableJson } from './printable.ts';

/** Facts beside a log line: ids, counts, codes. Never a value of a payload, nor a name that each JSON line has. */
export type LogFields = Record<string, string | number | boolean | null | undefined> & {
  readonly [name in 'timestamp' | 'severity' | 'logger' | 'message' | 'details']?: never;
};

/** With further lines of the message, such as those of a report. */
export interface LogLines {
  readonly details: readonly string[];
  readonly [name: string]: LogFields[string] | readonly string[];
}

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

/** Characters of a message, a further line of it, or a field: of what is longer the middle is left out. */
export const maxLogText = 1_000;

/** A text of svc's own that has line breaks on purpose, for a logger: in any other message they are escaped. */
export function inLines(text: string, fields?: LogFields): [message: string, fields: LogLines] {
  const [message = '', ...details] = text.split('\n');
  return [message, { ...fields, details }];
}

/** `svc: message key=value …`; further lines of a message follow its fields. */
export function textLine(level: LineLevel, message: string, more: LogFields | LogLines = {}): string {
  const { details = [], ...fields } = more;
  const label = level === 'info' ? '' : `${level}: `;
  return `svc: ${label}${[shown(message) + formatFields(fields), ...details.map(shown)].join('\n')}\n`;
}

/** One JSON object on one line, whatever the message holds. */
export function jsonLine(level: LineLevel, text: string, fields?: LogFields | LogLines): string {
  const { message, fields: others } = structured(text, fields);
  const timestamp = new Date().toISOString();
  return `${JSON.stringify({ timestamp, severity: level.toUpperCase(), message, ...others })}\n`;
}

/** A message of one line, and all else as fields. */
export function structured(
  text: string,
  more: LogFields | LogLines = {},
): { message: string; fields: LineFields } {
  const { details: lines = [], ...fields } = more;
  const details = lines.map((line) => shown(line.trim())).filter((line) => line !== '');
  const known = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, typeof value === 'string' ? shown(value) : value]);
  return {
    message: shown(text),
    fields: { logger: 'svc', ...Object.fromEntries(known), ...(details.length > 0 && { details }) },
  };
}

/** Names and reasons come from rows, headers and other machines: they must not begin lines of their own, nor fill the log. */
function shown(text: string): string {
  return printable(cutMiddle(text, maxLogText));
}

function formatFields(fields: Readonly<Record<string, unknown>>): string {
  let text = '';
  for (const [key, value] of Object.entries(fields)) {
    if (value !== undefined)
      text += ` ${key}=${typeof value === 'string' ? printableJson(cutMiddle(value, maxLogText)) : value}`;
  }
  return text;
}
