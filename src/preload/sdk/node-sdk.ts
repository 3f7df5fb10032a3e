// sdk/: `svc.telemetry.sdk: node`, the OpenTelemetry SDK for applications that do not start one.

import { AsyncLocalStorage, createHook } from 'node:async_hooks';
import Module, { createRequire } from 'node:module';
import path, { dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { namesOf } from '../../capture/packages/hook.ts';
import { hasSoundSyncHooks, preloadedBy } from '../../capture/source/node-hooks.ts';
import { packageName } from '../../capture/source/resolve-specifier.ts';
import type { Config } from '../../config/config.ts';
import { readSource } from '../../context/source.ts';
import { SvcError } from '../../ground/errors.ts';
import { type Manifest, nearestManifest } from '../../ground/files.ts';
import { logger } from '../../observe/logger.ts';
import { otelApi } from '../../observe/otel-api.ts';

/**
 * Waits until every event has its outcome, at most for the deadline; resolves to whether each has. Events are still
 * accepted. `handled`: the application has listeners for the signal, and decides when to end.
 */
export type Finish = (deadlineMs: number, end: 'handled' | 'signal' | 'natural') => Promise<boolean>;

export interface RunningSdk {
  /** Lets instrumentations see imports of ES modules. Call it after svc has set its own hooks: Node takes the loader once. */
  hookImports(): void;
  /** False after it is shut down. */
  isRunning(): boolean;
  /** Milliseconds for events and spans after the process was told to end. */
  readonly deadlineMs: number;
  /** Runs `finish` first, which ends the spans of svc's events; the SDK gets the rest of the time. */
  finishAfter(finish: Finish): Finish;
}

const packageNameOfNodeSdk = '@opentelemetry/sdk-node';
/** Minor versions, as in `peerDependencies`: `before` is the first one not tested. */
const versions = { least: 200, before: 400 } as const;

/** Starts the application's own SDK, configured by `OTEL_*`. `undefined`, with the reason in the log, or a `SvcError`. */
export function startNodeSdk(config: Config): RunningSdk | SvcError | undefined {
  if (process.env.OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true') {
    logger.info('svc.telemetry.sdk: node has no effect, because OTEL_SDK_DISABLED is true');
    return undefined;
  }
  if (isSdkRegistered()) {
    logger.warn(
      "svc.telemetry.sdk: node has no effect, because the application has already registered an OpenTelemetry SDK. svc's spans and metrics go there. Set svc.telemetry.sdk: none",
    );
    return undefined;
  }
  const application = applicationOf(config.baseDir);
  const problem = problemOf(application.versionOf(packageNameOfNodeSdk));
  if (problem !== undefined) return new SvcError('SVC_PRELOAD_SDK', problem);
  try {
    return started(application, config);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return new SvcError('SVC_PRELOAD_SDK', `the OpenTelemetry SDK could not be started: ${reason}`);
  }
}

function started(application: Application, config: Config): RunningSdk {
  const instruments = findInstrumentations(application);
  const { instrumentations } = instruments;
  const { serviceName } = readSource(config.service);
  const options = { ...instruments, ...(serviceName !== null && { serviceName }) };
  const sdk = startSdk(application.load(packageNameOfNodeSdk) as SdkModule, options);
  const hookImports = hookSdkImports(
    instrumentations,
    application.fileOf(packageNameOfNodeSdk) ?? packageNameOfNodeSdk,
  );
  watchLaterSdks(() =>
    logger.error(
      'the application starts its own OpenTelemetry SDK, which receives nothing, because svc has started one (svc.telemetry.sdk: node). Set svc.telemetry.sdk: none, or remove the SDK of the application',
    ),
  );
  const collector = { hasFailed: false };
  let isRunning = true;
  const shutDown = (): Promise<void> => {
    isRunning = false;
    return sdk.shutdown();
  };
  return {
    hookImports,
    isRunning: () => isRunning,
    deadlineMs: config.shutdown.timeoutMs,
    finishAfter: (finish) => finishBeforeSdk(finish, shutDown, collector),
  };
}

/** Why the package cannot be used, with the remedy. */
function problemOf(version: string | undefined): string | undefined {
  const install = `npm install ${packageNameOfNodeSdk} @opentelemetry/auto-instrumentations-node`;
  if (version === undefined)
    return `svc.telemetry.sdk: node needs the package ${packageNameOfNodeSdk}, which is not installed: ${install}`;
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major === 0 && minor >= versions.least && minor < versions.before) return undefined;
  return `svc.telemetry.sdk: node needs ${packageNameOfNodeSdk} from 0.${versions.least}.0 on and below 0.${versions.before}.0, found ${version}: ${install}`;
}

