import { isMainThread } from 'node:worker_threads';
import { formatProblem } from '../config/check/problem.ts';
import type { Config } from '../config/config.ts';
import type { LoadedConfig } from '../config/read/load.ts';
import { loadChunk, shared } from '../ground/lifecycle.ts';
import { notStartedExitCode } from '../ground/version.ts';
import { consoleLogger, inLines, type Logger, stderrLogger, structured } from '../observe/logger.ts';
import { runningOutbox } from '../outbox/api/running-outbox.ts';
import { runningService } from '../publish/api/running-service.ts';
import type * as Inspect from '../start/commands/inspect-targets.ts';
import type * as Start from '../start/start.ts';
import { endSdkWithProcess, endWithProcess } from './end-with-process.ts';
import { reportProcess } from './process-report.ts';
import type * as Sdk from './sdk/node-sdk.ts';

/** The one svc of this process (or worker thread), whoever has started it. */
export interface Running {
  readonly config: Config;
  readonly logger: Logger;
  /** After `pause`: what is under way is published, and then all of it ends. */
  readonly isPaused: boolean;
  /** Nothing of it is left. */
  readonly hasEnded: boolean;
  /** Events without an outcome yet. */
  pending(): number;
  /** No more events from now on. Resolves when those under way have their outcome and svc has ended, or was resumed. */
  pause(): Promise<void>;
  /** False where it has ended, or is about to. */
  resume(): boolean;
  /** Ends at once what `pause` has begun: from now on, another one may run beside what is left of it. */
  end(deadlineMs?: number): Promise<void>;
}

export interface RunOptions {
  /** Hears what the log hears at its level `debug`. */
  readonly onDebug?: (message: string) => void;
  /** It belongs to an SDK that the application starts: svc starts none beside it. */
  readonly isInSdk?: true;
}

const state = shared<{ current: Running | undefined; hasSdk: boolean }>('running', () => ({
  current: undefined,
  hasSdk: false,
}));

/** For what is left when the deadline is over: it goes to the next tier. */
const closeMs = 1_000;

export function running(): Running | undefined {
  return state.current;
}

/** Starts svc; `undefined` where it does not start, and why is said. */
export function run(loaded: LoadedConfig, options: RunOptions = {}): Running | undefined {
  const { config } = loaded;
  const logger = loggerOf(config, options);
  if (isDisabledInstrumentation(loaded, process.env)) {
    logger.info('not started, because OTEL_NODE_DISABLED_INSTRUMENTATIONS names svc');
    // It names one instrumentation, not the SDK.
    if (loaded.problems.length === 0) startSdk(config, options, logger)?.hookImports();
    return undefined;
  }
  if (!isFit(loaded, logger)) return undefined;
  const sdk = startSdk(config, options, logger);
  // Loaded here, so that an application in which svc is switched off loads nothing else.
  const { start } = loadChunk(import.meta.url, '../start/start.ts') as typeof Start;
  const current = keepRunning(start(config, logger), config, logger);
  sdk?.hookImports();
  state.current = current;
  return current;
}

function keepRunning(service: Start.Service, config: Config, logger: Logger): Running {
  let phase: 'running' | 'paused' | 'ended' = 'running';
  let hasEnded = false;
  let pauses = 0;
  let ending: Promise<void> | undefined;
  const isOver = endWithProcess({
    service,
    deadlineMs: config.shutdown.timeoutMs,
    report: () => report.end(),
  });
  const offer = (): void => {
    runningService.current = service;
    runningOutbox.current = service.outbox;
  };
  offer();
  const report = reportProcess(service, config, logger);

  async function close(deadlineMs: number): Promise<void> {
    await guarded(() => service.stop(deadlineMs));
    hasEnded = true;
    isOver();
  }
  async function guarded(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      logger.error(`svc did not end in order: ${error instanceof Error ? error.message : 'unknown error'}`);
    }
  }
  const current: Running = {
    config,
    logger,
    get isPaused() {
      return phase !== 'running';
    },
    get hasEnded() {
      return hasEnded;
    },
    pending: service.pending,
    async pause() {
      if (phase !== 'running') return ending;
      phase = 'paused';
      pauses += 1;
      const mine = pauses;
      service.pause();
      if (runningService.current === service) runningService.current = undefined;
      if (runningOutbox.current === service.outbox) runningOutbox.current = undefined;
      // Resumed meanwhile, and perhaps paused again: that is the turn of the later one.
      const isWanted = (): boolean => phase === 'paused' && mine === pauses;
      await guarded(() => service.finish(config.shutdown.timeoutMs, isWanted));
      if (isWanted()) await current.end(closeMs);
      return ending;
    },
    resume() {
      if (phase !== 'paused') return false;
      phase = 'running';
      service.resume();
      offer();
      return true;
    },
    end(deadlineMs = config.shutdown.timeoutMs) {
      phase = 'ended';
      report.drop();
      if (state.current === current) state.current = undefined;
      ending ??= close(deadlineMs);
      return ending;
    },
  };
  return current;
}

