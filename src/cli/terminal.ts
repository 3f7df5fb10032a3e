import type { Command, OptionValues } from 'commander';
import type { Config } from '../config/config.ts';
import { SvcError } from '../ground/errors.ts';
import { consoleLogger, printable, useLogger } from '../observe/logger.ts';

/** svc's log on standard error: warnings, or everything with `svc.log.level: debug`. */
export function warnOnly({ log }: Pick<Config, 'log'>): void {
  useLogger(consoleLogger(log.level === 'debug' ? 'debug' : 'warn'));
}

/** Rows that are held to determine the column widths. Later rows keep these widths if they fit. */
const heldRows = 100;

/** Limit of a column's width. Longer texts stick out. */
const maxWidth = 60;

/** A table for people. Rows are held up to `heldRows`, then written at once. */
export function createColumns(head: readonly string[], write: (text: string) => unknown) {
  let held: (readonly string[])[] | undefined = [head];
  let widths: readonly number[] = [];

  function writeRow(row: readonly string[]): void {
    const cells = row.map((cell, index) =>
      index === row.length - 1 ? cell : cell.padEnd(widths[index] ?? 0),
    );
    write(`${cells.join('  ').trimEnd()}\n`);
  }

  function flush(): void {
    const rows = held ?? [];
    held = undefined;
    widths = head.map((_, index) =>
      Math.min(maxWidth, Math.max(...rows.map((row) => (row[index] ?? '').length))),
    );
    for (const row of rows) writeRow(row);
  }

  return {
    add(row: readonly string[]) {
      const shown = row.map(printable);
      if (held === undefined) return writeRow(shown);
      held.push(shown);
      if (held.length > heldRows) flush();
    },
    /** Writes the held rows, and the head of an empty table. */
    end(): void {
      if (held !== undefined) flush();
    },
  };
}

interface Stream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

const barWidth = 20;

const everyMs = 100;

/** Earlier rates are too inaccurate. */
const leastMs = 1_000;

const fallbackColumns = 80;

/** Narrower terminals get no bar. */
const columnsForBar = 70;

/**
 * Progress of a long command: one line on a terminal, overwritten each time. It has the events, the average rate per second and the
 * remaining time. Writes nothing elsewhere.
 */
export function createProgress(stream: Stream, nowMs: () => number = Date.now) {
  const startedMs = nowMs();
  let shownAtMs = Number.NEGATIVE_INFINITY;
  let isShown = false;

  function textOf(
    doneCount: number,
    total: number | undefined,
    note: string | undefined,
    columns: number,
  ): string {
    const tookMs = nowMs() - startedMs;
    const perSecond = tookMs < leastMs ? undefined : (doneCount * 1_000) / tookMs;
    const parts = [total === undefined ? counted(doneCount) : `${doneCount} of ${counted(total)}`];
    if (perSecond !== undefined)
      parts.push(`${perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond)}/s`);
    if (perSecond && total !== undefined && total > doneCount)
      parts.push(`${timeOf((total - doneCount) / perSecond)} left`);
    if (note !== undefined) parts.push(note);
    const text = parts.join('  ');
    return total === undefined || columns < columnsForBar ? text : `${barOf(doneCount, total)}  ${text}`;
  }

  return {
    /** `total`: `undefined` if unknown. `note`: more text for the line. */
    show(doneCount: number, total: number | undefined, note?: string): void {
      if (stream.isTTY !== true || (nowMs() - shownAtMs < everyMs && doneCount !== total)) return;
      shownAtMs = nowMs();
      isShown = true;
      const columns = stream.columns || fallbackColumns;
      // The last column stays empty, because some terminals wrap after it.
      stream.write(`\r${textOf(doneCount, total, note, columns).slice(0, columns - 1)}\u001b[K`);
    },
    end(): void {
      if (isShown) stream.write('\r\u001b[K');
    },
  };
}

function barOf(doneCount: number, total: number): string {
  const share = total === 0 ? 1 : Math.min(1, doneCount / total);
  const filled = Math.round(share * barWidth);
  return `[${'#'.repeat(filled)}${'-'.repeat(barWidth - filled)}] ${Math.round(share * 100)} %`;
}

export const counted = (count: number, what = 'event'): string => `${count} ${what}${count === 1 ? '' : 's'}`;

function timeOf(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  return seconds < 5_400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3_600)} h`;
}

/** Calls `stop` at the first Ctrl-C or SIGTERM. The second one ends the process. Returns a function that removes the listeners. */
export function onStopSignal(stop: () => void): () => void {
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
  return () => {
    process.removeListener('SIGINT', stop);
    process.removeListener('SIGTERM', stop);
  };
}

/** A usage error: exit code 2. */
export class WrongUse extends Error {}

/** Prints an error that a command expects, and returns exit code 1. Rethrows others. */
export function reportFailure(
  error: unknown,
  expected: abstract new (...args: never[]) => Error = SvcError,
): number {
  if (!(error instanceof expected)) throw error;
  process.stderr.write(`svc: ${printable(error.message)}\n`);
  return 1;
}

/** How a project runs svc. Without `--no`, npx would download a package from the registry if svc is not installed. */
export const program = 'npx --no svc';

/** For commands that find no configuration. */
export const settingsInCode =
  'Commands do not see settings that SvcInstrumentation gets in code. Export them from svc.config.ts with defineConfig, which it reads too, or name their file with --config';

/** Adds the common options and the action of a command. */
export function does<O extends OptionValues>(
  command: Command,
  run: (options: O, ...rest: string[]) => Promise<number>,
  { json = true, config = true } = {},
): Command {
  if (config)
    command.option(
      '--config <file>',
      'configuration file (default: svc.config.* of the project, from the working directory up)',
    );
  if (json) command.option('--json', 'one JSON document on standard output, for scripts');
  return command.helpOption('-h, --help', 'this text').action(async (...all: unknown[]) => {
    const [options, ...rest] = all.slice(0, -1).reverse();
    process.exitCode = await run(options as O, ...(rest.reverse().flat() as string[]));
  });
}

export const group = (svc: Command, name: string): Command => svc.command(name).helpCommand(false);
