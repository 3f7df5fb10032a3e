import { hostname } from 'node:os';
import { dirname, resolve } from 'node:path';
import type { Source } from '../envelope/envelope.ts';
import { type Manifest, nearestManifest } from '../ground/files.ts';
import { percentDecoded } from './context-store.ts';

interface SourceOptions {
  /** From the configuration: has priority. */
  readonly name?: string | null | undefined;
  readonly version?: string | null | undefined;
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** The application's entry file. Default: `process.argv[1]`. */
  readonly entry?: string | undefined;
  readonly directory?: string | undefined;
  readonly readHostname?: (() => string) | undefined;
}

/**
 * The name and version of the application, each from the first source that has it: the configuration,
 * `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, the nearest `package.json` with a name. `null` if unknown. Call it
 * once, at start.
 */
export function readSource(options: SourceOptions = {}): Source {
  const env = options.env ?? process.env;
  const attributes = resourceAttributes(env.OTEL_RESOURCE_ATTRIBUTES);
  let serviceName = options.name || env.OTEL_SERVICE_NAME || attributes.get('service.name') || null;
  let serviceVersion = options.version || attributes.get('service.version') || null;
  if (serviceName === null || serviceVersion === null) {
    const manifest = ownManifest(options.entry ?? process.argv[1], options.directory ?? process.cwd());
    serviceName ??= manifest?.name ?? null;
    serviceVersion ??= manifest?.version || null;
  }
  return { serviceName, serviceVersion, hostname: (options.readHostname ?? hostname)() || null };
}

/** The environment of the application, for people: such as `production`. */
export function environmentName(env: NodeJS.ProcessEnv = process.env): string | undefined {
  const attributes = resourceAttributes(env.OTEL_RESOURCE_ATTRIBUTES);
  // The second is OpenTelemetry's name before 1.27.
  return (
    attributes.get('deployment.environment.name') ||
    attributes.get('deployment.environment') ||
    env.NODE_ENV ||
    undefined
  );
}

/** Parses `key=value,…` with percent-encoded values; skips invalid entries. */
function resourceAttributes(text: string | undefined): Map<string, string> {
  const attributes = new Map<string, string>();
  for (const entry of (text ?? '').split(',')) {
    const equals = entry.indexOf('=');
    if (equals < 0) continue;
    const value = percentDecoded(entry.slice(equals + 1).trim());
    if (value) attributes.set(entry.slice(0, equals).trim(), value);
  }
  return attributes;
}

/** Searches upwards from the entry file, or from the working directory if that is a tool in `node_modules` (pm2, next). */
function ownManifest(entry: string | undefined, directory: string): Manifest | undefined {
  const path = entry === undefined ? undefined : resolve(directory, entry);
  const own = path !== undefined && !/[\\/]node_modules[\\/]/.test(path);
  // A manifest without a name, `{"type":"module"}` inside `dist`, is not the application's.
  const isNamed = ({ name }: Manifest) => Boolean(name);
  return (own ? nearestManifest(dirname(path), isNamed) : undefined) ?? nearestManifest(directory, isNamed);
}