interface StartedSdk {
  /** Rejects if the collector does not accept the data. */
  shutdown(): Promise<void>;
}

interface SdkOptions extends Instruments {
  readonly serviceName?: string;
}

/**
 * The parts of `@opentelemetry/sdk-node` that svc uses: the class of both lines, and the function that reads a
 * configuration file.
 */
interface SdkModule {
  readonly NodeSDK: new (options: SdkOptions) => StartedSdk & { start(): void };
  readonly startNodeSdk?: (options: Instruments) => StartedSdk;
  readonly startNodeSDK?: (options: Instruments) => StartedSdk;
}

/** Configured by `OTEL_*`, or by the file in `OTEL_CONFIG_FILE`, which the class ignores. */
export function startSdk(sdkModule: SdkModule, options: SdkOptions): StartedSdk {
  if (process.env.OTEL_CONFIG_FILE?.trim()) {
    const start = sdkModule.startNodeSdk ?? sdkModule.startNodeSDK;
    if (start !== undefined) return startFromFile(start, options);
    logger.warn(
      'OTEL_CONFIG_FILE has no effect: the installed @opentelemetry/sdk-node does not read it. Install a later version, or set the variables OTEL_* instead',
    );
  }
  const sdk = new sdkModule.NodeSDK(options);
  sdk.start();
  return sdk;
}

function startFromFile(
  start: NonNullable<SdkModule['startNodeSdk']>,
  { instrumentations }: Instruments,
): StartedSdk {
  const sdk = start({ instrumentations });
  if (!isSdkRegistered()) {
    logger.warn(
      'svc.telemetry.sdk: node runs no SDK: the file of OTEL_CONFIG_FILE configures no SDK (`disabled: true`), or is invalid, see the lines of OpenTelemetry above',
    );
    return sdk;
  }
  // The class does this itself when it starts from variables.
  const meters = otelApi()?.metrics.getMeterProvider();
  for (const each of instrumentations as readonly { setMeterProvider?(provider: unknown): void }[])
    each.setMeterProvider?.(meters);
  return sdk;
}

interface Instruments {
  readonly instrumentations: readonly unknown[];
  /** Those in `OTEL_NODE_RESOURCE_DETECTORS` that the SDK itself does not know. */
  readonly resourceDetectors?: readonly unknown[];
}

interface AutoInstrumentations {
  getNodeAutoInstrumentations(): readonly unknown[];
  getResourceDetectors?(): readonly unknown[];
}

const autoPackage = '@opentelemetry/auto-instrumentations-node';
const packagePrefix = '@opentelemetry/instrumentation-';

/**
 * All of `@opentelemetry/auto-instrumentations-node` if installed; else the instrumentations in the application's
 * package.json. Add svc's own instrumentations here.
 */
function findInstrumentations(application: Application): Instruments {
  if (application.fileOf(autoPackage) !== undefined) {
    const auto = application.load(autoPackage) as AutoInstrumentations;
    const instrumentations = auto.getNodeAutoInstrumentations();
    const isAsked = Boolean(process.env.OTEL_NODE_RESOURCE_DETECTORS?.trim());
    const resourceDetectors = isAsked ? auto.getResourceDetectors?.() : undefined;
    return { instrumentations, ...(resourceDetectors && { resourceDetectors }) };
  }
  const named = namesIn(application.manifest).filter((name) => name.startsWith(packagePrefix));
  const instrumentations = named
    .filter((name) => isWanted(name.slice(packagePrefix.length)))
    .flatMap((name) => instancesOf(name, application));
  if (named.length === 0)
    logger.warn(
      `svc.telemetry.sdk: node finds no instrumentations, so requests and queries have no spans: npm install ${autoPackage}`,
    );
  return { instrumentations };
}

function namesIn(manifest: Manifest | undefined): readonly string[] {
  return manifest === undefined ? [] : [...manifest.dependencies, ...manifest.devDependencies];
}

