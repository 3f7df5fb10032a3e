// sdk/: `svc.telemetry.sdk: node`, the OpenTelemetry SDK for applications that start none of their own.

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
import type { Logger } from '../../observe/logger.ts';
import { otelApi } from '../../observe/otel-api.ts';
import type { ProcessEnd } from '../process-end.ts';

export interface RunningSdk {
  /** Lets the instrumentations see what ES modules import. After svc has set its own hooks: Node takes the loader once. */
  hookImports(): void;
  /** False once it is shut down. */
  isRunning(): boolean;
  /** Milliseconds that events and spans may take once the process was told to end. */
  readonly deadlineMs: number;
  /** svc's events first, whose spans end with them; then the SDK, in what is left of the time. */
  finishAfter(finish: ProcessEnd['finish']): ProcessEnd['finish'];
}

const packageNameOfNodeSdk = '@opentelemetry/sdk-node';
/** As in `peerDependencies`; the second one is the first that is not tried. */
const versions = { least: 200, before: 400 } as const;

/**
 * Starts the SDK of the application's own installation, as the variables `OTEL_*` say. `undefined` where there is nothing to
 * start, which is said; a `SvcError` where it cannot be.
 */
export function startNodeSdk(config: Config, logger: Logger): RunningSdk | SvcError | undefined {
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
    return started(application, config, logger);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return new SvcError('SVC_PRELOAD_SDK', `the OpenTelemetry SDK could not be started: ${reason}`);
  }
}

function started(application: Application, config: Config, logger: Logger): RunningSdk {
  const instruments = findInstrumentations(application, logger);
  const { instrumentations } = instruments;
  // The name that the events carry.
  const { serviceName } = readSource(config.service);
  const options = { ...instruments, ...(serviceName !== null && { serviceName }) };
  const sdk = startSdk(application.load(packageNameOfNodeSdk) as SdkModule, options, logger);
  const hookImports = hookSdkImports(
    instrumentations,
    application.fileOf(packageNameOfNodeSdk) ?? packageNameOfNodeSdk,
    logger,
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
    finishAfter: (finish) => finishBeforeSdk(finish, shutDown, collector, logger),
  };
}

/** Why the package cannot be used, and what to do. */
function problemOf(version: string | undefined): string | undefined {
  const install = `npm install ${packageNameOfNodeSdk} @opentelemetry/auto-instrumentations-node`;
  if (version === undefined)
    return `svc.telemetry.sdk: node needs the package ${packageNameOfNodeSdk}, which is not installed: ${install}`;
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major === 0 && minor >= versions.least && minor < versions.before) return undefined;
  return `svc.telemetry.sdk: node needs ${packageNameOfNodeSdk} from 0.${versions.least}.0 on and below 0.${versions.before}.0, found ${version}: ${install}`;
}

/** What is used of the SDK that runs. */
interface StartedSdk {
  /** Rejects where the collector takes nothing. */
  shutdown(): Promise<void>;
}

interface SdkOptions extends Instruments {
  readonly serviceName?: string;
}

/** What is used of `@opentelemetry/sdk-node`: the class of both lines, and the function that reads a configuration file. */
export interface SdkModule {
  readonly NodeSDK: new (options: SdkOptions) => StartedSdk & { start(): void };
  /** Of the 3.x line. */
  readonly startNodeSdk?: (options: Instruments) => StartedSdk;
  /** The same, as the 2.x line calls it. */
  readonly startNodeSDK?: (options: Instruments) => StartedSdk;
}

