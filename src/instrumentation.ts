export type { SvcInstrumentationConfig } from './preload/instrumentation/control.ts';
export { SvcInstrumentation } from './preload/instrumentation/svc-instrumentation.ts';
