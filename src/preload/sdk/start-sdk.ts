import Module, { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { namesOf } from '../../capture/packages/resolve-package.ts';
import { hasSoundSyncHooks, preloadedBy } from '../../capture/source/node-hooks.ts';
import { packageName } from '../../capture/source/resolve-specifier.ts';
import { type Manifest, nearestManifest } from '../../ground/files.ts';
import type { Logger } from '../../observe/logger.ts';
import { otelApi } from '../../observe/otel-api.ts';
import { type Application, isSdkRegistered } from './application.ts';

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
      'OTEL_CONFIG_FILE does not count: the @opentelemetry/sdk-node that is installed reads no such file. Install a later one, or set the variables OTEL_* instead',
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
      'svc.telemetry.sdk: node runs no SDK: the file of OTEL_CONFIG_FILE sets none up (`disabled: true`), or is wrong, which OpenTelemetry has said above',
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
      `svc.telemetry.sdk: node finds no instrumentations, so requests and queries make no spans: npm install ${autoPackage}`,
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
    if (reason !== undefined) logger.warn(`instrumentations do not see what ES modules import: ${reason}`);
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
    return `import does not reach it with --require on Node ${process.versions.node}; use --import svc/register`;
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
