import { isMainThread } from 'node:worker_threads';
import { formatEndReport, formatReport, formatUnloaded } from '../capture/report.ts';
import type { Config } from '../config/config.ts';
import { inLines, type Logger } from '../observe/logger.ts';
import type * as Start from '../start/start.ts';

/** How long the report waits for the application's modules to load. What loads later is reported when it does. */
const reportAfterMs = 1_000;
/** While a target is pending, whether its module is loaded by now is asked again so long after. */
const lookAgainMs = 5_000;

/** What is said of the targets of a process. */
export interface ProcessReport {
  /** Takes the timers back. */
  drop(): void;
  end(): void;
}

export function reportProcess(service: Start.Service, config: Config, logger: Logger): ProcessReport {
  const told = new Set<string>();
  // Events stay in memory in tests, which load the part that they are about.
  const level = config.broker.client === 'memory' ? 'info' : 'warn';

  /** Says once of each target that its module is not loaded. */
  function look(isOver = false): ReturnType<Start.Service['report']> {
    const reports = service.report(isOver);
    const unloaded = reports.filter(({ id, state }) => state === 'unloaded' && !told.has(id));
    for (const { id } of unloaded) told.add(id);
    const text = formatUnloaded(unloaded, reports.length);
    if (text !== '') logger[level](...inLines(text));
    return reports;
  }

  function lookAgain(reports: ReturnType<Start.Service['report']>): void {
    if (!isMainThread || !reports.some(({ state }) => state === 'pending')) return;
    timer = setTimeout(() => lookAgain(look()), lookAgainMs).unref();
  }

  let timer = setTimeout(() => {
    const reports = look();
    if (reports.length > 0) logger.info(...inLines(formatReport(reports)));
    for (const remark of service.startRemarks()) logger.info(...inLines(remark));
    lookAgain(reports);
  }, reportAfterMs).unref();

  return {
    drop: () => clearTimeout(timer),
    end() {
      sayUnsent(service, logger);
      const text = formatEndReport(
        // What a thread has not loaded another one has.
        look(true).filter(({ state }) => isMainThread || state !== 'pending'),
      );
      if (text !== '') logger.info(...inLines(text));
      for (const remark of service.remarks()) logger.info(...inLines(remark));
    },
  };
}

function sayUnsent(service: Start.Service, logger: Logger): void {
  const left = service.pending();
  const stored = service.storeSync();
  if (left === 0) return;
  if (stored > 0)
    logger.warn('the process ended before all events were acknowledged: written to the backup', {
      events: stored,
    });
  if (left > stored)
    logger.error('the process ended before all events were acknowledged: they may be lost', {
      events: left - stored,
    });
}
