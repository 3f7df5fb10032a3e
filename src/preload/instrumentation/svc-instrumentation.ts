// instrumentation/: svc as an OpenTelemetry instrumentation, for an SDK that the application starts itself.

import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type { MeterProvider, TracerProvider } from '@opentelemetry/api';
import type { InstrumentationBase, InstrumentationModuleDefinition } from '@opentelemetry/instrumentation';
import { SvcError } from '../../ground/errors.ts';
import { nearestManifest } from '../../ground/files.ts';
import { loadChunk, shared } from '../../ground/lifecycle.ts';
import { version } from '../../ground/version.ts';
import type * as Engine from './control.ts';
import type { SvcInstrumentationConfig } from './control.ts';

const packageName = '@opentelemetry/instrumentation';
/** The first minor version of the SDK's 2.x line. */
const oldestMinor = 200;

type BaseClass = abstract new (
  name: string,
  version: string,
  config: SvcInstrumentationConfig,
) => InstrumentationBase<SvcInstrumentationConfig>;

interface FoundBase {
  readonly BaseClass: BaseClass;
  readonly problem: SvcError | undefined;
}

/** The base class from the application's copy. Without one, a stand-in: the application's import must not fail. */
export function findBaseClass(load: NodeJS.Require = createRequire(import.meta.url)): FoundBase {
  try {
    const old = tooOld(load);
    if (old !== undefined) return standIn(old);
    const { InstrumentationBase: found } = load(packageName) as { InstrumentationBase?: BaseClass };
    if (typeof found !== 'function') return standIn(`${packageName} has no InstrumentationBase`);
    return { BaseClass: found, problem: undefined };
  } catch (error) {
    const missing = /'(@[^']+)'/.exec((error as Error | null)?.message ?? '')?.[1] ?? packageName;
    return standIn(`${missing} cannot be loaded`);
  }
}

/** Reads package.json as a file: the package of the 3.x line does not export it. */
function tooOld(load: NodeJS.Require): string | undefined {
  const { version } =
    nearestManifest(dirname(load.resolve(packageName)), ({ name }) => name === packageName) ?? {};
  const [major, minor] = (version ?? '').split('.').map(Number);
  const isOld = major === 0 && minor !== undefined && minor < oldestMinor;
  return isOld ? `${packageName} ${version} is too old` : undefined;
}

function standIn(why: string): FoundBase {
  return {
    BaseClass: StandIn as unknown as BaseClass,
    problem: new SvcError(
      'SVC_PRELOAD_INSTRUMENTATION',
      `SvcInstrumentation does nothing, because ${why}: npm install ${packageName}, version 0.200 or later, or start with node --import svc/register`,
    ),
  };
}

/** Replaces a missing `InstrumentationBase`: the methods that an SDK calls, without effect. */
export abstract class StandIn {
  readonly instrumentationName: string;
  readonly instrumentationVersion: string;
  protected _config!: SvcInstrumentationConfig;

  constructor(name: string, version: string, config: SvcInstrumentationConfig) {
    this.instrumentationName = name;
    this.instrumentationVersion = version;
    this.setConfig(config);
    if (this._config.enabled) this.enable();
  }

  setConfig(config: SvcInstrumentationConfig): void {
    this._config = { enabled: true, ...config };
  }

  getConfig(): SvcInstrumentationConfig {
    return this._config;
  }

  enable(): void {}
  disable(): void {}
  isEnabled(): boolean {
    return false;
  }
  setTracerProvider(): void {}
  setMeterProvider(): void {}
  setLoggerProvider(): void {}
  getModuleDefinitions(): [] {
    return [];
  }
}

const { BaseClass: SvcInstrumentationBaseClass, problem } = findBaseClass();

/** CommonJS, so that it loads synchronously and once per process, when the first instrumentation is enabled. */
const control = (who: object) => (loadChunk(import.meta.url, './control.ts') as typeof Engine).controlOf(who);

/** The instances in this process, of any copy of the package. */
const made = shared('made-instrumentations', () => new WeakSet<object>());

/**
 * svc for `new NodeSDK({ instrumentations: [new SvcInstrumentation({ … })] })`. Does what `--import svc/register` does,
 * once per process; spans and metrics of svc go to the SDK's providers.
 *
 * Construct it before the application's modules are loaded: earlier modules are not captured.
 */
export class SvcInstrumentation extends SvcInstrumentationBaseClass {
  // No fields and no private methods here: the base class calls methods before they would be initialized.

  constructor(config: SvcInstrumentationConfig = {}) {
    super('svc', version, config);
    made.add(this);
  }

  /** ES modules and CommonJS have separate classes. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore-start lint/complexity/noThisInStatic: a subclass inherits this, and asks for its own
    if (this !== SvcInstrumentation) return Function.prototype[Symbol.hasInstance].call(this, value);
    // biome-ignore-end lint/complexity/noThisInStatic: as above
    return typeof value === 'object' && value !== null && made.has(value);
  }

  /** Starts capture, also after `disable()`. */
  override enable(): void {
    super.enable();
    control(this).enable(this.getConfig(), { problem, diag: this._diag });
  }

  /** Stops capture. Events in flight are published, then svc ends. */
  override disable(): void {
    super.disable();
    control(this).disable();
  }

  /** While svc runs, changes take effect after `disable()` and `enable()`. */
  override setConfig(config: SvcInstrumentationConfig): void {
    super.setConfig(config);
    // The base class calls it before svc can run.
    if (this._diag !== undefined) control(this).configure(config);
  }

  override setTracerProvider(provider: TracerProvider): void {
    super.setTracerProvider(provider);
    control(this).setTracerProvider(provider);
  }

  override setMeterProvider(provider: MeterProvider): void {
    super.setMeterProvider(provider);
    control(this).setMeterProvider(provider);
  }

  /** The files and packages of the targets. The definitions have no patches: svc captures by itself. */
  override getModuleDefinitions(): InstrumentationModuleDefinition[] {
    return control(this)
      .modulesOf(this.getConfig())
      .map((name) => ({ name, supportedVersions: ['*'], files: [] }));
  }

  protected override init(): InstrumentationModuleDefinition[] {
    return [];
  }
}