function loggerOf({ log }: Config, { onDebug }: RunOptions): Logger {
  // What worker threads have to say beside warnings, their main thread has said.
  const level = !isMainThread && log.level === 'info' ? 'warn' : log.level;
  const logger = consoleLogger(level, log.format);
  if (onDebug === undefined) return logger;
  return {
    ...logger,
    debug(message, fields) {
      logger.debug(message, fields);
      onDebug(structured(message).message);
    },
  };
}

/** Whether svc can start with it, and is to. */
function isFit(loaded: LoadedConfig, logger: Logger): boolean {
  const { config, notFound, problems, warnings, targetProblems } = loaded;
  if (notFound !== undefined) {
    logger.info(notFound);
    return false;
  }
  if (!config.enabled) return false;
  if (config.file !== undefined) logger.info(`configuration ${config.file}`);
  for (const warning of warnings) logger.warn(...inLines(formatProblem(warning)));
  for (const problem of problems) logger.error(...inLines(formatProblem(problem)));
  for (const { id, problems: why } of targetProblems) {
    for (const problem of why) logger.error(...inLines(`target ${id}: ${formatProblem(problem)}`));
  }
  if (problems.length > 0) {
    if (config.required) refuse(config, 'the configuration is wrong');
    logger.error('not started because of the configuration; the application runs without it');
    return false;
  }
  // Worker threads have what their main thread was started with.
  if (config.required && isMainThread) checkTargets(config, logger, targetProblems.length);
  return true;
}

/** OpenTelemetry's own list of what is not to run. It knows its own instrumentations only: svc reads it itself. */
function isDisabledInstrumentation(
  { config, notFound }: LoadedConfig,
  { OTEL_NODE_DISABLED_INSTRUMENTATIONS: list = '' }: NodeJS.ProcessEnv,
): boolean {
  if (notFound !== undefined || !config.enabled) return false;
  return list.split(',').some((name) => name.trim() === 'svc');
}

/** Once per process, and before svc's own start, whose spans go there too. */
function startSdk(config: Config, { isInSdk }: RunOptions, logger: Logger): Sdk.RunningSdk | undefined {
  if (config.telemetry.sdk === 'none' || state.hasSdk) return undefined;
  if (isInSdk) {
    logger.warn('svc.telemetry.sdk: node does not count for SvcInstrumentation, which has an SDK already');
    return undefined;
  }
  const { startNodeSdk } = loadChunk(import.meta.url, './sdk/node-sdk.ts') as typeof Sdk;
  const sdk = startNodeSdk(config, logger);
  if (sdk instanceof Error) {
    logger.error(sdk.message, { code: sdk.code });
    if (config.required && isMainThread) refuse(config, 'the OpenTelemetry SDK cannot be started');
    return undefined;
  }
  if (sdk === undefined) return undefined;
  state.hasSdk = true;
  endSdkWithProcess(sdk);
  return sdk;
}

/** What only shows when a module is loaded is in the report: what a package exports, what is imported under a name made at run time. */
function checkTargets(config: Config, logger: Logger, refusedCount: number): void {
  const { targetsUnloaded } = loadChunk(
    import.meta.url,
    '../start/commands/inspect-targets.ts',
  ) as typeof Inspect;
  const failed = config.aop.enabled ? targetsUnloaded(config) : [];
  for (const { id, reason } of failed) logger.error(...inLines(`target ${id} cannot be patched: ${reason}`));
  const count = failed.length + refusedCount;
  if (count > 0) refuse(config, `${count} ${count === 1 ? 'target' : 'targets'} cannot be patched`);
}

/** Said whatever the level of the log is: it is why the process ends. */
function refuse({ log }: Config, why: string): never {
  const message = `the process does not start, because svc.required is true and ${why}`;
  stderrLogger('error', log.format).error(message);
  process.exit(notStartedExitCode);
}
