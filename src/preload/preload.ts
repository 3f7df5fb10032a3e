// preload/: svc in a process, whoever starts it: from the configuration to the last word of the process.

import { realpathSync } from 'node:fs';
import {
  BroadcastChannel,
  getEnvironmentData,
  isMainThread,
  setEnvironmentData,
  threadId,
  type Worker,
} from 'node:worker_threads';
import { formatEndReport, formatReport, formatUnloaded } from '../capture/report.ts';
import { formatProblem } from '../config/check/validate.ts';
import type { Config } from '../config/config.ts';
import { type LoadedConfig, loadConfig } from '../config/read/load.ts';
import { loadChunk, shared } from '../ground/lifecycle.ts';
import { clientOf } from '../ground/management.ts';
import { notStartedExitCode } from '../ground/version.ts';
import {
  consoleLogger,
  inLines,
  type LogFormat,
  type Logger,
  stderrLogger,
  structured,
} from '../observe/logger.ts';
import { runningOutbox } from '../outbox/api/running-outbox.ts';
import { runningService } from '../publish/api/publish.ts';
import type * as Inspect from '../start/commands/inspect-targets.ts';
import type * as Start from '../start/start.ts';
import { watchProcessEnd } from './process-end.ts';
import type * as Sdk from './sdk/node-sdk.ts';
import type { RunningSdk } from './sdk/node-sdk.ts';

const loading = shared('preload', () => ({ done: false }));

/** What `svc/register` runs, once per process (and per worker thread). */
export function preload(): void {
  // A SvcInstrumentation that was there first runs what this would.
  if (loading.done || running() !== undefined || isLauncher(process.argv)) return;
  loading.done = true;
  run(loadConfig());
}

/** For what is said where svc could not start. `isRequired`: the process must not run without svc. */
export function lastResort(code?: object): { readonly isRequired: boolean; readonly format: LogFormat } {
  const { config } = loadConfig(code === undefined ? {} : { code });
  return { isRequired: config.enabled && config.required, format: config.log.format };
}

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
      logger.error(
        `svc did not shut down cleanly: ${error instanceof Error ? error.message : 'unknown error'}`,
      );
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
    logger.error('not started because of the configuration; the application runs without svc');
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
    logger.warn('svc.telemetry.sdk: node has no effect, because SvcInstrumentation already has an SDK');
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
  const message = `svc.required is true, so the process does not start: ${why}`;
  stderrLogger('error', log.format).error(message);
  process.exit(notStartedExitCode);
}

/** One svc whose events the end of the process waits for. */
interface Ending {
  readonly service: Pick<Start.Service, 'pending' | 'isBusy' | 'finish'>;
  /** Milliseconds that its events may take once the process was told to end. */
  readonly deadlineMs: number;
  readonly report: () => void;
}

interface Endings {
  /** More than one while one ends and the next has begun. */
  readonly all: Set<Ending>;
  readonly reported: WeakSet<Ending>;
  /** That svc has started: it stays when svc ends. */
  sdk: RunningSdk | undefined;
  unwatch: (() => void) | undefined;
  /** Asked once: worker threads that run already know nobody else. */
  workers: { readonly ends: WorkerEnds | undefined } | undefined;
}

const endings = shared<Endings>('endings', () => ({
  all: new Set(),
  reported: new WeakSet(),
  sdk: undefined,
  unwatch: undefined,
  workers: undefined,
}));

/** Until the returned function is called. */
function endWithProcess(ending: Ending): () => void {
  const { all } = endings;
  all.add(ending);
  watch();
  return () => {
    all.delete(ending);
    if (all.size > 0 || endings.sdk !== undefined) return;
    endings.unwatch?.();
    endings.unwatch = undefined;
  };
}

/** It is shut down behind the events of every svc of the process. */
function endSdkWithProcess(sdk: RunningSdk): void {
  endings.sdk = sdk;
  watch();
}

/** One watch for all: several would each take the others for the application. */
function watch(): void {
  const { all, reported } = endings;
  const reportAll = (): void => {
    for (const one of all) {
      if (!reported.has(one)) one.report();
      reported.add(one);
    }
  };
  const finishAll = async (deadlineMs: number): Promise<boolean> => {
    const finished = await Promise.all([...all].map(({ service }) => service.finish(deadlineMs)));
    return finished.every(Boolean);
  };
  endings.workers ??= { ends: isMainThread ? watchWorkerEnds() : void answerMainThread(reportAll) };
  endings.unwatch ??= watchProcessEnd({
    pending: () => [...all].reduce((sum, { service }) => sum + service.pending(), 0),
    isBusy: () => endings.sdk?.isRunning() === true || [...all].some(({ service }) => service.isBusy()),
    finish: (deadlineMs, end) =>
      endings.sdk === undefined ? finishAll(deadlineMs) : endings.sdk.finishAfter(finishAll)(deadlineMs, end),
    get deadlineMs() {
      return Math.max(endings.sdk?.deadlineMs ?? 0, ...[...all].map((one) => one.deadlineMs));
    },
    report() {
      reportAll();
      endings.workers?.ends?.lastWords();
    },
  });
}