/** As the variables `OTEL_*` say, or the file that `OTEL_CONFIG_FILE` names, of which the class knows nothing. */
export function startSdk(sdkModule: SdkModule, options: SdkOptions, logger: Logger): StartedSdk {
  if (process.env.OTEL_CONFIG_FILE?.trim()) {
    const start = sdkModule.startNodeSdk ?? sdkModule.startNodeSDK;
    if (start !== undefined) return startFromFile(start, options, logger);
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
  logger: Logger,
): StartedSdk {
  const sdk = start({ instrumentations });
  if (!isSdkRegistered()) {
    logger.warn(
      'svc.telemetry.sdk: node runs no SDK: the file of OTEL_CONFIG_FILE configures no SDK (`disabled: true`), or is invalid, see the lines of OpenTelemetry above',
    );
    return sdk;
  }
  // It does this itself where it starts from variables.
  const meters = otelApi()?.metrics.getMeterProvider();
  for (const each of instrumentations as readonly { setMeterProvider?(provider: unknown): void }[])
    each.setMeterProvider?.(meters);
  return sdk;
}

/** What the SDK is started with. */
interface Instruments {
  readonly instrumentations: readonly unknown[];
  /** Those that `OTEL_NODE_RESOURCE_DETECTORS` names and the SDK itself does not know. */
  readonly resourceDetectors?: readonly unknown[];
}

interface AutoInstrumentations {
  getNodeAutoInstrumentations(): readonly unknown[];
  getResourceDetectors?(): readonly unknown[];
}

const autoPackage = '@opentelemetry/auto-instrumentations-node';
const packagePrefix = '@opentelemetry/instrumentation-';

/**
 * All of `@opentelemetry/auto-instrumentations-node` where that is installed, else those whose packages the application's
 * package.json names. This list is the place for an instrumentation of svc's own.
 */
export function findInstrumentations(application: Application, logger: Logger): Instruments {
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
    .flatMap((name) => instancesOf(name, application, logger));
  if (named.length === 0)
    logger.warn(
      `svc.telemetry.sdk: node finds no instrumentations, so requests and queries have no spans: npm install ${autoPackage}`,
    );
  return { instrumentations };
}

function namesIn(manifest: Manifest | undefined): readonly string[] {
  return manifest === undefined ? [] : [...manifest.dependencies, ...manifest.devDependencies];
}

/** The variables of the auto-instrumentations, for packages that are installed one by one. */
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

/** Of each class that the package calls an instrumentation; none where it cannot be loaded, which is said. */
function instancesOf(name: string, application: Application, logger: Logger): unknown[] {
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
 * Instrumentations see by themselves what is required. What is imported they see through the loader of `import-in-the-middle`, in
 * the copy that they listen to. Returns what installs it, to be called when svc has installed its own hooks.
 */
export function hookSdkImports(
  instrumentations: readonly unknown[],
  sdkFile: string,
  logger: Logger,
): () => void {
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

/** Returns why that is not possible here. */
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
 * What a module is called by the package.json of its package, where it is imported by the name of a link: Next.js loads
 * `drizzle-orm/pg-core` as `drizzle-orm-4d62399e06797e94/pg-core`. `undefined` where its path says the name that was asked for.
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

/** A copy that is too old has other files. */
function tryTo(install: () => string | undefined): string | undefined {
  try {
    return install();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** What the application has installed. */
export interface Application {
  /** Its package.json: the nearest one with a name. */
  readonly manifest: Manifest | undefined;
  /** The file that `require` of a package loads; `undefined`: it is not installed. */
  fileOf(name: string): string | undefined;
  versionOf(name: string): string | undefined;
  /** Throws what loading it throws. */
  load(name: string): unknown;
}

/** From the entry file, the configuration file and the working directory; at last from svc itself, beside which pnpm puts peers. */
export function applicationOf(
  baseDir: string,
  entry = process.argv[1],
  directory = process.cwd(),
): Application {
  const folders = [...(entry === undefined ? [] : [dirname(resolve(directory, entry))]), baseDir, directory];
  const places = [...folders.map((folder) => join(folder, 'noop.js')), import.meta.url].map((place) =>
    createRequire(place),
  );
  const fileOf = (name: string): string | undefined => {
    for (const place of places) {
      try {
        return place.resolve(name);
      } catch {
        // Not from there.
      }
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

/** Where every copy of the API, of any 1.x, keeps what was registered. */
const globalsKey = Symbol.for('opentelemetry.js.api.1');

interface Registered {
  diag?: DiagLogger | undefined;
  readonly [part: string]: unknown;
}

type DiagLogger = Readonly<Record<(typeof levels)[number], (...args: unknown[]) => void>>;

const levels = ['error', 'warn', 'info', 'debug', 'verbose'] as const;

const globals = globalThis as unknown as Record<symbol, Registered | undefined>;

/** What an SDK registers; a logger for diagnostics alone is none. */
const sdkParts = ['trace', 'metrics', 'context', 'propagation', 'logs'];

/** What the API says of a registration that it does not take: of a second one, and of one by an API of another version. */
const notTaken = /duplicate registration of API|does not match previously registered API/;

/** Whether the application has started an SDK, or a part of one. */
export function isSdkRegistered(): boolean {
  const registered = globals[globalsKey];
  return registered !== undefined && sdkParts.some((part) => registered[part] !== undefined);
}

/**
 * Calls back, once, when something else is registered in the place of what is there. The API, in each of its copies, says so
 * to its diagnostic logger alone, which mostly nobody has set: so svc listens to whichever there is. Nothing that runs often
 * reads it.
 */
export function watchLaterSdks(onAttempt: () => void): void {
  const registered = globals[globalsKey];
  if (registered === undefined) return;
  let isTold = false;
  const hear = (message: unknown): void => {
    if (isTold || !notTaken.test(String(message))) return;
    isTold = true;
    onAttempt();
  };
  let logger = heard(registered.diag, hear);
  Object.defineProperty(registered, 'diag', {
    configurable: true,
    enumerable: true,
    get: () => logger,
    set(next: DiagLogger | undefined) {
      logger = heard(next, hear);
    },
  });
}

/** A logger that tells `hear` of errors, whatever the level of the one that it hands them on to. */
function heard(logger: DiagLogger | undefined, hear: (message: unknown) => void): DiagLogger {
  const at = (level: (typeof levels)[number]) => {
    return (...args: unknown[]): void => {
      if (level === 'error') hear(args[0]);
      logger?.[level](...args);
    };
  };
  return Object.fromEntries(levels.map((level) => [level, at(level)])) as DiagLogger;
}

/** What the SDK gets at the natural end where the collector has taken nothing at the signal before it. */
const oneMoreTryMs = 250;

/**
 * svc's events first, whose spans end with them, then the SDK, in what is left of the time. Never rejects: a collector that
 * is away or hangs costs the process no more than its deadline.
 *
 * Where the application handles the signal itself it may go on for a while: what there is so far is handed over then, and
 * the SDK is shut down at the natural end. `collector` is kept between the two.
 */
export function finishBeforeSdk(
  finish: ProcessEnd['finish'],
  shutDown: () => Promise<void>,
  collector: { hasFailed: boolean },
  logger: Logger,
): ProcessEnd['finish'] {
  return async (deadlineMs, end) => {
    const startedAt = performance.now();
    const isFinished = await finish(deadlineMs, end);
    const leftMs = Math.max(0, deadlineMs - (performance.now() - startedAt));
    const handOver = end === 'handled' ? flushProviders : shutDown;
    const exports = watchExports();
    const limitMs = collector.hasFailed ? Math.min(leftMs, oneMoreTryMs) : leftMs;
    const failure = await failureWithin(limitMs, () => exports.run(handOver));
    if (failure !== undefined && !collector.hasFailed)
      logger.warn(`the collector did not take all spans and metrics at the end: ${failure.reason}`);
    collector.hasFailed = failure !== undefined;
    // What still hangs now belongs to the exporters: it goes on while the application does, and keeps no process up.
    if (failure?.isLate) exports.letGo();
    if (failure?.isLate && end === 'natural' && process.listenerCount('beforeExit') <= 1) process.exit();
    return isFinished;
  };
}

interface Watched {
  unref?(): void;
}

/**
 * Knows the timers and connections that exporters make for what `run` starts. Their retries would keep the process up for
 * ten seconds.
 */
function watchExports(): {
  run(work: () => Promise<void>): Promise<void>;
  /** None of them keeps the process up any longer, nor those that come. */
  letGo(): void;
} {
  const here = new AsyncLocalStorage<true>();
  const watched = new Set<WeakRef<Watched>>();
  let isLetGo = false;
  const hook = createHook({
    // What is thrown here would end the process, and what waits would be seen here again.
    init(_id, type, _trigger, resource) {
      if (!kept.has(type)) return;
      try {
        if (here.getStore() !== true) return;
        const { handle = resource } = resource as { handle?: object };
        watched.add(new WeakRef(handle));
        if (isLetGo) queueMicrotask(() => release(handle));
      } catch {
        // One that is not known to be an exporter's stays as it is.
      }
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
    letGo() {
      isLetGo = true;
      for (const each of watched) {
        const resource = each.deref();
        if (resource !== undefined) release(resource);
      }
    },
  };
}

/** As Node names what keeps a process up: timers, connections, and connections of a pool that are used again. */
const kept = new Set(['Timeout', 'TCPWRAP', 'PIPEWRAP', 'HTTPCLIENTREQUEST', 'HTTPINCOMINGMESSAGE']);

function release(resource: Watched): void {
  try {
    resource.unref?.();
    // A connection that is not made yet keeps the process up all the same.
    const owner = Object.getOwnPropertySymbols(resource).find(
      ({ description }) => description === 'owner_symbol',
    );
    const socket =
      owner && (resource as Record<symbol, { connecting?: boolean; destroy?(): void } | null>)[owner];
    if (socket?.connecting) socket.destroy?.();
  } catch {
    // It has ended meanwhile.
  }
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

/** By its code where there is one: the message of an exporter can hold headers and the answer's body. */
function reasonOf(error: unknown): string {
  return String(partOf(error, 'code') ?? partOf(error, 'name') ?? 'unknown error');
}

/** Exporters reject with lists of errors, and wrap what Node has said. */
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
  /** Of the proxy that the API hands out for a tracer provider. */
  getDelegate?(): Flushable;
}

/** Hands over what the SDK holds, and leaves it running. Rejects where the collector does not take it. */
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