/** Applies the variables of the auto-instrumentations to separately installed packages. */
function isWanted(shortName: string): boolean {
  const listed = (variable: string): string[] =>
    (process.env[variable] ?? '')
      .split(',')
      .map((name) => name.trim())
      .filter(Boolean);
  const enabled = listed('OTEL_NODE_ENABLED_INSTRUMENTATIONS');
  const disabled = listed('OTEL_NODE_DISABLED_INSTRUMENTATIONS');
  return (enabled.length === 0 || enabled.includes(shortName)) && !disabled.includes(shortName);
}

/** One instance of each exported instrumentation class. Empty, with a warning, if the package cannot be loaded. */
function instancesOf(name: string, application: Application): unknown[] {
  try {
    const exported = application.load(name) as Record<string, unknown>;
    const classes = Object.keys(exported)
      .filter((key) => key.endsWith('Instrumentation'))
      .map((key) => exported[key])
      .filter((value) => typeof value === 'function');
    return [...new Set(classes)].map((each) => Reflect.construct(each as () => unknown, []));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    logger.warn(`${name} cannot be used: ${reason.split('\n')[0]}`);
    return [];
  }
}

interface Definitions {
  getModuleDefinitions?(): readonly { readonly name: string }[];
}

type SyncHooks = { register(options: { shouldInclude(url: string, specifier: string): boolean }): void };

/**
 * Instrumentations hook `require` themselves. For imports they need the loader of `import-in-the-middle`, in the copy
 * that they use. Returns the function that installs it: call it after svc has set its own hooks.
 */
function hookSdkImports(instrumentations: readonly unknown[], sdkFile: string): () => void {
  const names = new Set(
    (instrumentations as readonly Definitions[])
      .flatMap((each) => each.getModuleDefinitions?.() ?? [])
      .flatMap(({ name }) => namesOf(name)),
  );
  const user = createRequire(createRequire(sdkFile).resolve('@opentelemetry/instrumentation'));
  return () => {
    const reason = tryTo(() => install(user, names));
    if (reason !== undefined) logger.warn(`instrumentations do not see imports of ES modules: ${reason}`);
  };
}

