import { writeSync } from 'node:fs';
import type { Clock } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { shared, startOwnWork } from '../ground/lifecycle.ts';
import { lazyPattern } from '../ground/names.ts';

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
        if (isFirst) console.warn('the logger of setLogger failed; svc writes its lines here');
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

/** Facts beside a log line: ids, counts, codes. Never a value of a payload, nor a name that each JSON line has. */
export type LogFields = Record<string, string | number | boolean | null | undefined> & {
  readonly [name in 'timestamp' | 'severity' | 'logger' | 'message' | 'details']?: never;
};

/** With further lines of the message, such as those of a report. */
interface LogLines {
  readonly details: readonly string[];
  readonly [name: string]: LogFields[string] | readonly string[];
}

type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'off';
type LineLevel = Exclude<LogLevel, 'off'>;
export type LogFormat = 'text' | 'json';

/** What a reader of lines other than svc gets beside a message. */
export interface LineFields {
  readonly logger: 'svc';
  /** Further lines of the message: those of a report. */
  readonly details?: readonly string[];
  readonly [name: string]: string | number | boolean | null | readonly string[] | undefined;
}

/** Characters of a message, a further line of it, or a field: of what is longer the middle is left out. */
const maxLogText = 1_000;

/** A text of svc's own that has line breaks on purpose, for a logger: in any other message they are escaped. */
export function inLines(text: string, fields?: LogFields): [message: string, fields: LogLines] {
  const [message = '', ...details] = text.split('\n');
  return [message, { ...fields, details }];
}

/** `svc: message key=value …`; further lines of a message follow its fields. */
function textLine(level: LineLevel, message: string, more: LogFields | LogLines = {}): string {
  const { details = [], ...fields } = more;
  const label = level === 'info' ? '' : `${level}: `;
  return `svc: ${label}${[shown(message) + formatFields(fields), ...details.map(shown)].join('\n')}\n`;
}

