export type { SvcInstrumentationConfig } from './preload/instrumentation/config.ts';
export { SvcInstrumentation } from './preload/instrumentation/svc-instrumentation.ts';
