import type { InstrumentationConfig } from '@opentelemetry/instrumentation';
import type { SvcConfig } from '../../config/define-config.ts';

/**
 * What `svc.config.*` says, in code: it goes before the file and the environment, which count here as everywhere.
 * `enabled: false`: capture begins with `enable()`, which `NodeSDK` and `registerInstrumentations` call.
 */
export interface SvcInstrumentationConfig extends InstrumentationConfig, SvcConfig {}