/** One JSON object on one line, whatever the message holds. */
function jsonLine(level: LineLevel, text: string, fields?: LogFields | LogLines): string {
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

/**
 * What may steer a terminal or show text in another order than it has: control characters, directions (bidi), marks that
 * cannot be seen, separators of lines, halves of characters. The joiners U+200C and U+200D stay: words of some languages and emoji are made of them.
 */
const unprintable = lazyPattern(String.raw`(?!\u200c|\u200d)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]`, 'gu');
const plain = /^[\x20-\x7e]*$/;
/** The same, but for the line ends that JSON with an indent has between its values: within texts it escapes them itself. */
const unprintableInJson = lazyPattern(String.raw`(?!\u200c|\u200d|\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]`, 'gu');

/** A text from elsewhere, safe for a terminal and on one line: each character that is not is shown as `\u202e`. */
export function printable(text: string): string {
  return plain.test(text) ? text : text.replace(unprintable(), escaped);
}

/** A value as JSON that is safe for a terminal. Whoever parses it gets the same value: the escapes are those of JSON. */
export function printableJson(value: unknown, indent?: number): string {
  const json = JSON.stringify(value, null, indent);
  return plain.test(json) ? json : json.replace(unprintableInJson(), escaped);
}

/** A long text without its middle: names come first, reasons last. */
function cutMiddle(text: string, most: number): string {
  if (text.length <= most) return text;
  return `${text.slice(0, Math.ceil(most / 2))}…${text.slice(-Math.floor(most / 2))}`;
}

/** By UTF-16 units, as JSON does. */
function escaped(character: string): string {
  let text = '';
  for (let index = 0; index < character.length; index++)
    text += `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`;
  return text;
}

/** A logger of the application: `console`, one of winston, or anything with these functions. */
export interface SvcLogger {
  debug(message: string, fields: LineFields): unknown;
  info(message: string, fields: LineFields): unknown;
  warn(message: string, fields: LineFields): unknown;
  error(message: string, fields: LineFields): unknown;
}

/** A logger of pino, which takes the fields first and is known by its `bindings`. */
export interface PinoLogger {
  bindings(): object;
  debug(fields: object, message: string): unknown;
  info(fields: object, message: string): unknown;
  warn(fields: object, message: string): unknown;
  error(fields: object, message: string): unknown;
}

interface OwnLogger {
  say(level: LineLevel, message: string, fields: LineFields): unknown;
  hasFailed: boolean;
}

const state = shared<{ current: OwnLogger | undefined; isSaying: boolean }>('logger', () => ({
  current: undefined,
  isSaying: false,
}));

const levels = ['debug', 'info', 'warn', 'error'] as const satisfies readonly LineLevel[];
const done = Promise.resolve();

/**
 * Hands svc's own lines of this thread to a logger of the application, from now on, instead of standard error.
 * `svc.log.level` still decides which. Returns the way back to standard error.
 *
 * @throws SvcError `SVC_OBSERVE_LOGGER` for what is none.
 */
export function setLogger(logger: SvcLogger | PinoLogger): () => void {
  const missing = levels.filter((level) => typeof logger?.[level] !== 'function');
  if (missing.length > 0)
    throw new SvcError('SVC_OBSERVE_LOGGER', `not a logger: it has no function ${missing.join(', ')}`);
  const own: OwnLogger = {
    say: isPino(logger) ? sayFieldsFirst(logger) : sayTo(logger),
    hasFailed: false,
  };
  state.current = own;
  return () => {
    if (state.current === own) state.current = undefined;
  };
}

function isPino(logger: SvcLogger | PinoLogger): logger is PinoLogger {
  return 'bindings' in logger && typeof logger.bindings === 'function';
}

function sayTo(logger: SvcLogger): OwnLogger['say'] {
  return (level, message, fields) => logger[level](message, fields);
}

function sayFieldsFirst(logger: PinoLogger): OwnLogger['say'] {
  return (level, message, fields) => logger[level](fields, message);
}

/**
 * False when there is no logger of the application, or when this is said while it writes another line. When it fails,
 * `instead` is called, with `true` at its first failure.
 */
function tellOwnLogger(
  level: LineLevel,
  text: string,
  logFields: LogFields | LogLines | undefined,
  instead: (isFirst: boolean) => void,
): boolean {
  const own = state.current;
  if (own === undefined || state.isSaying) return false;
  const failed = (): void => {
    const isFirst = !own.hasFailed;
    own.hasFailed = true;
    instead(isFirst);
  };
  const { message, fields } = structured(text, logFields);
  state.isSaying = true;
  try {
    // Functions of the application that its logger calls make no events: their lines would make more of them.
    void startOwnWork(() => {
      const work = own.say(level, message, fields);
      return work instanceof Promise ? work.catch(failed) : done;
    });
  } catch {
    failed();
  } finally {
    state.isSaying = false;
  }
  return true;
}

/** At most one line in this time for one key, so that an outage does not fill the disk with log lines. */
export const quietMs = 10_000;
/** Keys that are remembered, for brokers name them, too; what comes beyond them shares one. */
const maxKeys = 100;

export interface ThrottledLogOptions {
  /** Default: error. */
  readonly level?: 'warn' | 'error';
  /** Default: `quietMs`. */
  readonly intervalMs?: number;
  /** The next line of a key says how many were left out: `andBefore`. Default: true. */
  readonly saysLeftOut?: boolean;
}

export type QuietLog = (key: string, message: string, fields?: LogFields | LogLines) => void;

/** Lines for what can happen at every call. */
export function throttledLog(
  logger: Logger,
  clock: Clock,
  { level = 'error', intervalMs = quietMs, saysLeftOut = true }: ThrottledLogOptions = {},
): QuietLog {
  const lines = new Map<string, { saidAtMs: number; leftOut: number }>();
  return (key, message, fields) => {
    const known = lines.has(key) || lines.size < maxKeys ? key : '';
    const line = lines.get(known);
    const now = clock.monotonic();
    if (line !== undefined && now - line.saidAtMs < intervalMs) {
      line.leftOut++;
      return;
    }
    const leftOut = saysLeftOut ? (line?.leftOut ?? 0) : 0;
    lines.set(known, { saidAtMs: now, leftOut: 0 });
    logger[level](message, leftOut > 0 ? { ...fields, andBefore: leftOut } : fields);
  };
}
