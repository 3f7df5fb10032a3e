import { createRequire } from 'node:module';
import type * as OpenTelemetry from '@opentelemetry/api';

export type OtelApi = typeof OpenTelemetry;

/** Where every copy of the API, of any 1.x, keeps what was registered; absent until somebody registers something. */
const globalsKey = Symbol.for('opentelemetry.js.api.1');
const globals = globalThis as Record<symbol, unknown>;

/** `null`: not tried yet. */
let api: OtelApi | undefined | null = null;

/**
 * The OpenTelemetry API, once there is anything to ask it; until then `undefined`, so that an application without
 * OpenTelemetry never pays for loading it (15 ms).
 */
export function otelApi(): OtelApi | undefined {
  if (api !== null) return api;
  return globals[globalsKey] === undefined ? undefined : loadOtelApi();
}

/** The OpenTelemetry API, loaded now; `undefined` where it is not installed. What is registered is one per process. */
export function loadOtelApi(): OtelApi | undefined {
  if (api === null) {
    try {
      api = createRequire(import.meta.url)('@opentelemetry/api') as OtelApi;
    } catch {
      api = undefined;
    }
  }
  return api;
}
