// preload/: svc in a process, however it is started: from the configuration to the final report.

import { realpathSync } from 'node:fs';
import {
  BroadcastChannel,
  getEnvironmentData,
  isMainThread,
  setEnvironmentData,
  threadId,
  type Worker,
} from 'node:worker_threads';
import type * as Inspect from '../capture/inspect.ts';
import { formatReport } from '../capture/report.ts';
import { formatProblem } from '../config/check/check.ts';
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
  logger,
  stderrLogger,
  structured,
  useLogger,
} from '../observe/logger.ts';
import { runningOutbox } from '../outbox/api/running-outbox.ts';
import { runningService } from '../publish/api/publish.ts';
import type * as Start from '../start/start.ts';
import type * as Sdk from './sdk/node-sdk.ts';
import type { Finish, RunningSdk } from './sdk/node-sdk.ts';

const loading = shared('preload', () => ({ done: false }));

/** Runs once per process and worker thread, from `svc/register`. */
export function preload(): void {
  // An earlier SvcInstrumentation has started svc already.
  if (loading.done || running() !== undefined || isLauncher(process.argv)) return;
  loading.done = true;
  run(loadConfig());
}

/** For messages after a failed start. `isRequired`: the process must not run without svc. */
export function lastResort(code?: object): { readonly isRequired: boolean; readonly format: LogFormat } {
  const { config } = loadConfig(code === undefined ? {} : { code });
  return { isRequired: config.enabled && config.required, format: config.log.format };
}

export interface Running {
  readonly config: Config;
  /** After `pause`: events in flight are published, and then svc ends. */
  readonly isPaused: boolean;
  readonly hasEnded: boolean;
  pending(): number;
  /** Stops accepting events. Resolves when those in flight have their outcome and svc has ended, or was resumed. */
  pause(): Promise<void>;
  /** False if it has ended, or is ending. */
  resume(): boolean;
  /** Ends a paused svc at once: another one may start while it closes. */
  end(deadlineMs?: number): Promise<void>;
}

interface RunOptions {
  readonly onDebug?: (message: string) => void;
  /** The application starts an SDK with this instrumentation: svc does not start another. */
  readonly isInSdk?: true;
}

const state = shared<{ current: Running | undefined; hasSdk: boolean }>('running', () => ({
  current: undefined,
  hasSdk: false,
}));

/** For events left after the deadline: they go to the next tier. */
const closeMs = 1_000;

export function running(): Running | undefined {
  return state.current;
}

/** Starts svc; `undefined` if it does not start, with the reason in the log. */
export function run(loaded: LoadedConfig, options: RunOptions = {}): Running | undefined {
  const { config } = loaded;
  useLogger(loggerOf(config, options));
  if (isDisabledInstrumentation(loaded, process.env)) {
    logger.info('not started, because OTEL_NODE_DISABLED_INSTRUMENTATIONS names svc');
    // The variable names one instrumentation, not the SDK.
    if (loaded.problems.length === 0) startSdk(config, options)?.hookImports();
    return undefined;
  }
  if (!isFit(loaded)) return undefined;
  const sdk = startSdk(config, options);
  // Loaded late: an application with svc disabled loads nothing else.
  const { start } = loadChunk(import.meta.url, '../start/start.ts') as typeof Start;
  const current = keepRunning(start(config), config);
  sdk?.hookImports();
  state.current = current;
  return current;
}

function keepRunning(service: Start.Service, config: Config): Running {
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
  const report = reportProcess(service, config);

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
      // If it was resumed and paused again meanwhile, the later call ends it.
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
  // The main thread logs everything below warnings for its worker threads.
  const level = !isMainThread && log.level === 'info' ? 'warn' : log.level;
  const console = consoleLogger(level, log.format);
  if (onDebug === undefined) return console;
  return {
    ...console,
    debug(message, fields) {
      console.debug(message, fields);
      onDebug(structured(message).message);
    },
  };
}

