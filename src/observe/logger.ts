import { writeSync } from 'node:fs';
import { clock } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { shared, startOwnWork } from '../ground/lifecycle.ts';
import { lazyPattern } from '../ground/names.ts';

/**
 * PORT: the target of svc's own log lines. Never throws, never holds payload values. Synchronous, unless the application's
 * logger is not. A message is one line: control characters are escaped, and a text of more than 1,000 characters loses its
 * middle. Use `inLines` for several lines.
 */
export interface Logger {
  debug(message: string, fields?: LogFields | LogLines): void;
  info(message: string, fields?: LogFields | LogLines): void;
  warn(message: string, fields?: LogFields | LogLines): void;
  error(message: string, fields?: LogFields | LogLines): void;
}

/** svc's log of this thread. */
export const logger: Logger = {
  debug: (message, fields) => thread.logger.debug(message, fields),
  info: (message, fields) => thread.logger.info(message, fields),
  warn: (message, fields) => thread.logger.warn(message, fields),
  error: (message, fields) => thread.logger.error(message, fields),
};

/** `logger` writes there from now on. */
export function useLogger(target: Logger): void {
  thread.logger = target;
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

/** Always writes to standard error: for messages right before the process ends. */
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

/** Not through `process.stderr`: if its reader has closed the pipe, that ends the process with an unhandled error. */
function writeToStderr(line: string): void {
  try {
    writeSync(2, line);
  } catch {
    // A closed standard error must not fail the application.
  }
}

/** Fields of a log line: ids, counts, codes. Never a payload value, nor a field name that every JSON line has. */
type LogFields = Record<string, string | number | boolean | null | undefined> & {
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

/** The fields that loggers other than svc's get with a message. */
export interface LineFields {
  readonly logger: 'svc';
  /** Further lines of the message: those of a report. */
  readonly details?: readonly string[];
  readonly [name: string]: string | number | boolean | null | readonly string[] | undefined;
}

/** Characters of a message, a further line, or a field: longer ones lose their middle. */
const maxLogText = 1_000;

/** A text of svc with intentional line breaks, which other messages escape. */
export function inLines(text: string, fields?: LogFields): [message: string, fields: LogLines] {
  const [message = '', ...details] = text.split('\n');
  return [message, { ...fields, details }];
}

/** `svc: message key=value …`; further lines of the message follow the fields. */
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

/** A one-line message, and everything else as fields. */
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

/** Names and reasons come from rows, headers and other machines: they must not start new lines or fill the log. */
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
 * Characters that control a terminal or reorder text: control characters, bidi marks, invisible characters, line separators,
 * lone surrogates. The joiners U+200C and U+200D are allowed: words of some languages and emoji contain them.
 */
const unprintable = lazyPattern(String.raw`(?!\u200c|\u200d)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]`, 'gu');
const plain = /^[\x20-\x7e]*$/;
/** The same, except for the line breaks of indented JSON; within texts JSON escapes them itself. */
const unprintableInJson = lazyPattern(String.raw`(?!\u200c|\u200d|\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]`, 'gu');

/** A text from elsewhere, safe for a terminal and on one line: unsafe characters are shown as `\u202e`. */
export function printable(text: string): string {
  return plain.test(text) ? text : text.replace(unprintable(), escaped);
}

/** A value as JSON that is safe for a terminal. It parses to the same value: the escapes are those of JSON. */
export function printableJson(value: unknown, indent?: number): string {
  const json = JSON.stringify(value, null, indent);
  return plain.test(json) ? json : json.replace(unprintableInJson(), escaped);
}

/** Names come first and reasons last, so the middle is cut. */
function cutMiddle(text: string, max: number): string {
  if (text.length <= max) return text;
  return `${text.slice(0, Math.ceil(max / 2))}…${text.slice(-Math.floor(max / 2))}`;
}

/** By UTF-16 unit, as in JSON. */
function escaped(character: string): string {
  let text = '';
  for (let index = 0; index < character.length; index++)
    text += `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`;
  return text;
}

/** A logger of the application: `console`, a winston logger, or any object with these functions. */
export interface SvcLogger {
  debug(message: string, fields: LineFields): unknown;
  info(message: string, fields: LineFields): unknown;
  warn(message: string, fields: LineFields): unknown;
  error(message: string, fields: LineFields): unknown;
}

/** A pino logger, which takes the fields first and is recognized by its `bindings`. */
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

const thread = shared<{ logger: Logger }>('log', () => ({ logger: consoleLogger('info') }));

const levels = ['debug', 'info', 'warn', 'error'] as const satisfies readonly LineLevel[];
const done = Promise.resolve();

/**
 * Sends svc's log lines of this thread to a logger of the application instead of standard error. `svc.log.level` still applies.
 * Returns a function that restores standard error.
 * @throws SvcError `SVC_OBSERVE_LOGGER` if the object is not a logger
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
 * False if the application has set no logger, or if its logger is already writing a line. `instead` is called when the logger
 * fails, with `true` at its first failure.
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
    // Captured functions that the logger calls make no events here: their log lines would cause more.
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

/** One line per key in this time, so that an outage does not fill the disk. */
const quietMs = 10_000;
/** Keys that are remembered, as brokers name them too. Later keys share one entry. */
const maxKeys = 100;

interface ThrottledLogOptions {
  /** Default: error. */
  readonly level?: 'warn' | 'error';
  /** Default: `quietMs`. */
  readonly intervalMs?: number;
  /** The next line of a key reports how many were suppressed: `andBefore`. Default: true. */
  readonly saysLeftOut?: boolean;
}

export type ThrottledLog = (key: string, message: string, fields?: LogFields | LogLines) => void;

/** For messages that any call may cause. */
export function throttledLog({
  level = 'error',
  intervalMs = quietMs,
  saysLeftOut = true,
}: ThrottledLogOptions = {}): ThrottledLog {
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
