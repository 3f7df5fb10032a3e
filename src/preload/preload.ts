// preload/: what `node --import svc/register` does, from the configuration to the last word of the process.

import { createRequire } from 'node:module';
import { isMainThread } from 'node:worker_threads';
import { formatEndReport, formatReport } from '../capture/report.ts';
import { formatProblem } from '../config/check/problem.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/read/load.ts';
import { shared } from '../ground/lifecycle.ts';
import { notStartedExitCode } from '../ground/version.ts';
import { consoleLogger, type LogFormat, type Logger, stderrLogger } from '../observe/logger.ts';
import { runningOutbox } from '../outbox/api/running-outbox.ts';
import { runningService } from '../publish/api/running-service.ts';
import type * as Inspect from '../start/commands/inspect-targets.ts';
import type * as Start from '../start/start.ts';
import { isLauncher } from './is-launcher.ts';
import { watchProcessEnd } from './process-end.ts';
import { answerMainThread, watchWorkerEnds } from './worker-end.ts';

const loading = shared('preload', () => ({ done: false }));

/** How long the report waits for the application's modules to load. What loads later is reported when it does. */
const reportAfterMs = 1_000;

/** What `svc/register` runs, once per process (and per worker thread). */
export function preload(): void {
  if (loading.done || isLauncher(process.argv[1])) return;
  loading.done = true;
  const { config, notFound, problems, warnings, targetProblems } = loadConfig();
  // What worker threads have to say beside warnings, their main thread has said.
  const level = !isMainThread && config.log.level === 'info' ? 'warn' : config.log.level;
  const logger = consoleLogger(level, config.log.format);
  if (notFound !== undefined) {
    logger.info(notFound);
    return;
  }
  if (!config.enabled) return;
  if (config.file !== undefined) logger.info(`configuration ${config.file}`);
  for (const warning of warnings) logger.warn(formatProblem(warning));
  for (const problem of problems) logger.error(formatProblem(problem));
  for (const { id, problems: why } of targetProblems) {
    for (const problem of why) logger.error(`target ${id}: ${formatProblem(problem)}`);
  }
  if (problems.length > 0) {
    if (config.required) refuse(config, 'the configuration is wrong');
    logger.error('not started because of the configuration; the application runs without it');
    return;
  }
  // Worker threads have what their main thread was started with.
  if (config.required && isMainThread) checkTargets(config, logger, targetProblems.length);
  // Loaded here, so that an application in which svc is switched off loads nothing else.
  const { start } = createRequire(import.meta.url)('./start.cjs') as typeof Start;
  const service = start(config, logger);
  runningService.current = service;
  runningOutbox.current = service.outbox;
  reportLater(service, logger);
  let isReported = false;
  const report = (): void => {
    if (!isReported) reportEnd(service, logger);
    isReported = true;
  };
  const workers = isMainThread ? watchWorkerEnds() : answerMainThread(report);
  watchProcessEnd({
    pending: service.pending,
    isRelaying: service.isRelaying,
    finish: service.finish,
    deadlineMs: config.shutdown.timeoutMs,
    report() {
      report();
      workers?.lastWords();
    },
  });
}

/** For what is said where svc could not start. `isRequired`: the process must not run without svc. */
export function lastResort(): { readonly isRequired: boolean; readonly format: LogFormat } {
  const { config } = loadConfig();
  return { isRequired: config.enabled && config.required, format: config.log.format };
}

/** Exports of packages are known when they are loaded: what is missing there is in the report. */
function checkTargets(config: Config, logger: Logger, refusedCount: number): void {
  const { inspectTargets } = createRequire(import.meta.url)('./inspect-targets.cjs') as typeof Inspect;
  const failed = config.aop.enabled ? inspectTargets(config).filter(({ state }) => state === 'failed') : [];
  for (const { id, reason } of failed) logger.error(`target ${id} cannot be patched: ${reason}`);
  const count = failed.length + refusedCount;
  if (count > 0) refuse(config, `${count} ${count === 1 ? 'target' : 'targets'} cannot be patched`);
}

/** Said whatever the level of the log is: it is why the process ends. */
function refuse({ log }: Config, why: string): never {
  const message = `the process does not start, because svc.required is true and ${why}`;
  stderrLogger('error', log.format).error(message);
  process.exit(notStartedExitCode);
}

function reportLater(service: Start.Service, logger: Logger): void {
  const timer = setTimeout(() => {
    const reports = service.report();
    if (reports.length > 0) logger.info(formatReport(reports));
    for (const remark of service.startRemarks()) logger.info(remark);
  }, reportAfterMs);
  timer.unref();
}

function reportEnd(service: Start.Service, logger: Logger): void {
  const left = service.pending();
  const saved = service.save();
  if (left > 0) {
    if (saved > 0)
      logger.warn('the process ended before all events were acknowledged: written to the backup', {
        events: saved,
      });
    if (left > saved)
      logger.error('the process ended before all events were acknowledged: they may be lost', {
        events: left - saved,
      });
  }
  const text = formatEndReport(service.report());
  if (text !== '') logger.info(text);
  for (const remark of service.remarks()) logger.info(remark);
}