/** Whether svc is enabled and can start; logs the problems. */
function isFit(loaded: LoadedConfig): boolean {
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
  // The main thread has checked them for its worker threads.
  if (config.required && isMainThread) checkTargets(config, targetProblems.length);
  return true;
}

/** OpenTelemetry applies its list only to its own instrumentations, so svc reads it too. */
function isDisabledInstrumentation(
  { config, notFound }: LoadedConfig,
  { OTEL_NODE_DISABLED_INSTRUMENTATIONS: list = '' }: NodeJS.ProcessEnv,
): boolean {
  if (notFound !== undefined || !config.enabled) return false;
  return list.split(',').some((name) => name.trim() === 'svc');
}

/** Once per process, before svc's own start, whose spans it exports. */
function startSdk(config: Config, { isInSdk }: RunOptions): RunningSdk | undefined {
  if (config.telemetry.sdk === 'none' || state.hasSdk) return undefined;
  if (isInSdk) {
    logger.warn('svc.telemetry.sdk: node has no effect, because SvcInstrumentation already has an SDK');
    return undefined;
  }
  const { startNodeSdk } = loadChunk(import.meta.url, './sdk/node-sdk.ts') as typeof Sdk;
  const sdk = startNodeSdk(config);
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

/** Checks what is known before modules load. The report covers the rest: package exports, imports with computed names. */
function checkTargets(config: Config, refusedCount: number): void {
  const { targetsUnloaded } = loadChunk(import.meta.url, '../capture/inspect.ts') as typeof Inspect;
  const failed = config.aop.enabled ? targetsUnloaded(config) : [];
  for (const { id, reason } of failed) logger.error(...inLines(`target ${id} cannot be patched: ${reason}`));
  const count = failed.length + refusedCount;
  if (count > 0) refuse(config, `${count} ${count === 1 ? 'target' : 'targets'} cannot be patched`);
}

/** Logged at any log level: it is why the process ends. */
function refuse({ log }: Config, why: string): never {
  const message = `svc.required is true, so the process does not start: ${why}`;
  stderrLogger('error', log.format).error(message);
  process.exit(notStartedExitCode);
}

interface Ending {
  readonly service: Pick<Start.Service, 'pending' | 'isBusy' | 'finish'>;
  readonly deadlineMs: number;
  readonly report: () => void;
}

interface Endings {
  /** Several while one ends and the next has started. */
  readonly all: Set<Ending>;
  readonly reported: WeakSet<Ending>;
  /** The SDK that svc started. It stays when svc ends. */
  sdk: RunningSdk | undefined;
  unwatch: (() => void) | undefined;
  /** Set once: running worker threads know only the first. */
  workers: { readonly report: (() => void) | undefined } | undefined;
}

const endings = shared<Endings>('endings', () => ({
  all: new Set(),
  reported: new WeakSet(),
  sdk: undefined,
  unwatch: undefined,
  workers: undefined,
}));

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

/** Shuts the SDK down after the events of every svc in the process. */
function endSdkWithProcess(sdk: RunningSdk): void {
  endings.sdk = sdk;
  watch();
}

/** One watch for all: several would take each other's listeners for the application's. */
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
  endings.workers ??= { report: isMainThread ? watchWorkerEnds() : void answerMainThread(reportAll) };
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
      endings.workers?.report?.();
    },
  });
}

/** The name of the channel, and of the slots in the environment data, which each thread inherits from its creator. */
const name = 'svc.end';
/** How long to wait for a busy worker thread. */
const answerMs = 500;
/** A thread's slot comes from its id. Ids only grow, so two live threads rarely share one. */
const slotCount = 1_024;
/** The value of a slot while svc runs in its thread and has not reported its end. Otherwise 0. */
const isInThread = 1;
/** An ended thread has the id -1, which must not give a negative slot. */
const slotOf = (thread: number): number => (thread + slotCount) % slotCount;

/**
 * Worker threads do not see that the main thread ends the process: it requests their final reports first. For the main
 * thread, before the application creates a worker thread. The returned function blocks until all have reported.
 */
