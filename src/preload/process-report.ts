import { createRequire } from 'node:module';
import { formatEndReport, formatNeverLoaded, formatReport } from '../capture/report.ts';
import type { Config } from '../config/config.ts';
import { inLines, type Logger } from '../observe/logger.ts';
import type * as Start from '../start/start.ts';

/** How long the report waits for the application's modules to load. What loads later is reported when it does. */
const reportAfterMs = 1_000;

/** Returns what takes it back. */
export function reportLater(service: Start.Service, logger: Logger): () => void {
  const timer = setTimeout(() => {
    const reports = service.report();
    if (reports.length > 0) logger.info(...inLines(formatReport(reports)));
    for (const remark of service.startRemarks()) logger.info(...inLines(remark));
  }, reportAfterMs);
  timer.unref();
  return () => clearTimeout(timer);
}

export function reportEnd(service: Start.Service, config: Config, logger: Logger): void {
  const left = service.pending();
  const stored = service.storeSync();
  if (left > 0) {
    if (stored > 0)
      logger.warn('the process ended before all events were acknowledged: written to the backup', {
        events: stored,
      });
    if (left > stored)
      logger.error('the process ended before all events were acknowledged: they may be lost', {
        events: left - stored,
      });
  }
  const reports = service.report();
  const unloaded = formatNeverLoaded(service.neverLoaded(), reports.length);
  if (unloaded !== '') {
    // Events stay in memory in tests, which load the part that they are about; and whoever forks leaves the work to others.
    const level = config.broker.client === 'memory' || hasForked() ? 'info' : 'warn';
    logger[level](...inLines(unloaded));
  }
  const text = formatEndReport(reports);
  if (text !== '') logger.info(...inLines(text));
  for (const remark of service.remarks()) logger.info(...inLines(remark));
}

function hasForked(): boolean {
  const cluster = createRequire(import.meta.url)('node:cluster') as typeof import('node:cluster').default;
  return cluster.isPrimary && Object.keys(cluster.settings).length > 0;
}
