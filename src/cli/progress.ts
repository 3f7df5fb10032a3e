/** Progress of a long command: one line on a terminal, overwritten each time. Writes nothing elsewhere. */
export interface Progress {
  /**
   * @param total `undefined`: unknown
   * @param note more text for the line
   */
  show(doneCount: number, total: number | undefined, note?: string): void;
  end(): void;
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

/** Shows the events, the average rate per second and the remaining time. */
export function createProgress(stream: Stream, nowMs: () => number = Date.now): Progress {
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
    show(doneCount, total, note) {
      if (stream.isTTY !== true || (nowMs() - shownAtMs < everyMs && doneCount !== total)) return;
      shownAtMs = nowMs();
      isShown = true;
      const columns = stream.columns || fallbackColumns;
      // The last column stays empty, because some terminals wrap after it.
      stream.write(`\r${textOf(doneCount, total, note, columns).slice(0, columns - 1)}\u001b[K`);
    },
    end() {
      if (isShown) stream.write('\r\u001b[K');
    },
  };
}

function barOf(doneCount: number, total: number): string {
  const share = total === 0 ? 1 : Math.min(1, doneCount / total);
  const filled = Math.round(share * barWidth);
  return `[${'#'.repeat(filled)}${'-'.repeat(barWidth - filled)}] ${Math.round(share * 100)} %`;
}

const counted = (count: number): string => `${count} ${count === 1 ? 'event' : 'events'}`;

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
