// instrumentation/: svc as an instrumentation of OpenTelemetry, for an SDK that the application starts itself.

import type { MeterProvider, TracerProvider } from '@opentelemetry/api';
import type { InstrumentationModuleDefinition } from '@opentelemetry/instrumentation';
import { shared } from '../../ground/lifecycle.ts';
import { loadChunk } from '../../ground/load-chunk.ts';
import { version } from '../../ground/version.ts';
import { findBaseClass } from './base-class.ts';
import type { SvcInstrumentationConfig } from './config.ts';
import type * as Engine from './control.ts';

const { BaseClass, problem } = findBaseClass();

/** CommonJS on purpose, and one per process: loaded synchronously, when the first one is enabled. */
const control = () => loadChunk(import.meta.url, './control.ts') as typeof Engine;

/** Those of this process, of whichever copy of the package. */
const made = shared('made-instrumentations', () => new WeakSet<object>());

/**
 * svc for `new NodeSDK({ instrumentations: [new SvcInstrumentation({ … })] })`. It runs what `--import svc/register` runs, once per
 * process; the spans and instruments of svc go to the providers that it is handed.
 *
 * Construct it before the application's modules are loaded: what is loaded before it is not captured.
 */
export class SvcInstrumentation extends BaseClass {
  // No fields and no private methods here: the base class calls these before they would be there.

  constructor(config: SvcInstrumentationConfig = {}) {
    super('svc', version, config);
    made.add(this);
  }

  /** ES modules and CommonJS have a class each. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore-start lint/complexity/noThisInStatic: a subclass inherits this, and asks for its own
    if (this !== SvcInstrumentation) return Function.prototype[Symbol.hasInstance].call(this, value);
    // biome-ignore-end lint/complexity/noThisInStatic: as above
    return typeof value === 'object' && value !== null && made.has(value);
  }

  /** Captures from now on, also again after `disable()`. */
  override enable(): void {
    super.enable();
    control().enable(this, this.getConfig(), { problem, diag: this._diag });
  }

  /** Captures nothing from now on. Events under way are published, then svc ends. */
  override disable(): void {
    super.disable();
    control().disable(this);
  }

  /** While svc runs, what it says takes effect with `disable()` and `enable()`. */
  override setConfig(config: SvcInstrumentationConfig): void {
    super.setConfig(config);
    // The base class calls it before svc can run.
    if (this._diag !== undefined) control().configure(this, config);
  }

  override setTracerProvider(provider: TracerProvider): void {
    super.setTracerProvider(provider);
    control().setTracerProvider(this, provider);
  }

  override setMeterProvider(provider: MeterProvider): void {
    super.setMeterProvider(provider);
    control().setMeterProvider(this, provider);
  }

  /** The files and packages of the targets. svc captures in them by itself: no definition has a patch. */
  override getModuleDefinitions(): InstrumentationModuleDefinition[] {
    return control()
      .modulesOf(this.getConfig())
      .map((name) => ({ name, supportedVersions: ['*'], files: [] }));
  }

  protected override init(): InstrumentationModuleDefinition[] {
    return [];
  }
}
