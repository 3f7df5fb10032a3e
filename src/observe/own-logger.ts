import { SvcError } from '../ground/errors.ts';
import { shared, startOwnWork } from '../ground/lifecycle.ts';
import { type LineFields, type LineLevel, type LogFields, type LogLines, structured } from './log-line.ts';

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
export function tellOwnLogger(
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
