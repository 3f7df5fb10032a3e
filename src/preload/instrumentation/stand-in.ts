import type { SvcInstrumentationConfig } from './config.ts';

/** In the place of `InstrumentationBase` where that is not there: what an SDK calls, and nothing behind it. */
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