function watchWorkerEnds(): () => void {
  const slots = new Int32Array(new SharedArrayBuffer(slotCount * Int32Array.BYTES_PER_ELEMENT));
  setEnvironmentData(name, slots);
  forgetThoseThatEnd(slots);
  return () => {
    if (!slots.includes(isInThread)) return;
    const channel = new BroadcastChannel(name);
    channel.postMessage('last words');
    const end = performance.now() + answerMs;
    for (const slot of slots.keys()) {
      Atomics.wait(slots, slot, isInThread, Math.max(0, end - performance.now()));
    }
    channel.close();
  };
}

/** In worker threads. `lastWord` is called when the main thread ends the process. */
function answerMainThread(lastWord: () => void): void {
  const slots = getEnvironmentData(name);
  // The main thread has another version of this package, or does not run svc.
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
  // Does not keep the thread alive. The browser types lack `unref`.
  (channel as BroadcastChannel & { unref(): void }).unref();
  Atomics.store(slots, slot, isInThread);
}

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

/** Exceptions that run the application in their own process: the file and its first argument. */
const applications: readonly RegExp[] = [
  /\/next\/dist\/bin\/next start$/,
  /\/next\/dist\/server\/lib\/start-server\.js /,
  /\/pm2\/lib\/ProcessContainer\w*\.js /,
  // Vite's servers run the server code of SvelteKit, Nuxt and others.
  /\/vite\/bin\/vite\.js (?!build$|optimize$)/,
];

/** Runs PostCSS and similar tools in `next dev` and `next build`. */
const turbopackWorker = '/build/chunks/[^/]*\\[turbopack-node\\]';

const launcherPath = new RegExp(
  `/node_modules/(?:${launchers.join('|')})/|/corepack/v\\d+/|/\\.yarn/releases/|${turbopackWorker}`,
);

/**
 * Whether Node runs a package manager or another tool that only starts processes. `NODE_OPTIONS` reaches these too: svc
 * in them would take the management port of the application that they start. `argv`: as `process.argv`.
 */
