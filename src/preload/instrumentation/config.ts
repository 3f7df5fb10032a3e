import type { InstrumentationConfig } from '@opentelemetry/instrumentation';
import type { SvcConfig } from '../../config/define-config.ts';

/**
 * The options of `svc.config.*` in code. They have priority over the file and the environment, which also apply. With
 * `enabled: false`, capture starts with `enable()`, which `NodeSDK` and `registerInstrumentations` call.
 */
export interface SvcInstrumentationConfig extends InstrumentationConfig, SvcConfig {}