/** Of the channel, and of the slots in the environment data, which each thread inherits from the one that makes it. */
const name = 'svc.end';
/** A worker thread that is busy for so long is not waited for. */
const answerMs = 500;
/** Each thread has the slot of its id. Ids only grow, so that two threads that live at once hardly ever share one. */
const slotCount = 1_024;
/** In a slot: svc runs in its thread, which has not had its last word. Else it holds 0. */
const runningOfWorkerEnd = 1;
/** A thread that has ended already has the id -1, which must not become a negative slot. */
const slotOf = (thread: number): number => (thread + slotCount) % slotCount;

/** Nothing tells worker threads that the main thread ends the process: it asks for their last word before it does. */
interface WorkerEnds {
  /** The main thread, synchronously: returns when each worker thread in which svc runs has had its last word. */
  lastWords(): void;
}

/** The main thread: to be called before the application makes its first worker thread. */
function watchWorkerEnds(): WorkerEnds {
  const slots = new Int32Array(new SharedArrayBuffer(slotCount * Int32Array.BYTES_PER_ELEMENT));
  setEnvironmentData(name, slots);
  forgetThoseThatEnd(slots);
  return {
    lastWords() {
      if (!slots.includes(runningOfWorkerEnd)) return;
      const channel = new BroadcastChannel(name);
      channel.postMessage('last words');
      const end = performance.now() + answerMs;
      for (const slot of slots.keys()) {
        Atomics.wait(slots, slot, runningOfWorkerEnd, Math.max(0, end - performance.now()));
      }
      channel.close();
    },
  };
}

/** Worker threads. `lastWord` is called when the main thread ends the process. */
function answerMainThread(lastWord: () => void): void {
  const slots = getEnvironmentData(name);
  // Of another version of this package in the main thread, or none.
  if (!(slots instanceof Int32Array)) return;
  forgetThoseThatEnd(slots);
  const slot = slotOf(threadId);
  const channel = new BroadcastChannel(name);
  channel.onmessage = () => {
    try {
      lastWord();
    } finally {
      forget(slots, slot);
    }
  };
  // It does not keep the thread alive. The types of browsers do not know that.
  (channel as BroadcastChannel & { unref(): void }).unref();
  Atomics.store(slots, slot, runningOfWorkerEnd);
}

/** A thread that is terminated has no last word. */
function forgetThoseThatEnd(slots: Int32Array): void {
  process.on('worker', (worker: Worker) => {
    const slot = slotOf(worker.threadId);
    worker.once('exit', () => forget(slots, slot));
  });
}

function forget(slots: Int32Array, slot: number): void {
  Atomics.store(slots, slot, 0);
  Atomics.notify(slots, slot);
}

/** Packages whose commands only start other processes, or build. */
const launchers = [
  'npm',
  'pnpm',
  'yarn',
  'corepack',
  'tsx',
  'nodemon',
  'cross-env',
  'concurrently',
  'npm-run-all',
  'dotenv-cli',
  '@nestjs/cli',
  'next',
  'pm2',
  'typescript',
  'vite',
];

/** Where one of them runs the application in its own process: the file and its first argument. */
const applications: readonly RegExp[] = [
  /\/next\/dist\/bin\/next start$/,
  /\/next\/dist\/server\/lib\/start-server\.js /,
  /\/pm2\/lib\/ProcessContainer\w*\.js /,
  // Its servers run what SvelteKit, Nuxt and others make for the server.
  /\/vite\/bin\/vite\.js (?!build$|optimize$)/,
];

/** Runs PostCSS and the like, in `next dev` and `next build`. */
const turbopackWorker = '/build/chunks/[^/]*\\[turbopack-node\\]';

const launcherPath = new RegExp(
  `/node_modules/(?:${launchers.join('|')})/|/corepack/v\\d+/|/\\.yarn/releases/|${turbopackWorker}`,
);

/**
 * True where Node runs a package manager or another tool that only starts processes: `NODE_OPTIONS` reaches these too, and
 * svc in them would take the management port of the application that they start. `argv`: as `process.argv`.
 */
export function isLauncher([, entry, ...args]: readonly (string | undefined)[]): boolean {
  if (entry === undefined) return false;
  const file = realPath(entry).replaceAll('\\', '/');
  if (!launcherPath.test(file)) return false;
  const command = args.find((arg) => arg?.startsWith('-') === false) ?? '';
  return !applications.some((each) => each.test(`${file} ${command}`));
}

/** Commands are links to their script. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** How long the report waits for the application's modules to load. What loads later is reported when it does. */
const reportAfterMs = 1_000;
/** While a target is pending, whether its module is loaded by now is asked again so long after. */
const lookAgainMs = 5_000;

/** What is said of the targets of a process. */
interface ProcessReport {
  /** Takes the timers back. */
  drop(): void;
  end(): void;
}

function reportProcess(service: Start.Service, config: Config, logger: Logger): ProcessReport {
  const told = new Set<string>();
  // Events stay in memory in tests, which load the part that they are about.
  const level = clientOf(config.broker.client).staysInMemory ? 'info' : 'warn';

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
    logger.warn('the process ended before all events were acknowledged; svc wrote the rest to the backup', {
      events: stored,
    });
  if (left > stored)
    logger.error('the process ended before all events were acknowledged; the rest may be lost', {
      events: left - stored,
    });
}