export function isLauncher([, entry, ...args]: readonly (string | undefined)[]): boolean {
  if (entry === undefined) return false;
  const file = realPath(entry).replaceAll('\\', '/');
  if (!launcherPath.test(file)) return false;
  const command = args.find((arg) => arg?.startsWith('-') === false) ?? '';
  return !applications.some((each) => each.test(`${file} ${command}`));
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** How long the report waits for the application's modules. Later ones are reported when they load. */
const reportAfterMs = 1_000;
/** The interval of checks whether a pending target's module is loaded. */
const lookAgainMs = 5_000;

function reportProcess(service: Start.Service, config: Config) {
  const told = new Set<string>();
  // In tests, events stay in memory, and each test loads only the modules under test.
  const level = clientOf(config.broker.client).staysInMemory ? 'info' : 'warn';

  /** Reports once for each target that its module is not loaded. */
  function look(isOver = false): ReturnType<Start.Service['report']> {
    const reports = service.report(isOver);
    const unloaded = reports.filter(({ id, state }) => state === 'unloaded' && !told.has(id));
    for (const { id } of unloaded) told.add(id);
    const text = formatReport.unloaded(unloaded, reports.length);
    if (text !== '') logger[level](...inLines(text));
    return reports;
  }

  function lookAgain(reports: ReturnType<Start.Service['report']>): void {
    if (!isMainThread || !reports.some(({ state }) => state === 'pending')) return;
    timer = setTimeout(() => lookAgain(look()), lookAgainMs).unref();
  }

  let timer = setTimeout(() => {
    const reports = look();
    if (reports.length > 0) logger.info(...inLines(formatReport.start(reports)));
    for (const remark of service.startRemarks()) logger.info(...inLines(remark));
    lookAgain(reports);
  }, reportAfterMs).unref();

  return {
    drop: () => clearTimeout(timer),
    end() {
      sayUnsent(service);
      const text = formatReport.end(
        // A target that is pending in a worker thread may be loaded in another thread.
        look(true).filter(({ state }) => isMainThread || state !== 'pending'),
      );
      if (text !== '') logger.info(...inLines(text));
      for (const remark of service.remarks()) logger.info(...inLines(remark));
    },
  };
}

function sayUnsent(service: Start.Service): void {
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

interface ProcessEnd {
  readonly pending: () => number;
  /** Whether other work is in progress: the relay of the outbox, an SDK that svc started. */
  readonly isBusy: () => boolean;
  readonly finish: Finish;
  /** Writes the final report, synchronously: lost events, targets never called. */
  readonly report: () => void;
  /** Milliseconds for events in flight after the process was told to end: a signal and the natural end after it share them. */
  readonly deadlineMs: number;
}

/** The minimum for new events at the natural end if the signal before it used up the deadline. */
const leastMs = 500;

const signals = ['SIGTERM', 'SIGINT'] as const;

/** Where the package signal-exit keeps its state, versions 3 and 4. */
const signalExitStates = [
  () => (process as unknown as Record<string, unknown>).__signal_exit_emitter__,
  () => (globalThis as unknown as Record<symbol, unknown>)[Symbol.for('signal-exit emitter')],
];

/**
 * Lets events in flight reach their outcome before the process ends.
 *
 * On `beforeExit` the process waits for them. On a signal that the application handles, svc waits beside it, and the
 * application decides when to end. On other signals svc waits and then triggers the default action. The first process
 * of a container ignores that action: it lives on, with svc. `process.exit()` cannot be delayed: `report` then saves
 * events in flight to the local backup, or reports them as lost.
 */
export function watchProcessEnd(end: ProcessEnd): () => void {
  let ending = false;

  /** How much of the deadline the last handled signal used, and when its wait ended. */
  let spent = { ms: 0, at: Number.NEGATIVE_INFINITY };

  async function onSignal(signal: NodeJS.Signals): Promise<void> {
    if (process.pid === 1 || process.listenerCount(signal) - 1 > signalExitListenerCount()) {
      const from = performance.now();
      await end.finish(end.deadlineMs, 'handled');
      const at = performance.now();
      spent = { ms: at - from, at };
      return;
    }
    if (ending) return leave(signal);
    ending = true;
    await end.finish(end.deadlineMs, 'signal');
    leave(signal);
  }

  /** One deadline for both ends. An application that works on for longer after the signal gets a new one. */
  function leftMs(): number {
    const { deadlineMs } = end;
    if (performance.now() - spent.at > deadlineMs) return deadlineMs;
    return Math.max(deadlineMs - spent.ms, Math.min(deadlineMs, leastMs));
  }

  function leave(signal: NodeJS.Signals): void {
    end.report();
    reported = true;
    process.removeListener(signal, onSignal);
    process.kill(process.pid, signal);
  }

  let reported = false;
  let waited = false;
  function onBeforeExit(): void {
    if (waited || (end.pending() === 0 && !end.isBusy())) return;
    waited = true;
    void end.finish(leftMs(), 'natural').then((isFinished) => {
      // Node emits `beforeExit` again after the wait. After a missed deadline there is no second wait; events made since are
      // new.
      waited = !isFinished;
    });
  }
  function onExit(): void {
    if (!reported) end.report();
  }

  process.on('beforeExit', onBeforeExit);
  process.on('exit', onExit);
  // Before other listeners: a `once` listener of the application would be removed by then.
  if (isMainThread) for (const signal of signals) process.prependListener(signal, onSignal);
  return () => {
    process.removeListener('beforeExit', onBeforeExit);
    process.removeListener('exit', onExit);
    for (const signal of signals) process.removeListener(signal, onSignal);
  };
}

/** Listeners of signal-exit, which waits for all others to be gone before it ends the process: both would wait. */
function signalExitListenerCount(): number {
  let sum = 0;
  for (const state of signalExitStates) {
    const { count } = (state() ?? {}) as { count?: unknown };
    if (typeof count === 'number') sum += count;
  }
  return sum;
}