function install(user: NodeJS.Require, names: ReadonlySet<string>): string | undefined {
  if (hasSoundSyncHooks()) {
    const { register } = user('import-in-the-middle/register-hooks.mjs') as SyncHooks;
    register({
      shouldInclude(url, specifier) {
        const file = url.replace(/[?#].*$/s, '');
        return [specifier, file, ownSpecifier(file, specifier)].some(
          (each) => each !== undefined && names.has(each),
        );
      },
    });
    return undefined;
  }
  if (preloadedBy() === 'require')
    return `--require does not capture imports on Node ${process.versions.node}; use --import svc/register`;
  Module.register(pathToFileURL(user.resolve('import-in-the-middle/hook.mjs')), {
    data: { include: [...names] },
  });
  return undefined;
}

/**
 * The specifier by the package's own name, if it is imported through a link: Next.js loads `drizzle-orm/pg-core` as
 * `drizzle-orm-4d62399e06797e94/pg-core`. `undefined` if the path contains the requested name.
 */
function ownSpecifier(url: string, specifier: string): string | undefined {
  const isBare = /^(?:@[^/]|[^./#@])[^:]*$/.test(specifier);
  if (!isBare || !url.startsWith('file:')) return undefined;
  const name = packageName(specifier);
  if (url.includes(`/node_modules/${name}/`)) return undefined;
  const folder = path.dirname(fileURLToPath(url));
  const own = nearestManifest(folder, (manifest) => manifest.name !== undefined)?.name;
  return own === undefined ? undefined : own + specifier.slice(name.length);
}

/** An old copy has other files. */
function tryTo(install: () => string | undefined): string | undefined {
  try {
    return install();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

interface Application {
  /** The nearest package.json with a name. */
  readonly manifest: Manifest | undefined;
  /** The file that `require` of a package loads; `undefined` if it is not installed. */
  fileOf(name: string): string | undefined;
  versionOf(name: string): string | undefined;
  load(name: string): unknown;
}

/** Resolves from the entry file, the configuration file and the working directory; then from svc itself, for pnpm. */
function applicationOf(baseDir: string, entry = process.argv[1], directory = process.cwd()): Application {
  const folders = [...(entry === undefined ? [] : [dirname(resolve(directory, entry))]), baseDir, directory];
  const places = [...folders.map((folder) => join(folder, 'noop.js')), import.meta.url].map((place) =>
    createRequire(place),
  );
  const fileOf = (name: string): string | undefined => {
    for (const place of places) {
      try {
        return place.resolve(name);
      } catch {}
    }
    return undefined;
  };
  const isNamed = ({ name }: Manifest): boolean => Boolean(name);
  return {
    manifest: folders
      .filter((folder) => !/[\\/]node_modules([\\/]|$)/.test(folder))
      .map((folder) => nearestManifest(folder, isNamed))
      .find((manifest) => manifest !== undefined),
    fileOf,
    versionOf(name) {
      const file = fileOf(name);
      return file && nearestManifest(dirname(file), (manifest) => manifest.name === name)?.version;
    },
    load(name) {
      return createRequire(import.meta.url)(fileOf(name) ?? name);
    },
  };
}

/** Where every 1.x copy of the API keeps its registrations. */
const globalsKey = Symbol.for('opentelemetry.js.api.1');

interface Registered {
  diag?: DiagLogger | undefined;
  readonly [part: string]: unknown;
}

type DiagLogger = Readonly<Record<(typeof levels)[number], (...args: unknown[]) => void>>;

const levels = ['error', 'warn', 'info', 'debug', 'verbose'] as const;

const globals = globalThis as unknown as Record<symbol, Registered | undefined>;

/** The registrations of an SDK; a diagnostic logger alone does not count. */
const sdkParts = ['trace', 'metrics', 'context', 'propagation', 'logs'];

/** The API's messages for a refused registration: a second one, or one by another API version. */
const notTaken = /duplicate registration of API|does not match previously registered API/;

function isSdkRegistered(): boolean {
  const registered = globals[globalsKey];
  return registered !== undefined && sdkParts.some((part) => registered[part] !== undefined);
}

/**
 * Calls back once when another SDK tries to register. The API reports that only to its diagnostic logger, which is
 * mostly unset: so svc listens in on any logger. This is not on a hot path.
 */
function watchLaterSdks(onAttempt: () => void): void {
  const registered = globals[globalsKey];
  if (registered === undefined) return;
  let isTold = false;
  const onError = (message: unknown): void => {
    if (isTold || !notTaken.test(String(message))) return;
    isTold = true;
    onAttempt();
  };
  let logger = listeningLogger(registered.diag, onError);
  Object.defineProperty(registered, 'diag', {
    configurable: true,
    enumerable: true,
    get: () => logger,
    set(next: DiagLogger | undefined) {
      logger = listeningLogger(next, onError);
    },
  });
}

/** A logger that passes errors to `onError`, whatever the level of the wrapped logger. */
function listeningLogger(logger: DiagLogger | undefined, onError: (message: unknown) => void): DiagLogger {
  const at = (level: (typeof levels)[number]) => {
    return (...args: unknown[]): void => {
      if (level === 'error') onError(args[0]);
      logger?.[level](...args);
    };
  };
  return Object.fromEntries(levels.map((level) => [level, at(level)])) as DiagLogger;
}

/** The SDK's time at the natural end, if the collector failed at the signal before it. */
const oneMoreTryMs = 250;

/**
 * Runs `finish` first, which ends the spans of svc's events; the SDK gets the rest of the time. Never rejects: a
 * collector that is down or hangs delays the process at most by its deadline.
 *
 * If the application handles the signal itself, it may run on: then the SDK is flushed, and shut down at the natural
 * end. `collector` keeps the state between the two.
 */
function finishBeforeSdk(
  finish: Finish,
  shutDown: () => Promise<void>,
  collector: { hasFailed: boolean },
): Finish {
  return async (deadlineMs, end) => {
    const startedAt = performance.now();
    const isFinished = await finish(deadlineMs, end);
    const leftMs = Math.max(0, deadlineMs - (performance.now() - startedAt));
    const endExports = end === 'handled' ? flushProviders : shutDown;
    const exports = watchExports();
    const limitMs = collector.hasFailed ? Math.min(leftMs, oneMoreTryMs) : leftMs;
    const failure = await failureWithin(limitMs, () => exports.run(endExports));
    if (failure !== undefined && !collector.hasFailed)
      logger.warn(`the collector did not take all spans and metrics at the end: ${failure.reason}`);
    collector.hasFailed = failure !== undefined;
    // Exports that hang may continue while the application runs, but must not keep the process alive.
    if (failure?.isLate) exports.unref();
    if (failure?.isLate && end === 'natural' && process.listenerCount('beforeExit') <= 1) process.exit();
    return isFinished;
  };
}

interface Watched {
  unref?(): void;
}

/** Tracks exporters' timers and connections in `run`: their retries would keep the process alive for ten seconds. */
function watchExports(): {
  run(work: () => Promise<void>): Promise<void>;
  /** Unrefs all of them, and later ones. */
  unref(): void;
} {
  const here = new AsyncLocalStorage<true>();
  const watched = new Set<WeakRef<Watched>>();
  let isUnrefd = false;
  const hook = createHook({
    // An error here would end the process, and asynchronous work would trigger this hook again.
    init(_id, type, _trigger, resource) {
      if (!kept.has(type)) return;
      try {
        if (here.getStore() !== true) return;
        const { handle = resource } = resource as { handle?: object };
        watched.add(new WeakRef(handle));
        if (isUnrefd) queueMicrotask(() => release(handle));
      } catch {}
    },
  });
  hook.enable();
  return {
    async run(work) {
      try {
        await here.run(true, work);
      } finally {
        hook.disable();
      }
    },
    unref() {
      isUnrefd = true;
      for (const each of watched) {
        const resource = each.deref();
        if (resource !== undefined) release(resource);
      }
    },
  };
}

/** Node's types of resources that keep a process alive: timers, connections, and reused connections of a pool. */
const kept = new Set(['Timeout', 'TCPWRAP', 'PIPEWRAP', 'HTTPCLIENTREQUEST', 'HTTPINCOMINGMESSAGE']);

function release(resource: Watched): void {
  try {
    resource.unref?.();
    // `unref` has no effect on a socket that is still connecting.
    const owner = Object.getOwnPropertySymbols(resource).find(
      ({ description }) => description === 'owner_symbol',
    );
    const socket =
      owner && (resource as Record<symbol, { connecting?: boolean; destroy?(): void } | null>)[owner];
    if (socket?.connecting) socket.destroy?.();
  } catch {}
}

interface Failure {
  readonly reason: string;
  readonly isLate: boolean;
}

async function failureWithin(limitMs: number, work: () => Promise<void>): Promise<Failure | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Failure>((resolve) => {
    const reason = 'it did not answer in time';
    timer = setTimeout(() => resolve({ reason, isLate: true }), limitMs);
  });
  const done = async (): Promise<Failure | undefined> => {
    try {
      await work();
      return undefined;
    } catch (error) {
      return { reason: reasonOf(error), isLate: false };
    }
  };
  const failure = await Promise.race([done(), late]);
  clearTimeout(timer);
  return failure;
}

/** Prefers the code: the message of an exporter may contain headers and the response body. */
function reasonOf(error: unknown): string {
  return String(partOf(error, 'code') ?? partOf(error, 'name') ?? 'unknown error');
}

/** Exporters reject with lists of errors, and wrap errors of Node. */
function partOf(error: unknown, part: 'code' | 'name', depth = 0): unknown {
  if (typeof error !== 'object' || error === null || depth > 4) return undefined;
  const { [part]: own, cause, errors } = error as Record<string, unknown>;
  if (typeof own === 'string' && own !== 'AggregateError') return own;
  const inside = [cause, ...(Array.isArray(error) ? error : []), ...(Array.isArray(errors) ? errors : [])];
  for (const each of inside) {
    const found = partOf(each, part, depth + 1);
    if (found !== undefined) return found;
  }
  return own;
}

interface Flushable {
  forceFlush?(): Promise<void>;
  getDelegate?(): Flushable;
}

/** Flushes the SDK and leaves it running. Rejects if the collector does not accept the data. */
async function flushProviders(): Promise<void> {
  const api = otelApi();
  const providers = [api?.trace.getTracerProvider(), api?.metrics.getMeterProvider()] as (
    | Flushable
    | undefined
  )[];
  await Promise.all(
    providers.map((provider) => {
      const flushable = provider?.getDelegate?.() ?? provider;
      return flushable?.forceFlush?.();
    }),
  );
}
